//! How a provider is started, where its flags differ from the reference's, and what it does not claim.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde::Deserialize;

use crate::{
    behaviour::{Behaviour, Capability},
    error::Error,
    fleet::CREATE_FAULT,
};

/// A flag mapping file. Every value has the reference's as its default, so that a file says only what differs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Mapping {
    /// Templates of flags.
    pub flags: Flags,
    /// Variables set for every process.
    pub env: BTreeMap<String, String>,
    /// The provider that fails on demand.
    pub fault: Fault,
    /// What is not claimed.
    pub claims: Claims,
    /// Multiplies every limit: 1 for simulated machines, more for real ones.
    pub timeout_factor: Option<f64>,
}

/// Templates of flags: `{}` stands for the value, a space parts two arguments, an empty template leaves the flag out.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Flags {
    /// `HOST:PORT` to serve on.
    pub addr: String,
    /// The provider's name.
    pub provider: String,
    /// Machines that are only simulated.
    pub fake: String,
    /// How many.
    pub seed_count: String,
    /// The state file.
    pub state: String,
    /// The limit of every transition; `{}` is whole seconds.
    pub transition_timeout: String,
    /// The server's certificate.
    pub tls_cert: String,
    /// Its key.
    pub tls_key: String,
    /// The authority of client certificates.
    pub tls_ca: String,
    /// Given to every process, before the others.
    pub extra: Vec<String>,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            addr: "--addr={}".into(),
            provider: "--provider={}".into(),
            fake: "--use-fake-backend".into(),
            seed_count: "--seed-count={}".into(),
            state: "--state={}".into(),
            transition_timeout: "--transition-timeout={}s".into(),
            tls_cert: "--tls-cert={}".into(),
            tls_key: "--tls-key={}".into(),
            tls_ca: "--tls-ca={}".into(),
            extra: Vec::new(),
        }
    }
}

impl Flags {
    /// The arguments of a flag; none where the provider does not have it.
    pub(crate) fn fill(template: &str, value: &str) -> Vec<String> {
        template
            .split_whitespace()
            .map(|word| word.replace("{}", value))
            .collect()
    }
}

/// How failures are injected (contract §12.3).
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Fault {
    /// The command to start, with the flags of above. None: there is no such provider, and what needs it is skipped.
    pub command: Option<String>,
    /// `KEY=VALUE`, the label of machines whose Create fails.
    pub create_label: String,
    /// Configure onto this cluster fails at once.
    pub error: String,
    /// Blocks until its time is up.
    pub timeout: String,
    /// Reports success a second after its time was up.
    pub slow_ok: String,
    /// Configure works, the later Drain fails.
    pub drain_error: String,
    /// Configure works, the node never becomes Ready.
    pub readiness_block: String,
    /// Whether the command takes the flag for simulated machines.
    pub takes_fake_flag: bool,
}

impl Default for Fault {
    fn default() -> Self {
        let (label, value) = CREATE_FAULT;
        Self {
            command: None,
            create_label: format!("{label}={value}"),
            error: "fault-error".into(),
            timeout: "fault-timeout".into(),
            slow_ok: "fault-slow-ok".into(),
            drain_error: "fault-drain-error".into(),
            readiness_block: "fault-readiness-block".into(),
            takes_fake_flag: false,
        }
    }
}

impl Fault {
    pub(crate) fn label(&self) -> (String, String) {
        let (label, value) = self.create_label.split_once('=').unwrap_or((&self.create_label, ""));
        (label.to_owned(), value.to_owned())
    }
}

/// What a provider does not claim, and so is not asked for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Claims {
    /// Names of capabilities, or ids of extension behaviours. A registered behaviour can only be left out with the
    /// capability it needs.
    pub without: Vec<String>,
}

impl Claims {
    /// Why the behaviour is not asked for, where it is not.
    pub(crate) fn excuse(&self, behaviour: &Behaviour) -> Option<String> {
        let by_name = |name: &str| self.without.iter().any(|without| without == name);
        match behaviour.needs {
            Some(needed) if by_name(needed.name()) => Some(format!("`{needed}` is not claimed")),
            _ if by_name(behaviour.id) => Some(format!("`{}` is not claimed", behaviour.id)),
            _ => None,
        }
    }
}

impl Mapping {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read or says what is not understood.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::because(format!("mapping `{}` cannot be read", path.display()), source))?;
        Self::parse(&text)
            .map_err(|source| Error::because(format!("mapping `{}` is not understood", path.display()), source))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// What is not understood.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mapping: Self =
            toml::from_str(text).map_err(|source| Error::because("a mapping is TOML of known keys", source))?;
        mapping.check()?;
        Ok(mapping)
    }

    /// Looks whether what it says makes sense.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), Error> {
        let registry = crate::registry::all();
        for name in &self.claims.without {
            let extension = registry
                .iter()
                .any(|behaviour| behaviour.id == name && behaviour.profiles.contains(&crate::Profile::Extension));
            if Capability::parse(name).is_none() && !extension {
                let names: Vec<_> = Capability::ALL.iter().map(|capability| capability.name()).collect();
                return Err(Error::new(format!(
                    "`claims.without` names `{name}`, which is neither a capability ({}) nor an extension behaviour",
                    names.join(", ")
                )));
            }
        }
        if self
            .timeout_factor
            .is_some_and(|factor| !factor.is_finite() || factor <= 0.0)
        {
            return Err(Error::new("`timeout_factor` must be above 0"));
        }
        Ok(())
    }
}

/// Whole seconds, rounded up: what the flag of the reference takes.
pub(crate) fn seconds(duration: Duration) -> String {
    duration.as_millis().div_ceil(1000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_only_what_differs() {
        let mapping =
            Mapping::parse("[flags]\nstate = \"--db {}\"\nfake = \"\"\n[claims]\nwithout = [\"delete\", \"X301\"]\n")
                .unwrap();
        assert_eq!(Flags::fill(&mapping.flags.state, "/x y"), ["--db", "/x y"]);
        assert!(Flags::fill(&mapping.flags.fake, "").is_empty());
        assert_eq!(Flags::fill(&mapping.flags.addr, "h:1"), ["--addr=h:1"]);
    }

    #[test]
    fn what_cannot_be_left_out_is_said() {
        for text in [
            "[claims]\nwithout = [\"B302\"]",
            "[claims]\nwithout = [\"everything\"]",
            "colour = 1",
            "timeout_factor = 0.0",
        ] {
            assert!(Mapping::parse(text).is_err(), "{text}");
        }
    }
}
