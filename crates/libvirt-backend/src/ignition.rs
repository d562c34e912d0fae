//! Ignition: what Flatcar and Fedora CoreOS take instead of cloud-init's seed (field report F53).

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};

/// What a machine is told at its first boot by an operator who uses Ignition: a configuration of version 3, checked.
///
/// `Debug` shows its size, not its content.
#[derive(Clone)]
pub struct Ignition {
    raw: Vec<u8>,
}

/// Why something is no configuration for Ignition. One line each, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IgnitionError {
    /// Longer than [`Ignition::LIMIT`].
    #[error(
        "it is {size} bytes long, of {limit} that it may be; leave large files to `storage.files[].contents.source`"
    )]
    TooLarge {
        /// Bytes.
        size: usize,
        /// The most.
        limit: usize,
    },
    /// Ignition reads JSON alone.
    #[error(
        "it is no JSON ({reason}), so it is no configuration for Ignition; Butane is translated by `butane --strict`, \
         and cloud-init's user-data needs `machine.user_data_format = \"cloud-init\"`"
    )]
    NotJson {
        /// What is wrong, and where.
        reason: String,
    },
    /// Nothing says which version of the specification it follows, so Ignition refuses it.
    #[error(
        "it has no `ignition.version`, which Ignition needs; write for example {{\"ignition\": {{\"version\": \"3.3.0\"}}}}"
    )]
    NoVersion,
    /// Only version 3 can be merged with the machine's name.
    #[error(
        "it is of version {version} of Ignition's configuration, and must be of version 3; write it anew with Butane \
         (`variant: flatcar` or `fcos`)"
    )]
    Version {
        /// What it says.
        version: String,
    },
}

impl Ignition {
    /// Most bytes of a configuration.
    pub const LIMIT: usize = 1 << 20;

    /// Checks a configuration.
    ///
    /// # Errors
    /// Too long, no JSON, no version or one that is not 3.
    pub fn new(raw: impl Into<Vec<u8>>) -> Result<Self, IgnitionError> {
        let raw = raw.into();
        if raw.len() > Self::LIMIT {
            return Err(IgnitionError::TooLarge {
                size: raw.len(),
                limit: Self::LIMIT,
            });
        }
        let document: Value = serde_json::from_slice(&raw).map_err(|error| IgnitionError::NotJson {
            reason: error.to_string(),
        })?;
        let Some(version) = document.pointer("/ignition/version").and_then(Value::as_str) else {
            return Err(IgnitionError::NoVersion);
        };
        if version.split('.').next() != Some("3") {
            return Err(IgnitionError::Version {
                version: version.to_owned(),
            });
        }
        Ok(Self { raw })
    }

    /// What looks like a secret, each with where it is: in its values, also in `data:` addresses.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        let mut found = Vec::new();
        // invariant: it was read when it was checked.
        if let Ok(document) = serde_json::from_slice(&self.raw) {
            secrets(&document, "", &mut found);
        }
        found
    }

    /// The configuration of one machine: its name, and the operator's configuration merged over it, so that wherever both say
    /// something, the operator's holds (Ignition's specification, `ignition.config.merge`).
    #[must_use]
    pub(crate) fn of_machine(&self, hostname: &str) -> Vec<u8> {
        let merged = format!("data:;base64,{}", BASE64.encode(&self.raw));
        let document = json!({
            "ignition": { "version": "3.0.0", "config": { "merge": [{ "source": merged }] } },
            "storage": { "files": [{
                "path": "/etc/hostname",
                "mode": 0o644,
                "overwrite": true,
                "contents": { "source": format!("data:,{hostname}%0A") },
            }] },
        });
        document.to_string().into_bytes()
    }
}

impl std::fmt::Debug for Ignition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ignition")
            .field("raw", &format_args!("<{} bytes>", self.raw.len()))
            .finish()
    }
}

fn secrets(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                secrets(member, &format!("{pointer}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                secrets(item, &format!("{pointer}/{number}"), found);
            }
        }
        Value::String(text) => {
            let content = text.strip_prefix("data:").and_then(payload);
            let content = content.unwrap_or_else(|| text.clone().into_bytes());
            let here = cloud_init::Secret::find(&content);
            found.extend(here.into_iter().map(|secret| format!("{pointer}, {secret}")));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// What is in a `data:` address (RFC 2397), if it can be read.
fn payload(address: &str) -> Option<Vec<u8>> {
    let (kind, data) = address.split_once(',')?;
    let data = percent_encoding::percent_decode_str(data).collect::<Vec<u8>>();
    if kind.ends_with(";base64") {
        return BASE64.decode(data).ok();
    }
    Some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{"ignition": {"version": "3.3.0"}}"#;

    #[test]
    fn what_ignition_would_not_take_is_refused_with_a_remedy() {
        for (raw, remedy) in [
            ("variant: fcos\nversion: 1.5.0\n", "`butane --strict`"),
            ("#cloud-config\n{}\n", "user_data_format"),
            ("{}", "no `ignition.version`"),
            (r#"{"ignition": {"version": 3}}"#, "no `ignition.version`"),
            (r#"{"ignition": {"version": "2.3.0"}}"#, "of version 2.3.0"),
            (r#"{"ignition": {"version": "30.0.0"}}"#, "of version 30.0.0"),
        ] {
            let error = Ignition::new(raw).unwrap_err().to_string();
            assert!(error.contains(remedy), "{raw}: {error}");
        }
        let large = format!("{SMALL}{}", " ".repeat(Ignition::LIMIT));
        assert!(Ignition::new(large).unwrap_err().to_string().contains("source"));
        assert!(Ignition::new(SMALL).is_ok());
        assert!(Ignition::new(r#"{"ignition": {"version": "3.6.0-experimental"}}"#).is_ok());
    }

    #[test]
    fn a_machines_configuration_carries_the_operators_byte_for_byte() {
        let whole = Ignition::new(SMALL).unwrap().of_machine("node-1");
        let document: Value = serde_json::from_slice(&whole).unwrap();
        let source = document.pointer("/ignition/config/merge/0/source").unwrap();
        let merged = payload(source.as_str().unwrap().strip_prefix("data:").unwrap()).unwrap();
        assert_eq!(merged, SMALL.as_bytes());
    }

    #[test]
    fn secrets_are_found_in_values_and_in_what_they_carry() {
        let coded = BASE64.encode("K3S_TOKEN=abc\n");
        let document = json!({
            "ignition": {"version": "3.0.0"},
            "passwd": {"users": [{"name": "core", "passwordHash": "$y$j9T$x", "sshAuthorizedKeys": ["ssh-ed25519 AAAA a@b"]}]},
            "storage": {"files": [
                {"path": "/a", "contents": {"source": "data:,hello%0A"}},
                {"path": "/b", "contents": {"source": format!("data:text/plain;base64,{coded}")}},
                {"path": "/c", "contents": {"source": "data:,x%0Ajoin_token%3Dabc%0A"}},
            ]},
        });
        let found = Ignition::new(document.to_string()).unwrap().secrets();
        assert_eq!(
            found,
            [
                "/storage/files/1/contents/source, line 1: a token (`K3S_TOKEN`)",
                "/storage/files/2/contents/source, line 2: a token (`join_token`)",
            ]
        );
    }
}
