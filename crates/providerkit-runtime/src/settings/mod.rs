//! The settings every provider process has.
//!
//! [`Config`] is what people write; [`Settings`] is what the process works with, and can only be had from a
//! configuration without mistakes.

mod address;
mod admin;
mod listen;
mod log;
mod shutdown;
mod traces;
mod transitions;

use std::{path::PathBuf, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Findings;

pub use self::{
    address::{Address, InvalidAddress},
    admin::{Admin, AdminConfig},
    listen::{Listen, ListenConfig, TlsConfig, TlsFiles},
    log::{Log, LogConfig, LogFormat},
    shutdown::{Shutdown, ShutdownConfig},
    traces::{Traces, TracesConfig},
    transitions::{FailedSlots, OnRestart, TimeoutsConfig, Transitions, TransitionsConfig},
};

/// The configuration every provider process has. A binary flattens it into the root of its own and adds sections.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct Config {
    /// The name of this provider: part of every machine's host reference and of the names of fake machines. Keep it
    /// for the life of the provider.
    pub provider: String,
    /// The gRPC port that BigFleet calls.
    pub listen: ListenConfig,
    /// The port for probes and metrics.
    pub admin: AdminConfig,
    /// The file that holds the durable state; without one everything is forgotten when the process ends.
    pub state: Option<PathBuf>,
    /// How machines go from state to state.
    pub transitions: TransitionsConfig,
    /// How the process ends.
    pub shutdown: ShutdownConfig,
    /// What is logged, and how.
    pub log: LogConfig,
    /// Where traces go.
    pub traces: TracesConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            provider: "provider".into(),
            listen: ListenConfig::default(),
            admin: AdminConfig::default(),
            state: None,
            transitions: TransitionsConfig::default(),
            shutdown: ShutdownConfig::default(),
            log: LogConfig::default(),
            traces: TracesConfig::default(),
        }
    }
}

/// What a provider process works with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The name of this provider.
    pub provider: Arc<str>,
    /// The gRPC port.
    pub listen: Listen,
    /// The port for probes and metrics; absent when it was switched off.
    pub admin: Option<Admin>,
    /// The file that holds the durable state.
    pub state: Option<PathBuf>,
    /// How machines go from state to state.
    pub transitions: Transitions,
    /// How the process ends.
    pub shutdown: Shutdown,
    /// What is logged, and how.
    pub log: Log,
    /// Where traces go.
    pub traces: Traces,
}

impl Settings {
    /// Reads a configuration that was loaded, noting every mistake. Only of worth when there was none.
    pub fn parse(config: Config, findings: &mut Findings) -> Self {
        if config.provider.is_empty() {
            findings.refuse("provider", "must not be empty");
        }
        let listen = Listen::parse(config.listen, findings);
        let admin = Admin::parse(&config.admin, findings);
        if admin
            .as_ref()
            .is_some_and(|admin| admin.address.clashes(&listen.address))
        {
            let problem = format!("is the address of the gRPC port too, `{}`", listen.address);
            findings.refuse("admin.addr", problem);
        }
        Self {
            provider: config.provider.into(),
            listen,
            admin,
            state: present(config.state),
            transitions: Transitions::parse(&config.transitions, findings),
            shutdown: Shutdown::parse(&config.shutdown),
            log: Log::parse(config.log, findings),
            traces: Traces::parse(config.traces, findings),
        }
    }
}

/// A path that was given; an empty one was not, as with the reference's flags.
fn present(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty())
}

fn address(key: &str, text: &str, findings: &mut Findings) -> Address {
    text.parse().unwrap_or_else(|error: InvalidAddress| {
        findings.refuse(key, error);
        Address::any(0)
    })
}
