//! What every BigFleet provider process needs around the engine and its backend: configuration in layers, logs and
//! metrics, TLS that renews itself, probes, a gRPC server and an end in order.
//!
//! It is neither the engine (`providerkit`) nor a command line: a binary says what its flags mean, adds sections to
//! the configuration, makes its backend and calls [`run`].
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use providerkit_runtime::{
//!     config::Loader,
//!     serve::{Ended, Signals},
//!     settings::{Config, Settings},
//!     telemetry::{self, BuildInfo, Metrics},
//! };
//! # use providerkit::Backend;
//!
//! async fn serve(backend: Arc<dyn Backend>) -> Result<Ended, Box<dyn std::error::Error>> {
//!     let loaded = Loader::<Config>::new()
//!         .file("/etc/shelf.toml")
//!         .environment("SHELF", std::env::vars_os())
//!         .load();
//!     let settings = loaded.finish(Settings::parse)?;
//!     telemetry::init_log(&settings.log)?;
//!     telemetry::report_panics();
//!     let metrics = Metrics::install("shelf_", BuildInfo::new("1.0.0", "unknown", "unknown"))?;
//!     let signals = Signals::of_process()?;
//!     Ok(providerkit_runtime::run(&settings, Some(metrics), signals, backend).await?)
//! }
//! ```
//!
//! Where to start reading: [`serve`](mod@serve), which is the life of a process; then [`settings`] and [`config`].

pub mod client;
pub mod config;
mod provider;
pub mod serve;
pub mod settings;
pub mod telemetry;
pub mod tls;

pub use crate::{provider::run, tls::Error as TlsError};
