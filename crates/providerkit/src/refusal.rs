//! Why a call was refused.

use std::fmt;

/// What kind of refusal; each has its own status code on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The request itself is wrong: `INVALID_ARGUMENT`.
    Invalid,
    /// The caller may not speak for that shard: `PERMISSION_DENIED`.
    NotAllowed,
    /// The fencing token is not newer: `FAILED_PRECONDITION`, which nothing else ever gets.
    Fenced,
    /// There is no such machine: `NOT_FOUND`.
    NotFound,
    /// The machine is in the wrong state for it: `ABORTED`.
    Position,
    /// This provider never does that: `UNIMPLEMENTED`.
    Unsupported,
    /// There is no room now: `RESOURCE_EXHAUSTED`.
    Exhausted,
    /// The store did not take it, or the provider is going down: `UNAVAILABLE`. Nothing was changed.
    Unavailable,
}

/// A refused call. It changed nothing but, where the fence passed, the fence mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    kind: RefusalKind,
    message: String,
}

impl Refusal {
    pub(crate) fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// What kind of refusal.
    #[must_use]
    pub const fn kind(&self) -> RefusalKind {
        self.kind
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
