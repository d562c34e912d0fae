//! A host as text, so that it can outlive the process it is in.

use serde::{Deserialize, Serialize};

use super::{
    domain::Domain, host::Host, network::Network, node_device::Device, pool::Pool, secret::Secret, table::Table,
    world::World,
};

/// What a [`Daemon`](super::Daemon) and its host remember: domains and how they run, guests' files, pools with all
/// bytes, networks, secrets with their values, devices.
///
/// It is no part of it how guests behave, what faults there are and who is connected: that is code, and set again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Snapshot(serde_json::Value);

/// The part of a world that lasts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) host: Host,
    pub(super) domains: Table<Domain>,
    pub(super) pools: Table<Pool>,
    pub(super) networks: Table<Network>,
    pub(super) secrets: Table<Secret>,
    pub(super) devices: Table<Device>,
    pub(super) counter: u64,
}

/// A snapshot that is none, or of another version of this library.
#[derive(Debug, thiserror::Error)]
#[error("this is no snapshot of a fake daemon of this version")]
pub struct RestoreError(#[from] serde_json::Error);

impl World {
    pub(super) fn snapshot(&self) -> Snapshot {
        // invariant: all keys are text and no type refuses to be written.
        Snapshot(serde_json::to_value(&self.state).unwrap_or_default())
    }

    pub(super) fn restore(&mut self, snapshot: &Snapshot) -> Result<(), RestoreError> {
        self.state = State::deserialize(&snapshot.0)?;
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
