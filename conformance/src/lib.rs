//! Black-box certification of BigFleet capacity providers, in any language.
//!
//! The harness knows the wire (`bigfleet.v1alpha1.CapacityProvider`) and a command to start; nothing of the provider's
//! insides. A [`Behaviour`] is one promise with the function that checks it: the 93 registered ones (`B101`…), the 25
//! tests of the upstream baseline (`TestConformance_…`), and extensions (`X101`…) for what those do not look at.
//! [`run()`] checks those that the chosen [`Profile`]s need and answers a [`Report`].
//!
//! What it is not: a load generator, a linter of logs, or a judge of how a provider does things.
//!
//! ```no_run
//! use conformance::{Options, Source, Verdict};
//!
//! # #[tokio::main(flavor = "multi_thread")]
//! # async fn main() -> Result<(), conformance::Error> {
//! let options = Options::new(Source::Command("./my-provider".into())).profiles("core,cloud")?;
//! let report = conformance::run(options, |event| println!("{event}")).await?;
//! assert_eq!(report.verdict, Verdict::Certified);
//! # Ok(())
//! # }
//! ```
//!
//! Start reading at [`registry`], then any file of `behaviours/`; `run` is the scheduler, `lane` and `launch` the
//! processes, `fleet` who has which machines. [`reference`](mod@reference) is a small provider that keeps every promise, and can be told
//! to break any one of them: that is how the harness itself is tested.

mod baseline;
mod behaviour;
mod behaviours;
mod call;
mod client;
mod context;
mod error;
mod expect;
mod extension;
mod fleet;
mod lane;
mod latency;
mod launch;
mod mapping;
pub mod mutants;
mod options;
mod outcome;
mod random;
pub mod reference;
pub mod registry;
pub mod report;
mod run;
mod trace;
mod walk;

pub use behaviour::{Area, Behaviour, Capability, Isolation, Lane, MachineKind, Profile};
pub(crate) use context::Context;
pub use error::Error;
pub use latency::Histogram;
pub use mapping::{Claims, Fault, Flags, Mapping};
pub use options::{Options, Source};
pub use outcome::Failure;
pub(crate) use outcome::Outcome;
pub use report::{Report, Row, Status, Verdict};
pub use run::{Event, run};
pub use trace::Line;
