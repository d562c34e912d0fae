//! The runtime from outside.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of tests are tests"
)]

mod config;
mod desk;
mod pki;
mod probe;
mod serve;
mod settings;
mod tls;
mod tls_reload;
