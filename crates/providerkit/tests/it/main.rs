//! The engine from outside: in virtual time on a scripted backend, on real SQLite files, and as example processes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets a surprise fails"
)]

mod adopted;
mod changed;
mod client;
mod crash;
mod deadline;
mod examples;
mod fleet;
mod lifecycle;
mod migrate;
mod reconcile;
mod recycle;
mod refuse;
mod restart;
mod scripted;
mod sqlite;
mod withheld;
mod withheld_wire;
