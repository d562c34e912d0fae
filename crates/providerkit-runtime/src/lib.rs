//! What every BigFleet provider process needs around the engine and its backend.

pub mod config;
mod provider;
pub mod serve;
pub mod settings;
pub mod telemetry;
mod tls;

pub use crate::{provider::run, tls::Error as TlsError};
