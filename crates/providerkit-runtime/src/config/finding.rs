//! What is wrong with a configuration, and where it came from.

use std::{collections::BTreeMap, fmt, path::PathBuf};

/// Where a value came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Nobody said anything.
    #[default]
    Default,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable, by its whole name.
    Environment(String),
    /// A flag of the command line, such as `--addr`.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(variable) => write!(f, "environment variable {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Where it was made.
    pub origin: Origin,
    /// What is wrong and what would be right, on one line that names the key.
    pub problem: String,
}

impl Finding {
    pub(super) fn new(origin: Origin, problem: impl Into<String>) -> Self {
        Self {
            origin,
            problem: problem.into(),
        }
    }

    pub(super) fn general(problem: impl Into<String>) -> Self {
        Self::new(Origin::Default, problem)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Default => f.write_str(&self.problem),
            origin => write!(f, "{origin}: {}", self.problem),
        }
    }
}

/// The mistakes found so far, and the origins to blame them on.
#[derive(Debug)]
pub struct Findings {
    list: Vec<Finding>,
    origins: BTreeMap<String, Origin>,
}

impl Findings {
    pub(super) fn new(list: Vec<Finding>, origins: BTreeMap<String, Origin>) -> Self {
        Self { list, origins }
    }

    /// Where the value of a key such as `listen.addr` came from.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or_default()
    }

    /// Notes that the value of a key is not right. The problem is the rest of the sentence that begins with the key.
    pub fn refuse(&mut self, key: &str, problem: impl fmt::Display) {
        self.list
            .push(Finding::new(self.origin(key), format!("`{key}` {problem}")));
    }

    pub(super) fn into_result(self) -> Result<(), Error> {
        if self.list.is_empty() {
            Ok(())
        } else {
            Err(Error(self.list))
        }
    }
}

/// Everything that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Vec<Finding>);

impl Error {
    /// The mistakes, at least one.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => write!(f, "the configuration is not valid: {only}"),
            all => {
                write!(f, "the configuration has {} mistakes", all.len())?;
                all.iter().try_for_each(|finding| write!(f, "\n  {finding}"))
            }
        }
    }
}

impl std::error::Error for Error {}
