//! Host keys that are not trusted.

use std::{fmt, path::PathBuf};

/// The key of a host is not one to be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostKeyError {
    /// The host as its key is looked up: `host`, or `[host]:port` where the port is not 22.
    pub host: String,
    /// The type of the key it has: `ssh-ed25519`.
    pub key_type: String,
    /// The fingerprint of that key: `SHA256:` and base64, as `ssh-keygen -l` shows it.
    pub fingerprint: String,
    /// The files in which keys of hosts are looked up.
    pub files: Vec<PathBuf>,
    /// What is wrong.
    pub problem: HostKeyProblem,
}

/// What is wrong with the key of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostKeyProblem {
    /// There is no key of the host.
    Unknown {
        /// The lines that name an authority for the host, whose certificates are not supported.
        authorities: Vec<Place>,
    },
    /// There is another key of the host.
    Changed {
        /// Where it is.
        known: Place,
    },
    /// The key has been revoked.
    Revoked {
        /// Where it says so.
        revoked: Place,
    },
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}", self.file.display(), self.line)
    }
}

impl fmt::Display for HostKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, key, print) = (&self.host, &self.key_type, &self.fingerprint);
        match &self.problem {
            HostKeyProblem::Unknown { authorities } => {
                write!(f, "host `{host}` has {key} key {print}, and ")?;
                let mut files = self.files.iter();
                if let Some(first) = files.next() {
                    write!(f, "{}", first.display())?;
                }
                for file in files {
                    write!(f, " and {}", file.display())?;
                }
                write!(f, " know none of its keys")?;
                if let Some(place) = authorities.first() {
                    write!(
                        f,
                        " ({place} names an authority, but certificates of hosts are not supported)"
                    )?;
                }
                write!(
                    f,
                    "; if the fingerprint is right, add the key (`ssh-keyscan` prints it) for `{host}`"
                )
            }
            HostKeyProblem::Changed { known } => write!(
                f,
                "host `{host}` has {key} key {print}, but {known} has another: somebody may be in between; if the \
                 host has a new key, remove the line and add the new one"
            ),
            HostKeyProblem::Revoked { revoked } => write!(
                f,
                "host `{host}` has {key} key {print}, which {revoked} says is revoked; the host needs a new key"
            ),
        }
    }
}

impl std::error::Error for HostKeyError {}
