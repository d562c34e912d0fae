//! Why a backend could not do what it was asked.

use std::{error, fmt};

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// It did not work.
    Failed,
    /// There is no room for it now; used by [`Backend::admit`](crate::Backend::admit).
    Exhausted,
    /// The backend never does this.
    Unsupported,
}

/// A failure. Its text becomes the machine's `last_error`, so it names the thing and the remedy, and holds no secret.
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

impl Error {
    /// A failure that says what happened, to what, and what to do about it.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Failed,
            message: message.into(),
            source: None,
        }
    }

    /// There is no room now.
    #[must_use]
    pub fn exhausted(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Exhausted,
            ..Self::new(message)
        }
    }

    /// The backend never does this.
    #[must_use]
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Unsupported,
            ..Self::new(message)
        }
    }

    /// Adds what caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What kind of failure it was.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The whole chain of causes on one line: what `last_error` shows.
    #[must_use]
    pub fn report(&self) -> String {
        let mut text = self.message.clone();
        let mut next = error::Error::source(self);
        while let Some(cause) = next {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            next = cause.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.kind)
            .field("message", &self.message)
            .field("source", &self.source)
            .finish()
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source
            .as_ref()
            .map(|source| -> &(dyn error::Error + 'static) { source.as_ref() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_shows_every_cause_once() {
        let inner = Error::new("connection refused");
        let outer = Error::new("domain `m-1` not started").with_source(inner);
        assert_eq!(outer.to_string(), "domain `m-1` not started");
        assert_eq!(outer.report(), "domain `m-1` not started: connection refused");
    }
}
