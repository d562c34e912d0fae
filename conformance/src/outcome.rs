//! How a check ends.

use std::fmt;

/// Nothing is given back by a promise that was kept.
pub(crate) type Outcome<T = ()> = Result<T, Stop>;

/// Why a check ended before its end.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub(crate) enum Stop {
    /// The promise was broken.
    Failed(Box<Failure>),
    /// It could not be checked, which is not the same as kept.
    Skipped(String),
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// What should have been.
    pub expected: String,
    /// What was.
    pub seen: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "expected {}; seen: {}", self.expected, self.seen)
    }
}

impl Stop {
    pub(crate) fn failed(expected: impl Into<String>, seen: impl Into<String>) -> Self {
        let (expected, seen) = (expected.into(), seen.into());
        Self::Failed(Box::new(Failure { expected, seen }))
    }

    pub(crate) fn skipped(why: impl Into<String>) -> Self {
        Self::Skipped(why.into())
    }
}

/// Ends the check unless something holds: what, what was expected, what was seen. The texts are made only when needed.
macro_rules! ensure {
    ($holds:expr, $expected:expr, $seen:expr $(,)?) => {
        if !$holds {
            return Err($crate::outcome::Stop::failed(
                ::std::string::ToString::to_string(&$expected),
                ::std::string::ToString::to_string(&$seen),
            ));
        }
    };
}

/// Ends the check unless two values are equal.
macro_rules! ensure_eq {
    ($what:expr, $seen:expr, $expected:expr $(,)?) => {{
        let (seen, expected) = (&$seen, &$expected);
        if seen != expected {
            return Err($crate::outcome::Stop::failed(
                format!("{}: {}", $what, $crate::outcome::brief(expected)),
                $crate::outcome::brief(seen),
            ));
        }
    }};
}

pub(crate) use {ensure, ensure_eq};

/// A value as people read it: not the whole of a map of a megabyte.
pub(crate) fn brief(value: &impl fmt::Debug) -> String {
    const LONGEST: usize = 600;
    let text = format!("{value:?}");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}… ({} bytes)", text.get(..end).unwrap_or_default(), text.len()),
        None => text,
    }
}
