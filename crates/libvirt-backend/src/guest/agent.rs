//! The guest agent's commands, by libvirt's channel to it.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use libvirt_rpc::{api::AgentTimeout, wire::remote::record::DomainRef};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    failure::{Doing as _, Failure},
    host::Lanes,
    metric::Phase,
};

/// How long the daemon waits for one answer. The agent first has to be in step again, which may take 5 seconds.
const ANSWER: Duration = Duration::from_secs(15);
/// Bytes in one write: little enough that a busy guest takes them well before the answer is given up (F62).
const CHUNK: usize = 48 * 1024;
/// How long an agent may be away: it is busy, it restarts, its guest reboots, a freeze of file systems holds it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Between two questions whether a program has ended.
const FIRST_POLL: Duration = Duration::from_millis(20);
const LAST_POLL: Duration = Duration::from_millis(500);

/// What no bootstrap can do without.
const NEEDED: [&str; 5] = [
    "guest-exec",
    "guest-exec-status",
    "guest-file-open",
    "guest-file-write",
    "guest-file-close",
];

/// The environment of every program; the agent's own may be nearly empty.
const ENVIRONMENT: [&str; 3] = [
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LANG=C.UTF-8",
];

/// The agent of one domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agent<'a> {
    lanes: &'a Lanes,
    domain: &'a DomainRef,
}

/// How a program ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Its exit code; `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) output: Vec<u8>,
    pub(crate) errors: Vec<u8>,
}

