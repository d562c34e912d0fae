//! What every BigFleet provider process needs around the engine and its backend.

pub mod config;
pub mod settings;
pub mod telemetry;
