//! What a binary's own part of a process does for the rest of it.

use crate::settings::Log;

/// The binary's own part: what only it knows of the substrate behind its backend and of the configuration.
pub trait Operator: Send + Sync + 'static {
    /// Sets the gauges of the substrate from memory. Called before every scrape: it must not block.
    fn record_gauges(&self) {}

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
