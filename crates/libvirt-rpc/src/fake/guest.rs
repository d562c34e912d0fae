//! The guests: how long they boot, and an agent that runs commands and keeps files.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{call::Refusal, event, world::World};
use crate::base64;
use crate::wire::{
    constant::{
        domain::{ConnectDomainEventAgentLifecycleReason, ConnectDomainEventAgentLifecycleState, DomainState},
        error::ErrorNumber,
    },
    remote::{domain_event::DomainEventCallbackAgentLifecycleMsg, record::DomainRef},
    xdr::Uuid,
};

/// How guests behave.
pub struct Guest {
    boot: Duration,
    silent: bool,
    disabled: Vec<String>,
    run: Arc<dyn Fn(&Exec) -> ExecResult + Send + Sync>,
}

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecResult {
    /// The exit code.
    pub exit: i32,
    /// The standard output.
    pub stdout: Vec<u8>,
    /// The standard error.
    pub stderr: Vec<u8>,
    /// It never ends.
    pub hangs: bool,
}

/// What a running guest remembers.
#[derive(Debug, Default)]
pub(super) struct State {
    files: BTreeMap<String, Vec<u8>>,
    handles: BTreeMap<i64, (String, usize)>,
    processes: BTreeMap<i64, ExecResult>,
    counter: i64,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            boot: Duration::ZERO,
            silent: false,
            disabled: Vec::new(),
            run: Arc::new(|_| ExecResult::default()),
        }
    }
}

impl Guest {
    /// A guest whose agent is up at once and whose commands all succeed without output.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The agent is up this long after the start.
    #[must_use]
    pub fn boot_time(mut self, boot: Duration) -> Self {
        self.boot = boot;
        self
    }

    /// The agent never comes up.
    #[must_use]
    pub fn without_agent(mut self) -> Self {
        self.silent = true;
        self
    }

    /// The agent refuses a command, `guest-exec`, as distributions set it up.
    #[must_use]
    pub fn disable(mut self, command: impl Into<String>) -> Self {
        self.disabled.push(command.into());
        self
    }

    /// What commands do.
    #[must_use]
    pub fn on_exec(mut self, run: impl Fn(&Exec) -> ExecResult + Send + Sync + 'static) -> Self {
        self.run = Arc::new(run);
        self
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guest")
            .field("boot", &self.boot)
            .field("silent", &self.silent)
            .finish_non_exhaustive()
    }
}

/// The address a running domain has.
pub(super) fn address(id: i32) -> String {
    format!("192.168.122.{}", 2 + id.rem_euclid(250))
}

/// A domain has been started or reset: its agent is away until it has booted.
pub(super) fn boot(world: &mut World, uuid: Uuid) {
    let guest = Arc::clone(&world.guest);
    let Some(domain) = world.domains.iter_mut().find(|d| d.uuid == uuid) else {
        return;
    };
    domain.agent_up = false;
    domain.guest = State::default();
    if !domain.has_agent || guest.silent {
        return;
    }
    if guest.boot.is_zero() {
        agent_up(world, uuid);
        return;
    }
    let id = domain.id;
    world.later(guest.boot, move |world| {
        if world.domains.iter().any(|d| d.uuid == uuid && d.id == id) {
            agent_up(world, uuid);
        }
    });
}

fn agent_up(world: &mut World, uuid: Uuid) {
    let Some(domain) = world.domains.iter_mut().find(|d| d.uuid == uuid) else {
        return;
    };
    domain.agent_up = true;
    let dom = domain.to_ref();
    event::domain(world, &dom, |callback_id| DomainEventCallbackAgentLifecycleMsg {
        callback_id,
        dom: dom.clone(),
        state: ConnectDomainEventAgentLifecycleState::CONNECTED.0,
        reason: ConnectDomainEventAgentLifecycleReason::CHANNEL.0,
    });
}

/// Carries out a command of the agent.
pub(super) fn command(world: &mut World, wanted: &DomainRef, text: &str) -> Result<String, Refusal> {
    let guest = Arc::clone(&world.guest);
    let domain = world.running(wanted)?;
    if !domain.has_agent {
        let message = "argument unsupported: QEMU guest agent is not configured";
        return Err(Refusal::new(ErrorNumber::ERR_ARGUMENT_UNSUPPORTED, message));
    }
    if !domain.agent_up || domain.state != DomainState::RUNNING {
        let message = "Guest agent is not responding: QEMU guest agent is not connected";
        return Err(Refusal::new(ErrorNumber::ERR_AGENT_UNRESPONSIVE, message));
    }
    let request: Value = serde_json::from_str(text).map_err(|error| {
        Refusal::new(
            ErrorNumber::ERR_INTERNAL_ERROR,
            format!("cannot parse json {text}: {error}"),
        )
    })?;
    let name = request.get("execute").and_then(Value::as_str).unwrap_or_default();
    if guest.disabled.iter().any(|d| d == name) {
        return Err(failed(
            name,
            &format!("Command {name} has been disabled: the command is not allowed"),
        ));
    }
    let domain_name = domain.name.clone();
    let answer = domain.guest.carry_out(
        &guest,
        &domain_name,
        name,
        request.get("arguments").unwrap_or(&Value::Null),
    );
    answer
        .map(|value| json!({ "return": value }).to_string())
        .map_err(|what| failed(name, &what))
}

