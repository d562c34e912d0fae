//! A hook of the image, run once per operation, its end known whatever gets lost on the way.
//!
//! The agent hands out an exit code once and forgets it when it restarts (field report F59), and its channel breaks
//! when a program prints too much (F58). So the hook runs beside the agent, its output and exit code go to files in
//! the guest named after the operation, and those are asked for as often as need be.

use std::time::Duration;

use providerkit_backend::{Bytes, OperationId};
use ring::digest::{SHA256, digest};
use tokio::time::Instant;

use crate::{
    failure::Failure,
    guest::agent::{Agent, Ended, PATIENCE},
};

const SCRIPT: &str = include_str!("run.sh");
/// One step of the script.
const STEP: Duration = Duration::from_secs(60);
const FIRST_POLL: Duration = Duration::from_millis(100);
const LAST_POLL: Duration = Duration::from_secs(2);
/// Bytes of output that end up in an error.
const TAIL: &str = "4096";
/// Between two tries to reach an agent that is away.
const AWAY: Duration = Duration::from_secs(1);

/// A run of a hook.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    agent: Agent<'a>,
    operation: OperationId,
}

/// What a hook is given.
#[derive(Clone, Debug)]
pub(crate) struct Hook<'a> {
    /// What it is called in errors.
    pub(crate) name: &'a str,
    /// Program and arguments.
    pub(crate) command: Vec<&'a str>,
    /// `NAME=VALUE`.
    pub(crate) environment: Vec<String>,
}

/// How a hook ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    None,
    Running,
    Ended(i32),
    /// It was killed from outside.
    Gone,
    /// The guest restarted under it.
    Rebooted,
}

impl<'a> Run<'a> {
    pub(crate) fn new(agent: Agent<'a>, operation: OperationId) -> Self {
        Self { agent, operation }
    }

    /// Brings a blob into the guest's memory, unless the hook has begun already; says where it is.
    pub(crate) async fn deliver(&self, blob: &Bytes) -> Result<Option<String>, Failure> {
        let begun = Instant::now();
        loop {
            match self.try_to_deliver(blob).await {
                // An agent that restarted has closed the file.
                Err(failure) if !failure.is_connection() && begun.elapsed() < PATIENCE => {
                    tracing::debug!(%failure, "the blob is delivered again");
                }
                done => return done,
            }
            tokio::time::sleep(AWAY).await;
        }
    }

    async fn try_to_deliver(&self, blob: &Bytes) -> Result<Option<String>, Failure> {
        let part = self.step("begin", &[]).await?;
        if part == "started" {
            return Ok(None);
        }
        self.agent.write(&part, blob).await?;
        let sum = digest(&SHA256, blob)
            .as_ref()
            .iter()
            .fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        self.step("seal", &[&blob.len().to_string(), &sum]).await.map(Some)
    }

    /// Starts the hook unless it was started before.
    pub(crate) async fn start(&self, hook: &Hook<'_>) -> Result<(), Failure> {
        let count = hook.environment.len().to_string();
        let mut arguments = vec![count.as_str()];
        arguments.extend(hook.environment.iter().map(String::as_str));
        arguments.extend(&hook.command);
        match self.step("start", &arguments).await?.as_str() {
            "lost" => Err(Failure::told(
                "the guest restarted, and the bootstrap blob that was in its memory is gone",
            )),
            _ => Ok(()),
        }
    }

    /// Waits for the hook's end; an error unless it succeeded.
    pub(crate) async fn wait(&self, hook: &Hook<'_>) -> Result<(), Failure> {
        let mut pause = FIRST_POLL;
        loop {
            match self.poll().await? {
                State::Running => {}
                State::Ended(0) => return Ok(()),
                state => return Err(self.failed(hook, state).await),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_POLL);
        }
    }

    /// Ends the hook if it still runs; best effort.
    pub(crate) async fn stop(&self) {
        if let Err(failure) = self.step("stop", &[]).await {
            tracing::debug!(%failure, "a hook was not stopped");
        }
    }

    /// Removes the blob.
    pub(crate) async fn forget(&self) -> Result<(), Failure> {
        self.step("forget", &[]).await.map(drop)
    }

    /// Removes every trace of every run.
    pub(crate) async fn clear(&self) -> Result<(), Failure> {
        self.step("clear", &[]).await.map(drop)
    }

    async fn poll(&self) -> Result<State, Failure> {
        let text = self.step("poll", &[]).await?;
        Ok(match text.as_str() {
            "none" => State::None,
            "running" => State::Running,
            "rebooted" => State::Rebooted,
            "gone" => State::Gone,
            other => {
                let code = other.strip_prefix("code=").and_then(|code| code.parse().ok());
                State::Ended(code.ok_or_else(|| Failure::told(format!("the guest says `{other}` of a run")))?)
            }
        })
    }

    async fn failed(&self, hook: &Hook<'_>, state: State) -> Failure {
        let how = match state {
            State::Ended(code @ 129..=192) => format!("was ended by signal {}", code - 128),
            State::Ended(127) => "is not there or cannot be run (exit code 127)".to_owned(),
            State::Ended(code) => format!("failed with exit code {code}"),
            State::Rebooted => "was cut off by a restart of the guest".to_owned(),
            State::None => "was cut off by a restart of the guest, which has forgotten it".to_owned(),
            State::Running | State::Gone => "was killed".to_owned(),
        };
        let output = match self.step("tail", &[TAIL]).await {
            Ok(output) if output.is_empty() => "; it printed nothing".to_owned(),
            Ok(output) => format!("; the end of its output: {output}"),
            Err(failure) => format!("; its output could not be read: {failure}"),
        };
        Failure::told(format!("{} {how}{output}", hook.name))
    }

    /// Runs the script, each verb of which may run twice: while the agent is away, again.
    async fn run(&self, arguments: &[&str]) -> Result<Ended, Failure> {
        let begun = Instant::now();
        loop {
            match self.agent.run(SCRIPT, arguments, STEP).await {
                Err(failure)
                    if (failure.is_agent() || failure.is_forgotten() || failure.is_out_of_step())
                        && begun.elapsed() < PATIENCE =>
                {
                    tracing::debug!(%failure, "the guest is asked again");
                }
                ended => return ended,
            }
            tokio::time::sleep(AWAY).await;
        }
    }

    async fn step(&self, verb: &str, arguments: &[&str]) -> Result<String, Failure> {
        let id = self.operation.to_string();
        let mut all = vec![verb, id.as_str()];
        all.extend(arguments);
        let ended = self.run(&all).await?;
        match ended.code {
            Some(0) => Ok(ended.text()),
            _ => {
                let errors = String::from_utf8_lossy(&ended.errors);
                Err(Failure::told(
                    format!("{} {}", ended.text(), errors.trim()).trim().to_owned(),
                ))
            }
        }
    }
}
