//! What the engine keeps of one machine.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use providerkit_backend::{Known, Machine, OperationId, Profile, State, Transition};

use crate::{fence::Marks, idempotency::Operations};

/// A profile shared by all machines that have it, with what is derived from it once.
#[derive(Clone, PartialEq)]
pub struct Shape {
    /// Its number in the store.
    pub number: u64,
    /// The profile's zone.
    pub zone: Arc<str>,
    /// The profile itself.
    pub profile: Arc<Profile>,
    /// Its fields as they stand in an encoded machine.
    pub wire: Bytes,
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shape")
            .field("number", &self.number)
            .field("profile", &self.profile)
            .finish_non_exhaustive()
    }
}

/// What a transition was asked to do, beyond which machine. Kept only while it runs.
#[derive(Clone, PartialEq, Eq)]
pub enum Inputs {
    /// Nothing more.
    None,
    /// A Configure's secret; cluster and metadata are on the machine.
    Bootstrap(Bytes),
    /// A Drain's grace period.
    Grace(Duration),
}

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bootstrap(blob) => write!(f, "Bootstrap(<{} bytes>)", blob.len()),
            Self::Grace(grace) => write!(f, "Grace({grace:?})"),
        }
    }
}

/// A transition under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The operation, as in the ack.
    pub id: OperationId,
    /// What it does.
    pub transition: Transition,
    /// When it was accepted.
    pub accepted: SystemTime,
    /// When it is given up.
    pub deadline: SystemTime,
    /// How often it was driven, this time included.
    pub attempt: u32,
    /// What it was asked to do.
    pub inputs: Inputs,
}

/// How a machine became FAILED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The operation that failed.
    pub operation: OperationId,
    /// What it was.
    pub transition: Transition,
    /// When it failed.
    pub at: SystemTime,
    /// Whether the backend has cleaned up since.
    pub cleaned: bool,
}

/// One machine. A record is never changed, only replaced.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Place in the order machines were added; never used again.
    pub ordinal: u64,
    /// When what List shows of it last changed; 0 if it never was shown.
    pub revision: u64,
    /// The revision at which a Delete last brought it back to SPECULATIVE; 0 if none has.
    pub returned: u64,
    /// The backend's name of the slot.
    pub slot: Arc<str>,
    /// 1 for the slot's first machine id, one more each time it came back under a fresh one.
    pub generation: u32,
    /// Whether the slot brought its own host, so that its machine begins IDLE.
    pub hosted: bool,
    /// Why the slot cannot be created, in the words of the last look at the substrate.
    pub withheld: Option<Arc<str>>,
    /// The machine; its profile is the shape's.
    pub machine: Machine,
    /// The shared profile.
    pub shape: Arc<Shape>,
    /// Accepted operations, for retries.
    pub operations: Operations,
    /// Fence marks.
    pub marks: Marks,
    /// The transition under way, if any.
    pub running: Option<Arc<Running>>,
    /// Set exactly while FAILED.
    pub failure: Option<Box<Failure>>,
}

impl Record {
    /// The record of a machine that is new here; its revision is set when it is put.
    #[must_use]
    pub fn added(ordinal: u64, slot: Arc<str>, generation: u32, machine: Machine, shape: Arc<Shape>) -> Self {
        Self {
            ordinal,
            revision: 0,
            returned: 0,
            slot,
            generation,
            hosted: machine.host.is_some(),
            withheld: None,
            machine,
            shape,
            operations: Operations::default(),
            marks: Marks::default(),
            running: None,
            failure: None,
        }
    }

    /// What a backend is told of it: a handful of shared texts.
    #[must_use]
    pub fn known(&self) -> Known {
        let known = Known::new(Arc::clone(&self.slot), self.machine.clone());
        let under_way = self.running.as_deref().map(|running| running.id);
        let uncleaned = self.failure.as_deref().filter(|failure| !failure.cleaned);
        match under_way.or_else(|| uncleaned.map(|failure| failure.operation)) {
            Some(operation) => known.operation(operation),
            None => known,
        }
    }

    /// Whether no List shows it: it would offer what cannot be created.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.withheld.is_some() && self.machine.state == State::Speculative
    }

    /// The revision under which deltas look at it, if any does. A hidden machine is looked at for what a caller must
    /// hear all the same: that its Delete has ended.
    #[must_use]
    pub fn changed(&self) -> Option<u64> {
        (!self.is_hidden() || self.returned > 0).then_some(self.revision)
    }

    /// Whether BigFleet sees any difference between two records of one machine.
    #[must_use]
    pub fn looks_like(&self, other: &Self) -> bool {
        self.machine == other.machine
    }
}