fn failed(name: &str, what: &str) -> Refusal {
    let message = format!("internal error: unable to execute QEMU agent command '{name}': {what}");
    Refusal::new(ErrorNumber::ERR_INTERNAL_ERROR, message)
}

const NOT_BASE64: &str = "Base64 data is invalid";

const COMMANDS: [&str; 11] = [
    "guest-ping",
    "guest-sync",
    "guest-info",
    "guest-get-osinfo",
    "guest-network-get-interfaces",
    "guest-exec",
    "guest-exec-status",
    "guest-file-open",
    "guest-file-write",
    "guest-file-read",
    "guest-file-close",
];

impl State {
    fn carry_out(&mut self, guest: &Guest, domain: &str, name: &str, args: &Value) -> Result<Value, String> {
        let text = |key: &str| args[key].as_str().unwrap_or_default().to_owned();
        let list = |key: &str| -> Vec<String> {
            args[key]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|v| v.as_str().map(str::to_owned))
                .collect()
        };
        Ok(match name {
            "guest-ping" => json!({}),
            "guest-sync" => args["id"].clone(),
            "guest-info" => {
                let commands = COMMANDS.map(|c| {
                    json!({ "name": c, "enabled": !guest.disabled.iter().any(|d| d == c), "success-response": true })
                });
                json!({ "version": "8.2.0", "supported_commands": commands })
            }
            "guest-get-osinfo" => {
                json!({ "id": "debian", "name": "Debian GNU/Linux", "version-id": "12" })
            }
            "guest-network-get-interfaces" => json!([{ "name": "lo" }, { "name": "eth0" }]),
            "guest-exec" => {
                let exec = Exec {
                    domain: domain.to_owned(),
                    path: text("path"),
                    args: list("arg"),
                    env: list("env"),
                    input: base64::decode(&text("input-data")).ok_or(NOT_BASE64)?,
                };
                self.counter += 1;
                self.processes.insert(self.counter, (guest.run)(&exec));
                json!({ "pid": self.counter })
            }
            "guest-exec-status" => {
                let pid = args["pid"].as_i64().unwrap_or_default();
                match self.processes.remove(&pid) {
                    None => return Err(format!("Invalid parameter 'pid': {pid}")),
                    Some(running) if running.hangs => {
                        self.processes.insert(pid, running);
                        json!({ "exited": false })
                    }
                    // As the real one: the first answer that says so is also the last.
                    Some(done) => json!({
                        "exited": true,
                        "exitcode": done.exit,
                        "out-data": base64::encode(&done.stdout),
                        "err-data": base64::encode(&done.stderr),
                    }),
                }
            }
            "guest-file-open" => {
                let (path, mode) = (text("path"), text("mode"));
                if mode.starts_with('w') {
                    self.files.insert(path.clone(), Vec::new());
                } else if mode.starts_with('a') {
                    self.files.entry(path.clone()).or_default();
                } else if !self.files.contains_key(&path) {
                    return Err(format!(
                        "failed to open file '{path}' (mode: '{mode}'): No such file or directory"
                    ));
                }
                self.counter += 1;
                self.handles.insert(self.counter, (path, 0));
                json!(self.counter)
            }
            "guest-file-write" => {
                let data = base64::decode(&text("buf-b64")).ok_or(NOT_BASE64)?;
                let (path, _) = self.handle(args)?;
                self.files.entry(path).or_default().extend_from_slice(&data);
                json!({ "count": data.len(), "eof": false })
            }
            "guest-file-read" => {
                let (path, at) = self.handle(args)?;
                let count = args["count"]
                    .as_u64()
                    .and_then(|c| usize::try_from(c).ok())
                    .unwrap_or(4096);
                let rest = self.files.get(&path).and_then(|f| f.get(at..)).unwrap_or_default();
                let part = rest.get(..count.min(rest.len())).unwrap_or_default();
                let answer =
                    json!({ "count": part.len(), "buf-b64": base64::encode(part), "eof": part.len() == rest.len() });
                let end = at + part.len();
                if let Some(handle) = args["handle"].as_i64().and_then(|h| self.handles.get_mut(&h)) {
                    handle.1 = end;
                }
                answer
            }
            "guest-file-close" => {
                self.handle(args)?;
                self.handles.remove(&args["handle"].as_i64().unwrap_or_default());
                json!({})
            }
            other => return Err(format!("The command {other} has not been found")),
        })
    }

    fn handle(&self, args: &Value) -> Result<(String, usize), String> {
        let handle = args["handle"].as_i64().unwrap_or_default();
        self.handles
            .get(&handle)
            .cloned()
            .ok_or_else(|| format!("handle '{handle}' has not been found"))
    }
}
