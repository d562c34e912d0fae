//! Host names that Linux, DNS and Kubernetes all take.

use std::{fmt, str::FromStr};

use crate::{Error, hash};

/// One RFC 1123 label: 1 to 63 of `a-z0-9-`, with a letter or digit at either end.
///
/// Linux holds 64 bytes, a DNS label and a Kubernetes label value 63; a longer name leaves a node that never registers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hostname(String);

impl Hostname {
    /// Longest name, in bytes.
    pub const LIMIT: usize = 63;
    /// Digits of the hash in a derived name: 80 bits.
    const DIGITS: usize = 16;
    /// Bytes of the readable beginning of a derived name.
    const PREFIX: usize = 24;

    /// Checks a name. Upper case is refused: Kubernetes would not find its node again.
    ///
    /// # Errors
    /// [`Error::Hostname`].
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let fits = (1..=Self::LIMIT).contains(&name.len()) && name.bytes().all(plain);
        if fits && !name.starts_with('-') && !name.ends_with('-') {
            Ok(Self(name))
        } else {
            Err(Error::Hostname { name })
        }
    }

    /// A valid name for any text: a readable beginning of `prefix`, `-`, and 80 bits of SHA-256 over `identity`.
    ///
    /// Two texts that share their first 63 characters, or differ in case or punctuation only, have different names; the
    /// same text has always the same. `identity` is the text that tells machines (or incarnations of one) apart.
    ///
    /// ```
    /// use cloud_init::Hostname;
    ///
    /// let name = Hostname::derive("Pool A/general", "libvirt/pool-a/machine-0001#3");
    /// assert_eq!(name.as_str(), "pool-a-general-tfr89qsrdl09504r");
    /// ```
    #[must_use]
    pub fn derive(prefix: &str, identity: &str) -> Self {
        let digits: String = hash::base32(identity.as_bytes()).chars().take(Self::DIGITS).collect();
        let mut readable = String::new();
        for symbol in prefix.chars().map(|symbol| symbol.to_ascii_lowercase()) {
            if readable.len() == Self::PREFIX {
                break;
            }
            if symbol.is_ascii_alphanumeric() {
                readable.push(symbol);
            } else if !readable.is_empty() && !readable.ends_with('-') {
                readable.push('-');
            }
        }
        let readable = readable.trim_end_matches('-');
        if readable.is_empty() {
            Self(digits)
        } else {
            Self(format!("{readable}-{digits}"))
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Hostname {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_labels_are_names() {
        for name in ["a", "0", "bf-machine-1", &"x".repeat(63)] {
            assert!(Hostname::new(name).is_ok(), "{name}");
        }
        for name in ["", "-a", "a-", "a.b", "A", "a_b", "ä", " a", &"x".repeat(64)] {
            assert!(Hostname::new(name).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_derived_from_any_text_is_valid(prefix in any::<String>(), identity in any::<String>()) {
            let name = Hostname::derive(&prefix, &identity);
            prop_assert_eq!(Hostname::new(name.as_str()).unwrap(), name.clone());
            prop_assert_eq!(Hostname::derive(&prefix, &identity), name);
        }

        #[test]
        fn different_identities_have_different_names(shared in "[a-z/._-]{0,80}", one in any::<u64>(), other in any::<u64>()) {
            prop_assume!(one != other);
            let name = |tail: u64| Hostname::derive(&shared, &format!("{shared}{tail}"));
            prop_assert_ne!(name(one), name(other));
        }
    }
}
