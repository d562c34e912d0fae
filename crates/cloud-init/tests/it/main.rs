//! Seeds as others read them: a reader of our own, the tools and kernel of Linux, and cloud-init's own code.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test says what it found by failing"
)]

mod cloud_init_itself;
mod image;
mod reader;
mod tools;
mod unpacked;
