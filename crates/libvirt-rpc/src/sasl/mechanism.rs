//! The mechanisms, behind one face.

use super::{credentials::Credentials, scram::Scram};
use crate::Error;

pub(super) const EXTERNAL: &str = "EXTERNAL";
pub(super) const PLAIN: &str = "PLAIN";
const SCRAM_SHA_1: &str = "SCRAM-SHA-1";
const SCRAM_SHA_256: &str = "SCRAM-SHA-256";

/// What this library can do. The last sends the password as it is.
pub(super) const NAMES: [&str; 4] = [EXTERNAL, SCRAM_SHA_256, SCRAM_SHA_1, PLAIN];

/// The client's half of one exchange.
pub(super) enum Mechanism {
    External { done: bool },
    Plain { credentials: Credentials, done: bool },
    Scram(&'static str, Box<Scram>),
}

impl Mechanism {
    /// One of [`NAMES`]; all but EXTERNAL have credentials.
    pub(super) fn new(name: &'static str, credentials: Option<Credentials>) -> Self {
        match (name, credentials) {
            (PLAIN, Some(credentials)) => Self::Plain {
                credentials,
                done: false,
            },
            (SCRAM_SHA_1, Some(credentials)) => Self::Scram(name, Box::new(Scram::sha1(credentials))),
            (SCRAM_SHA_256, Some(credentials)) => Self::Scram(name, Box::new(Scram::sha256(credentials))),
            _ => Self::External { done: false },
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::External { .. } => EXTERNAL,
            Self::Plain { .. } => PLAIN,
            Self::Scram(name, _) => name,
        }
    }

    /// What is sent with the mechanism's name.
    pub(super) fn first(&mut self) -> Result<Vec<u8>, Error> {
        match self {
            // An empty identity is that of the certificate or socket.
            Self::External { done } => {
                *done = true;
                Ok(Vec::new())
            }
            Self::Plain { credentials, done } => {
                *done = true;
                let (name, password) = (credentials.name(), credentials.password());
                if [name, password].iter().any(|part| part.contains('\0')) {
                    return Err(Error::auth("SASL PLAIN: a name or password has a NUL in it"));
                }
                Ok(format!("\0{name}\0{password}").into_bytes())
            }
            Self::Scram(_, scram) => scram.first(),
        }
    }

    /// The answer to what the daemon says.
    pub(super) fn next(&mut self, challenge: &[u8]) -> Result<Vec<u8>, Error> {
        match self {
            Self::External { .. } | Self::Plain { .. } => Ok(Vec::new()),
            Self::Scram(name, scram) => scram
                .next(challenge)
                .map_err(|problem| Error::auth(format!("SASL {name}: {problem}"))),
        }
    }

    /// Whether nothing more is expected, the daemon's proof included where there is one.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::External { done } | Self::Plain { done, .. } => *done,
            Self::Scram(_, scram) => scram.is_done(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 4616, section 4.
    #[test]
    fn plain_is_name_and_password_behind_nuls() {
        let mut plain = Mechanism::new(PLAIN, Some(Credentials::new("tim", "tanstaaftanstaaf")));
        assert_eq!(plain.first().unwrap(), b"\0tim\0tanstaaftanstaaf");
        assert!(plain.is_done());
        let mut nul = Mechanism::new(PLAIN, Some(Credentials::new("tim\0", "x")));
        assert!(nul.first().is_err());
    }
}
