//! A host as text, so that it can outlive the process it is in.

use serde::{Deserialize, Serialize};

use super::{
    domain::Domain,
    host::Host,
    network::Network,
    node_device::Device,
    pool::Pool,
    record::{self, Record},
    secret::Secret,
    table::Table,
    world::{Keep, World},
};
use crate::base64;

/// What a [`Daemon`](super::Daemon) and its host remember: domains and how they run, guests' files, pools with all
/// bytes, networks, secrets with their values, devices.
///
/// It is no part of it how guests behave, what faults there are and who is connected: that is code, and set again. Nor
/// what a guest's agent has open and runs: it is as if that had restarted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Snapshot(serde_json::Value);

/// The part of a world that lasts.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) host: Host,
    pub(super) domains: Table<Domain>,
    pub(super) pools: Table<Pool>,
    pub(super) networks: Table<Network>,
    pub(super) secrets: Table<Secret>,
    pub(super) devices: Table<Device>,
    pub(super) counter: u64,
    /// The host and the counter that were told last.
    pub(super) kept: Option<Host>,
    pub(super) kept_counter: u64,
}

/// What an earlier life left cannot be taken over.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct RestoreError(#[from] Cause);

#[derive(Debug, thiserror::Error)]
pub(super) enum Cause {
    #[error("this is not what a fake daemon of this version remembered")]
    Unreadable(#[from] serde_json::Error),
    #[error("this is not all that a fake daemon remembered: there is {0}")]
    Partial(&'static str),
}

impl From<serde_json::Error> for RestoreError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.into())
    }
}

impl RestoreError {
    pub(super) const fn parts(what: &'static str) -> Self {
        Self(Cause::Partial(what))
    }
}

impl World {
    pub(super) fn snapshot(&self) -> Snapshot {
        let records = self.state.records().into_iter();
        let text = |bytes: Vec<u8>| serde_json::Value::String(base64::encode(&bytes));
        Snapshot(
            records
                .map(|record| (record.key, record.value.map_or(serde_json::Value::Null, text)))
                .collect(),
        )
    }

    pub(super) fn restore(&mut self, snapshot: &Snapshot) -> Result<(), RestoreError> {
        let record = |(key, value): (&String, &serde_json::Value)| {
            let value = value.as_str().and_then(base64::decode);
            let value = value.ok_or(RestoreError::parts("a value that is no base64"))?;
            Ok(Record {
                key: key.clone(),
                value: Some(value),
            })
        };
        let records = snapshot.0.as_object().into_iter().flatten().map(record);
        self.load(records.collect::<Result<Vec<_>, RestoreError>>()?)
    }

    pub(super) fn live_on(&mut self, left: Vec<Record>, keeper: Box<Keep>) -> Result<(), RestoreError> {
        let first = if left.is_empty() {
            self.state.take_changes(false);
            self.state.records()
        } else {
            self.load(left)?;
            Vec::new()
        };
        self.set_keeper(keeper, first);
        Ok(())
    }

    fn load(&mut self, records: impl IntoIterator<Item = Record>) -> Result<(), RestoreError> {
        self.state = record::assemble(records)?;
        self.agents.clear();
        self.sessions.clear();
        self.resume_boots();
        Ok(())
    }
}

/// Types that are written as the text they show, such as UUIDs.
pub(super) mod text {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(in crate::fake) fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(in crate::fake) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// Open enumerations, which are numbers.
pub(super) mod number {
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(in crate::fake) fn serialize<T: Copy + Into<i32>, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i32((*value).into())
    }

    pub(in crate::fake) fn deserialize<'de, T: From<i32>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        i32::deserialize(from).map(T::from)
    }
}

/// Bytes, as base64.
pub(super) mod bytes {
    use std::sync::Arc;

    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use crate::base64;

    pub(in crate::fake) fn serialize<S: Serializer>(value: &Arc<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&base64::encode(value))
    }

    pub(in crate::fake) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Vec<u8>>, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = base64::decode(&text).ok_or_else(|| D::Error::custom("not base64"))?;
        Ok(Arc::new(bytes))
    }
}
