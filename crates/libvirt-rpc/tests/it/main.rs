//! The library from outside: against the daemon in memory, hand-made peers and, where it is installed, real libvirtd.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test says what it found by failing"
)]

mod auth;
mod calls;
mod coverage;
mod elsewhere;
mod events;
mod fake_guest;
mod fake_host;
mod fake_kept;
mod fake_life;
mod fake_storage;
mod junk;
mod libvirtd;
mod observer;
mod old;
mod qemu;
mod real;
mod real_domain;
mod real_host;
mod real_storage;
mod rows;
#[cfg(feature = "sasl")]
mod sasl;
#[cfg(feature = "russh")]
mod ssh;
mod sshd;
mod streams;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod transports;
