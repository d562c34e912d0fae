//! What calls carry.

use std::{collections::BTreeMap, fmt};

use bigfleet_proto::{HostRef, ListFilter, Machine, MachineState};
use bytes::Bytes;

/// Opaque notes on a binding.
pub(crate) type Metadata = BTreeMap<String, String>;

/// A shard of BigFleet, the maker of tokens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shard(pub(crate) String);

impl Shard {
    pub(crate) fn at(&self, epoch: i64, sequence: i64) -> Token {
        Token {
            shard: self.0.clone(),
            epoch,
            sequence,
        }
    }
}

/// What a mutating call carries; the default is the zero token, which is never fenced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) shard: String,
    pub(crate) epoch: i64,
    pub(crate) sequence: i64,
}

impl fmt::Display for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return out.write_str("unfenced");
        }
        write!(out, "{}({}, {})", self.shard, self.epoch, self.sequence)
    }
}

/// The zero token.
pub(crate) fn free() -> Token {
    Token::default()
}

/// The arguments of a Configure, but for the machine and the token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) cluster: String,
    pub(crate) metadata: Metadata,
    pub(crate) blob: Bytes,
}

impl Binding {
    /// To a cluster, with a small blob and no metadata.
    pub(crate) fn to(cluster: impl Into<String>) -> Self {
        Self {
            cluster: cluster.into(),
            metadata: Metadata::new(),
            blob: Bytes::from_static(b"#!/bin/sh\nexit 0\n"),
        }
    }

    pub(crate) fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    pub(crate) fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    pub(crate) fn blob(mut self, blob: impl Into<Bytes>) -> Self {
        self.blob = blob.into();
        self
    }
}

/// Only machines in these states.
pub(crate) fn only(states: &[MachineState]) -> ListFilter {
    ListFilter {
        states: states.iter().map(|state| i32::from(*state)).collect(),
        ..ListFilter::default()
    }
}

/// At most so many machines.
pub(crate) fn capped(max_results: i32) -> ListFilter {
    ListFilter {
        max_results,
        ..ListFilter::default()
    }
}

/// What changed after a cursor.
pub(crate) fn since(revision: impl Into<Bytes>) -> ListFilter {
    ListFilter {
        since_revision: revision.into(),
        ..ListFilter::default()
    }
}

/// The next page of what changed after a cursor.
pub(crate) fn page(max_results: i32, revision: impl Into<Bytes>) -> ListFilter {
    ListFilter {
        max_results,
        ..since(revision)
    }
}

/// The machine's host, where it has one (contract §8).
pub(crate) fn host_of(machine: &Machine) -> Option<&HostRef> {
    machine
        .host
        .as_ref()
        .filter(|host| !host.provider.is_empty() || !host.r#ref.is_empty())
}

/// A state as the contract spells it.
pub(crate) fn state_name(state: MachineState) -> &'static str {
    let name = state.as_str_name();
    name.strip_prefix("MACHINE_STATE_").unwrap_or(name)
}

/// A machine in a line.
pub(crate) fn sketch(machine: &Machine) -> String {
    let mut text = format!("{} {}", machine.id, state_name(machine.state()));
    if MachineState::try_from(machine.state).is_err() {
        text = format!("{} state {}", machine.id, machine.state);
    }
    if let Some(host) = host_of(machine) {
        text += &format!(" host={}/{}", host.provider, host.r#ref);
    }
    if !machine.cluster.is_empty() {
        text += &format!(" cluster={:?}", machine.cluster);
    }
    if !machine.shard_metadata.is_empty() {
        text += &format!(" metadata={}", machine.shard_metadata.len());
    }
    if !machine.last_error.is_empty() {
        text += &format!(" last_error={:?}", machine.last_error);
    }
    text
}
