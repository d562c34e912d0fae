//! The backend on real libvirt hosts with real guests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "this is a test from its first line to its last"
)]

mod cluster;
mod counted;
mod lab;
mod live;
mod node;
mod walk;
