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
//!     let build = BuildInfo::new("1.0.0", "unknown", "unknown");
//!     let tracing = telemetry::init(&settings, "shelf", build)?;
//!     telemetry::report_panics();
//!     let metrics = Metrics::install("shelf_", build)?;
//!     let signals = Signals::of_process()?;
//!     let ended = providerkit_runtime::run(&settings, Some(metrics), signals, backend, Arc::new(())).await;
//!     tracing.flush().await;
//!     Ok(ended?)
//! }
//! ```
//!
//! Where to start reading: [`serve`](mod@serve), which is the life of a process; then [`settings`] and [`config`].

pub mod config;
mod operate;
mod provider;
pub mod serve;
pub mod settings;
mod status;
pub mod telemetry;
mod tls;

pub use crate::{
    operate::{HostStatus, Operator, Reloaded, Share, Storage},
    provider::{run, run_with},
    tls::Error as TlsError,
};
