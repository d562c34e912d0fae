//! Programs a guest runs for its agent.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::files::Files;

/// What a program does.
pub(super) type Program = dyn Fn(&Exec, &mut Files) -> ExecResult + Send + Sync;

/// A command the agent is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exec {
    /// The domain.
    pub domain: String,
    /// The program.
    pub path: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, `NAME=value`.
    pub env: Vec<String>,
    /// Its standard input.
    pub input: Vec<u8>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecResult {
    /// The exit code.
    pub exit: i32,
    /// The signal it ended by, instead of an exit code.
    pub signal: Option<i32>,
    /// The standard output.
    pub stdout: Vec<u8>,
    /// The standard error.
    pub stderr: Vec<u8>,
    /// How long it runs.
    pub time: Duration,
    /// It never ends.
    pub hangs: bool,
}

/// A program that was started.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) result: ExecResult,
    /// Whether somebody wants its output.
    pub(super) captured: bool,
    /// When it ends.
    ends: Option<Instant>,
}

impl Running {
    pub(super) fn new(result: ExecResult, captured: bool) -> Self {
        let ends = (!result.time.is_zero()).then(|| Instant::now() + result.time);
        Self { result, captured, ends }
    }

    pub(super) fn has_ended(&self) -> bool {
        !self.result.hangs && self.ends.is_none_or(|ends| ends <= Instant::now())
    }
}
