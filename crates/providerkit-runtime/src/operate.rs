//! What a binary's own part of a process does for the rest of it.

/// The binary's own part: what only it knows of the substrate behind its backend.
pub trait Operator: Send + Sync + 'static {
    /// Sets the gauges of the substrate from memory. Called before every scrape: it must not block.
    fn record_gauges(&self) {}
}

/// A binary that has nothing to add.
impl Operator for () {}
