//! `meta-data`: who this machine is.

use std::{collections::BTreeMap, fmt};

use crate::{Error, Hostname, yaml};

/// What tells cloud-init one incarnation of a machine from the next.
///
/// What cloud-init does once per instance, it does again when this changes: give a machine a new one with each Create,
/// and the same for all its boots until then (field report F45). 1 to 128 of `a-zA-Z0-9._-`; a directory of the guest
/// has this name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(String);

impl InstanceId {
    const LIMIT: usize = 128;

    /// Checks an id.
    ///
    /// # Errors
    /// [`Error::InstanceId`].
    pub fn new(id: impl Into<String>) -> Result<Self, Error> {
        let id = id.into();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let fits = (1..=Self::LIMIT).contains(&id.len()) && id.bytes().all(plain);
        if fits && id.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            Ok(Self(id))
        } else {
            Err(Error::InstanceId { id })
        }
    }

    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The `meta-data` document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaData {
    instance_id: InstanceId,
    hostname: Hostname,
    extra: BTreeMap<String, String>,
}

impl MetaData {
    /// The two values every seed needs.
    #[must_use]
    pub fn new(instance_id: InstanceId, hostname: Hostname) -> Self {
        Self {
            instance_id,
            hostname,
            extra: BTreeMap::new(),
        }
    }

    /// One more value, which user-data with a `## template: jinja` line reads as `{{ ds.meta_data.KEY }}`.
    ///
    /// # Errors
    /// [`Error::MetaDataKey`] for a key that is not `[a-z][a-z0-9_]*`, or one cloud-init has a meaning of its own for.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Result<Self, Error> {
        const TAKEN: &[&str] = &[
            "dsmode",
            "hostname",
            "instance_id",
            "local_hostname",
            "network_interfaces",
            "public_keys",
        ];
        let key = key.into();
        let plain = key
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !plain || !key.starts_with(|first: char| first.is_ascii_lowercase()) || TAKEN.contains(&key.as_str()) {
            return Err(Error::MetaDataKey { key });
        }
        self.extra.insert(key, value.into());
        Ok(self)
    }

    /// This incarnation.
    #[must_use]
    pub fn instance_id(&self) -> &InstanceId {
        &self.instance_id
    }

    /// The machine's name.
    #[must_use]
    pub fn hostname(&self) -> &Hostname {
        &self.hostname
    }

    /// The document.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let own = [
            ("instance-id", self.instance_id.as_str()),
            ("local-hostname", self.hostname.as_str()),
        ];
        let extra = self.extra.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let line = |(key, value): (&str, &str)| format!("{key}: {}\n", yaml::quoted(value));
        own.into_iter().chain(extra).map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(id: &str) -> MetaData {
        MetaData::new(InstanceId::new(id).unwrap(), Hostname::new("web-1").unwrap())
    }

    #[test]
    fn the_document_names_instance_and_host() {
        let yaml = meta("3fa1-2").with("zone", "rack \"1\"").unwrap().to_yaml();
        assert_eq!(
            yaml,
            "instance-id: \"3fa1-2\"\nlocal-hostname: \"web-1\"\nzone: \"rack \\\"1\\\"\"\n"
        );
    }

    #[test]
    fn another_incarnation_has_another_document_and_the_same_one_does_not() {
        assert_ne!(meta("m-1").to_yaml(), meta("m-2").to_yaml());
        assert_eq!(meta("m-1").to_yaml(), meta("m-1").to_yaml());
    }

    #[test]
    fn an_id_is_a_name_for_a_directory() {
        for id in ["", ".", "..", "a/b", "a b", "-a", &"x".repeat(129)] {
            assert!(InstanceId::new(id).is_err(), "{id}");
        }
    }

    #[test]
    fn cloud_inits_own_keys_cannot_be_overwritten() {
        for key in ["local_hostname", "Zone", "", "1a", "a-b", "public_keys"] {
            assert!(meta("m").with(key, "x").is_err(), "{key}");
        }
    }
}
