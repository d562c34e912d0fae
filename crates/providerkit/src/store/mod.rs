//! What outlives the process.
//!
//! A [`Store`] keeps records, fence marks and running transitions. The engine commits in groups: everything in one
//! [`Store::commit`] becomes durable together or not at all, and no call is answered before its commit returned.

mod error;
mod memory;
mod sqlite;

use std::sync::Arc;

use providerkit_backend::{MachineId, ShardId};

pub use self::{
    error::{Error, ErrorKind},
    memory::Memory,
    sqlite::{Found, Sqlite},
};
pub use crate::{
    engine::record::{Failure, Inputs, Record, Running, Shape},
    fence::Mark,
    revision::Boot,
};

/// Whatever is kept of one commit to the next.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// In the order of their ordinals. Marks of the machines are in [`marks`](Self::marks), not in the records.
    pub records: Vec<Record>,
    /// All fence marks, the longest unused first.
    pub marks: Vec<(MachineId, ShardId, Mark)>,
    /// Starts of the provider, oldest first.
    pub boots: Vec<Boot>,
    /// The newest revision ever given out.
    pub head: u64,
    /// The next free ordinal.
    pub next_ordinal: u64,
}

/// One change of what is kept.
#[derive(Clone, Debug)]
pub enum Change {
    /// A machine's record as it is now, its running transition included.
    Put(Arc<Record>),
    /// A machine is gone; its marks stay.
    Remove {
        /// Its ordinal.
        ordinal: u64,
    },
    /// A fence mark.
    Mark {
        /// The machine, known or not.
        machine: MachineId,
        /// The shard.
        shard: ShardId,
        /// Its newest token.
        mark: Mark,
    },
    /// A mark of an unknown machine had to make room.
    ForgetMark {
        /// The machine.
        machine: MachineId,
        /// The shard.
        shard: ShardId,
    },
    /// A new profile.
    Shape(Arc<Shape>),
    /// A profile that no machine has any more.
    ForgetShape {
        /// Its number.
        number: u64,
    },
    /// The provider started.
    Boot(Boot),
    /// The newest revision and the next free ordinal.
    Counters {
        /// The newest revision.
        head: u64,
        /// The next free ordinal.
        next_ordinal: u64,
    },
}

/// Keeps what must outlive the process. Blocking; the engine calls it from one task at a time.
pub trait Store: Send + 'static {
    /// Everything that was committed.
    ///
    /// # Errors
    /// When it cannot be read or is damaged; nothing is changed then.
    fn load(&mut self) -> Result<Snapshot, Error>;

    /// Makes the changes durable, all or none. Returns once they are.
    ///
    /// # Errors
    /// When they are not; the next commit may succeed.
    fn commit(&mut self, changes: &[Change]) -> Result<(), Error>;

    /// Called when there is time: erases inputs of ended transitions from wherever they still are.
    ///
    /// # Errors
    /// When it did not work; it is called again.
    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Whether [`settle`](Self::settle) has something to do.
    fn unsettled(&self) -> bool {
        false
    }

    /// How many bytes it takes, where that can be told.
    fn size(&self) -> Option<u64> {
        None
    }

    /// Ends it cleanly.
    ///
    /// # Errors
    /// When something could not be written back; what was committed is safe all the same.
    fn close(self: Box<Self>) -> Result<(), Error>;
}
