//! What travels between a client and a daemon, without any I/O: no runtime, no clock, no file.
//!
//! [`xdr`] turns values into bytes and back, [`frame`] cuts a byte stream into messages, [`procedure`] says what can be
//! called. Everything else is generated: one module a program ([`remote`], [`qemu`], [`lxc`], [`admin`], [`keepalive`],
//! and [`net`] for what they share), and [`constant`] for the flags and states of the public headers.

pub mod frame;
pub mod procedure;
pub mod xdr;

#[cfg(test)]
mod captured;
mod error;
mod generated;
mod macros;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod sample;

pub use error::Error;
pub use generated::{Event, PROCEDURES, admin, constant, describe, keepalive, lxc, net, qemu, remote};
