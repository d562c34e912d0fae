//! The whole libvirt remote protocol in pure async Rust.
//!
//! No C library is linked and nothing is `unsafe`. What travels is in [`wire`]: every procedure, struct, event and flag
//! of the remote, qemu, lxc, admin and keepalive programs, generated from libvirt's own description.

pub mod api;
pub mod event;
pub mod fake;
pub mod stream;
pub mod transport;
pub mod uri;
pub mod wire;

mod connection;
mod error;

pub use connection::{Connection, Reason, options::Options};
pub use error::{DaemonError, Error, Kind};
