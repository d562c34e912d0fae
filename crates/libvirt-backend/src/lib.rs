//! Machines on people's own libvirt hosts: a [`Backend`](providerkit_backend::Backend) for `providerkit`.
//!
//! From a golden image it makes a virtual machine (Create), boots it into a cluster through its guest agent (Configure),
//! takes it out again (Drain) and removes it without a trace (Delete). It reaches hosts with `libvirt-rpc` and makes
//! seeds with `cloud-init`; it knows nothing of BigFleet's wire or of the engine's store.
//!
//! What holds everywhere:
//!
//! - **Every step finds what an earlier attempt made.** Names and UUIDs derive from provider, machine and operation
//!   ([`name`]), so a step that is run again, by a retry or a restarted provider, goes on instead of doubling.
//! - **Ownership is in the domain's metadata** ([`owner`]), and what does not carry this provider's name is never
//!   touched, whatever it is called.
//! - **A host that is down delays nothing but its own machines.** Each has connections of its own, tried for ever; a
//!   transition under way waits for its host within its own time.
//! - **Lists never ask a host.** What there is comes from an inventory that events keep true.
//!
//! Where to start reading: [`Libvirt`], then [`settings`].

mod backend;
mod budget;
mod catalogue;
mod configure;
mod create;
mod delivery;
mod describe;
pub mod doctor;
mod drain;
mod failure;
mod fleet;
mod guest;
mod heal;
mod host;
mod ignition;
mod janitor;
mod limit;
pub mod metric;
pub mod name;
pub mod owner;
mod plan;
mod pool;
mod remove;
mod seed;
mod serial;
pub mod settings;
pub mod uri_policy;
mod user_data;
mod watched;
mod xml;

pub use crate::{
    backend::Libvirt,
    fleet::{HostState, UpdateError},
    host::{Dial, Endpoint},
    ignition::{Ignition, IgnitionError},
    janitor::Leftover,
    seed::seed,
    serial::Serial,
    user_data::UserData,
};