impl Ended {
    /// The output as text, without white space around it.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).trim().to_owned()
    }

    /// Both outputs on one line, for an error.
    pub(crate) fn said(&self) -> String {
        let errors = String::from_utf8_lossy(&self.errors);
        let text = format!("{} {}", self.text(), errors.trim());
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Status {
    exited: bool,
    exitcode: Option<i32>,
    out_data: Option<String>,
    err_data: Option<String>,
}

/// What the agent of an image may be asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Permits {
    Everything,
    /// These commands it knows, but was told not to obey.
    Not(Vec<&'static str>),
}

impl<'a> Agent<'a> {
    pub(crate) fn new(lanes: &'a Lanes, domain: &'a DomainRef) -> Self {
        Self { lanes, domain }
    }

    /// One command, and what it returns.
    pub(crate) async fn ask(&self, command: &str, arguments: Value) -> Result<Value, Failure> {
        let mut request = json!({ "execute": command });
        if let (false, Some(map)) = (arguments.is_null(), request.as_object_mut()) {
            map.insert("arguments".into(), arguments);
        }
        let doing = || {
            format!(
                "ask the guest agent of `{}` to {command}",
                self.domain.name.to_string_lossy()
            )
        };
        let connection = self.lanes.agent.with_deadline(ANSWER + Duration::from_secs(10));
        let reply = connection
            .domain_agent_command(self.domain, &request.to_string(), AgentTimeout::new(ANSWER))
            .await
            .doing(doing)?
            .unwrap_or_default();
        let mut reply: Value = serde_json::from_str(&reply)
            .map_err(|error| Failure::told(format!("the guest agent answered {command} with bad JSON: {error}")))?;
        Ok(reply.get_mut("return").map(Value::take).unwrap_or_default())
    }

    pub(crate) async fn ping(&self) -> Result<(), Failure> {
        Phase::Ping.timed(self.ask("guest-ping", Value::Null)).await.map(drop)
    }

    /// As [`permits`](Self::permits), of an agent that may be away for a while.
    pub(crate) async fn permits_in_time(&self) -> Result<Permits, Failure> {
        let begun = Instant::now();
        loop {
            match self.permits().await {
                Err(failure) if failure.is_agent() && begun.elapsed() < PATIENCE => {}
                permits => return permits,
            }
            tokio::time::sleep(LAST_POLL).await;
        }
    }

    /// Whether the image lets us run programs and write files (field report F55).
    pub(crate) async fn permits(&self) -> Result<Permits, Failure> {
        #[derive(Deserialize)]
        struct Info {
            supported_commands: Vec<Command>,
        }
        #[derive(Deserialize)]
        struct Command {
            name: String,
            enabled: bool,
        }
        let info: Info = decode("guest-info", self.ask("guest-info", Value::Null).await?)?;
        let enabled = |name: &&str| !info.supported_commands.iter().any(|c| c.name == *name && c.enabled);
        let missing: Vec<_> = NEEDED.into_iter().filter(enabled).collect();
        Ok(if missing.is_empty() {
            Permits::Everything
        } else {
            Permits::Not(missing)
        })
    }

    /// Runs a shell script to its end and returns what little it prints. It may run twice: when an answer is lost, the
    /// caller runs it again.
    ///
    /// Nothing but a script of ours may run here: the output must stay far below a megabyte, because what does not fit
    /// a message breaks the agent's channel for good (field report F58).
    pub(crate) async fn run(&self, script: &str, arguments: &[&str], limit: Duration) -> Result<Ended, Failure> {
        let mut words = vec!["-c", script, "bigfleet"];
        words.extend(arguments);
        let program = json!({ "path": "/bin/sh", "arg": words, "env": ENVIRONMENT, "capture-output": true });
        let started = Phase::Exec.timed(self.ask("guest-exec", program)).await?;
        #[derive(Deserialize)]
        struct Started {
            pid: i64,
        }
        let Started { pid } = decode("guest-exec", started)?;
        Phase::Wait.timed(self.end_of(pid, limit)).await
    }

    async fn end_of(&self, pid: i64, limit: Duration) -> Result<Ended, Failure> {
        let (end, mut pause) = (Instant::now() + limit, FIRST_POLL);
        loop {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_POLL);
            let status: Status = decode(
                "guest-exec-status",
                self.ask("guest-exec-status", json!({ "pid": pid })).await?,
            )?;
            if status.exited {
                return Ok(Ended {
                    code: status.exitcode,
                    output: unpack(status.out_data)?,
                    errors: unpack(status.err_data)?,
                });
            }
            if Instant::now() > end {
                return Err(Failure::told(format!(
                    "a script in the guest did not end within {limit:?}"
                )));
            }
        }
    }

    /// Writes a file that exists already, so that it keeps its mode: one that the agent makes is open to everybody
    /// (field report F65).
    pub(crate) async fn write(&self, path: &str, content: &[u8]) -> Result<(), Failure> {
        Phase::Write.timed(self.overwrite(path, content)).await
    }

    async fn overwrite(&self, path: &str, content: &[u8]) -> Result<(), Failure> {
        let handle = self
            .ask("guest-file-open", json!({ "path": path, "mode": "r+" }))
            .await?;
        let written = self.write_chunks(&handle, content).await;
        // A handle that is not closed stays open until the agent restarts.
        let closed = self.ask("guest-file-close", json!({ "handle": handle })).await;
        written?;
        closed.map(drop)
    }

    async fn write_chunks(&self, handle: &Value, content: &[u8]) -> Result<(), Failure> {
        #[derive(Deserialize)]
        struct Written {
            count: usize,
        }
        let (mut offset, mut answered) = (0, Instant::now());
        while let Some(rest) = content.get(offset..).filter(|rest| !rest.is_empty()) {
            let chunk = rest.get(..CHUNK.min(rest.len())).unwrap_or(rest);
            let arguments = json!({ "handle": handle, "buf-b64": BASE64.encode(chunk) });
            let written = match self.ask("guest-file-write", arguments).await {
                Err(failure) if (failure.is_agent() || failure.is_out_of_step()) && answered.elapsed() < PATIENCE => {
                    // Whether it was written nobody knows: write it again, in its place.
                    tokio::time::sleep(LAST_POLL).await;
                    let place = json!({ "handle": handle, "offset": offset, "whence": "set" });
                    match self.ask("guest-file-seek", place).await {
                        Err(failure) if !failure.is_agent() && !failure.is_out_of_step() => return Err(failure),
                        _ => continue,
                    }
                }
                written => written?,
            };
            answered = Instant::now();
            let Written { count } = decode("guest-file-write", written)?;
            // Fewer than asked is no error, none at all is.
            if count == 0 || count > chunk.len() {
                return Err(Failure::told(format!(
                    "the guest agent wrote {count} of {} bytes",
                    chunk.len()
                )));
            }
            offset += count;
        }
        Ok(())
    }
}

fn decode<T: for<'de> Deserialize<'de>>(command: &str, reply: Value) -> Result<T, Failure> {
    serde_json::from_value(reply).map_err(|error| {
        Failure::told(format!(
            "the guest agent answered {command} with something else: {error}"
        ))
    })
}

fn unpack(data: Option<String>) -> Result<Vec<u8>, Failure> {
    let data = data.unwrap_or_default();
    BASE64
        .decode(data)
        .map_err(|error| Failure::told(format!("the guest agent's output is no base64: {error}")))
}
