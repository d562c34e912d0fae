//! The contract engine of a BigFleet capacity provider.
//!
//! Implement [`Backend`] for your substrate, start an [`Engine`] on a [`store`], and serve it: the engine owes BigFleet
//! everything else. Fencing, idempotent retries, transitions that go on over a crash, bindings, lists with cursors and
//! pages, FAILED slots that come back: one rule a file, as pure functions, with one task that owns all state.
//!
//! ```
//! use std::sync::Arc;
//!
//! use providerkit::{
//!     Backend, CapacityType, ConfigureRequest, CreateRequest, Created, DrainRequest, Engine, Error, HostRef, Known,
//!     Options, Profile, Slot, async_trait, store,
//! };
//!
//! struct Shelf;
//!
//! #[async_trait]
//! impl Backend for Shelf {
//!     async fn describe(&self, _: &[Known]) -> Result<Vec<Slot>, Error> {
//!         Ok(vec![Slot::new("shelf-1", Profile::new("shelf-4", "zone-a", CapacityType::BareMetal))])
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
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::start(Options::new("shelf"), Box::new(store::Memory::default()), Arc::new(Shelf)).await?;
//! let service = providerkit::server(engine.clone()); // add it to a tonic server
//! # drop(service);
//! engine.stop(std::time::Duration::ZERO).await?;
//! # Ok(())
//! # }
//! ```
//!
//! It is not a process: configuration, TLS, telemetry and signals are `providerkit-runtime`'s. `examples/minimal.rs` is
//! a complete provider without it. Start reading at [`Backend`], then [`Options`], then `engine/accept.rs`.

pub mod binding;
mod caller;
mod convert;
mod engine;
pub mod fence;
pub mod idempotency;
pub mod metric;
mod refusal;
pub mod revision;
mod service;
pub mod store;
pub mod validate;

pub use providerkit_backend::{self as backend, *};

pub use crate::{
    caller::{Caller, Peer},
    convert::message,
    engine::{
        Engine, Failed, FailedSlots, OnRestart, Options, StartError, Status, Stopped, Summary, Timeouts, UnderWay,
    },
    refusal::{Refusal, RefusalKind},
    service::{MAX_MESSAGE_BYTES, Service, server},
};
