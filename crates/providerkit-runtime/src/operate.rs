//! What a binary's own part of a process does for the rest of it.

use serde::Serialize;

use crate::settings::Log;

/// The binary's own part: what only it knows of the substrate behind its backend and of the configuration.
pub trait Operator: Send + Sync + 'static {
    /// Sets the gauges of the substrate from memory. Called before every scrape: it must not block.
    fn record_gauges(&self) {}

    /// What is known of the hosts, from memory. Called often: it must not block.
    fn hosts(&self) -> Vec<HostStatus> {
        Vec::new()
    }

    /// Reads the configuration again and puts in force what can be (SIGHUP). May block; called within a tokio runtime,
    /// never twice at a time.
    ///
    /// # Errors
    /// Everything that is wrong, one line each. Nothing has changed then.
    fn reload(&self) -> Result<Reloaded, Vec<String>> {
        Err(vec![
            "this provider reads its configuration only when it starts".to_owned(),
        ])
    }
}

/// A binary that has nothing to add.
impl Operator for () {}

/// A configuration that was read again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reloaded {
    /// What is logged from now on.
    pub log: Log,
    /// Keys whose new values are only in force after a restart.
    pub needs_restart: Vec<String>,
}

impl Reloaded {
    /// A configuration that is in force but for these keys.
    #[must_use]
    pub const fn new(log: Log, needs_restart: Vec<String>) -> Self {
        Self { log, needs_restart }
    }
}

/// A host, as far as the status page and the probes care.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostStatus {
    /// The zone it belongs to.
    pub zone: String,
    /// Its name.
    pub name: String,
    /// Why it cannot be reached; absent when it can.
    pub down: Option<String>,
    /// Why it takes no new machines though it can be reached.
    pub closed: Option<String>,
    /// Machines on it.
    pub machines: usize,
    /// Virtual CPUs.
    pub vcpus: Share,
    /// Bytes of memory.
    pub memory: Share,
    /// Bytes of storage.
    pub pool: Storage,
}

/// What there is for machines, and what is given to some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// What there is.
    pub capacity: u64,
    /// What is given.
    pub allocated: u64,
}

/// A pool's size and what is free of it, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Storage {
    /// Its size.
    pub capacity: u64,
    /// What is free.
    pub free: u64,
}
