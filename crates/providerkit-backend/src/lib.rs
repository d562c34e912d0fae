//! The page a provider author reads: the [`Backend`] trait, what it is asked and what it answers.
//!
//! BigFleet walks machines through SPECULATIVE → IDLE → CONFIGURED → IDLE → SPECULATIVE. The engine in `providerkit`
//! keeps everything that is owed to BigFleet on the way (fencing, idempotency, deadlines, durable state, lists); a
//! backend does the work on the substrate, one async function a transition:
//!
//! | the engine is in | it calls | success leads to |
//! |---|---|---|
//! | CREATING | [`Backend::create`] | IDLE, with the host that was made |
//! | CONFIGURING | [`Backend::configure`], then [`Backend::ready`] | CONFIGURED |
//! | DRAINING | [`Backend::drain`] | IDLE |
//! | DELETING | [`Backend::delete`] | SPECULATIVE |
//! | FAILED | [`Backend::cleanup`] until it succeeds | the slot comes back under a new machine id |
//!
//! **Looks.** [`Backend::describe`] is told the machines that are [`Known`] and answers with the [`Slot`]s there are. The
//! engine adds new slots, takes over what a known one costs and offers, and retires a machine whose host is [`Lost`]. It
//! removes nothing because it was not mentioned. Between looks at intervals, [`Backend::changed`] asks for one.
//!
//! **A slot that cannot be created now** is [withheld](Slot::withheld): BigFleet gives up a machine for good when its
//! Create is refused, so what cannot work is better not offered. While its machine is SPECULATIVE it is then in no List,
//! and a Create is refused with the reason; in other states the word changes nothing. It is kept, over restarts too, until
//! the next look; but the end of a Delete clears it, since that has given the slot's own room back and BigFleet waits to
//! see the machine SPECULATIVE. A look that was asked before that end does not bring it back.
//!
//! **A lost state** is rebuilt from the substrate, as far as that tells: of a slot that the engine does not know, the
//! backend says which machine it has [`Adopted`], with its id, host and binding. So write those on whatever is made, where
//! `describe` finds them again.
//!
//! This crate holds no engine, no server, no store and no runtime: a backend is compiled and tested without them.
//!
//! ```
//! use providerkit_backend::{
//!     Backend, CapacityType, ConfigureRequest, CreateRequest, Created, DrainRequest, Error, HostRef, Known, Profile,
//!     Slot, async_trait,
//! };
//!
//! struct Shelf;
//!
//! #[async_trait]
//! impl Backend for Shelf {
//!     async fn describe(&self, _: &[Known]) -> Result<Vec<Slot>, Error> {
//!         let profile = Profile::new("shelf-4", "zone-a", CapacityType::BareMetal).resource("cpu", "4");
//!         Ok((0..3).map(|n| Slot::new(format!("shelf-{n}"), profile.clone())).collect())
//!     }
//!     async fn create(&self, request: CreateRequest) -> Result<Created, Error> {
//!         Ok(Created::new(HostRef::new("shelf", request.machine.id.as_str())))
//!     }
//!     async fn configure(&self, _: ConfigureRequest) -> Result<(), Error> {
//!         Ok(())
//!     }
//!     async fn drain(&self, _: DrainRequest) -> Result<(), Error> {
//!         Ok(())
//!     }
//! }
//! ```
//!
//! Where to start reading: [`Backend`], then [`Slot`] and [`Operation`].

mod backend;
mod error;
mod machine;
mod name;
mod operation;
mod request;
mod slot;

pub use async_trait::async_trait;
pub use bytes::Bytes;
pub use tokio_util::sync::CancellationToken;

pub use crate::{
    backend::{Backend, Capabilities, DeleteSupport},
    error::{Error, ErrorKind},
    machine::{CapacityType, HostRef, Machine, Profile, State},
    name::{ClusterId, EmptyName, MachineId, ShardId},
    operation::{Operation, OperationId, Transition},
    request::{CleanupRequest, ConfigureRequest, CreateRequest, Created, DeleteRequest, DrainRequest, ReadyRequest},
    slot::{Adopted, Known, Lost, Slot},
};
