//! The guest agent.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::{
    agent_file::Handle,
    call::{Call, Refusal},
    domain::Domain,
    exec::{Exec, ExecResult, Running},
    files::Files,
    guest::{self, Guest},
    network::Lease,
    world::World,
};
use crate::base64;
use crate::wire::{
    constant::error::ErrorNumber,
    qemu::{DomainAgentCommand, DomainAgentCommandRet},
    remote::{
        domain::{
            DomainAgentSetResponseTimeout, DomainAgentSetResponseTimeoutRet, DomainGetGuestInfo, DomainGetGuestInfoRet,
            DomainGetHostname, DomainGetHostnameRet,
        },
        record::{DomainRef, TypedParam, TypedParamValue},
    },
};

/// Since when an agent that refuses is an error of its own.
const OWN_ERRORS: u64 = 11_002_000;

const COMMANDS: [&str; 16] = [
    "guest-ping",
    "guest-sync",
    "guest-info",
    "guest-get-osinfo",
    "guest-get-host-name",
    "guest-get-time",
    "guest-network-get-interfaces",
    "guest-exec",
    "guest-exec-status",
    "guest-file-open",
    "guest-file-write",
    "guest-file-read",
    "guest-file-seek",
    "guest-file-flush",
    "guest-file-close",
    "guest-shutdown",
];

/// What an agent has open and runs. It is gone with the agent.
#[derive(Debug, Default)]
pub(super) struct Open {
    pub(super) handles: BTreeMap<i64, Handle>,
    processes: BTreeMap<i64, Running>,
    pub(super) counter: i64,
}

impl Open {
    pub(super) fn close(&mut self) {
        self.handles.clear();
        self.processes.clear();
    }
}

pub(super) fn answer(call: &mut Call<'_>) {
    call.on::<DomainAgentCommand>(|world, args| {
        let result = command(world, &args.dom, &args.cmd.to_string_lossy())?;
        Ok(DomainAgentCommandRet {
            result: Some(result.into()),
        })
    });
    call.on::<DomainAgentSetResponseTimeout>(|world, args| {
        world
            .domain(&args.dom)
            .map(|_| DomainAgentSetResponseTimeoutRet { result: 0 })
    });
    call.on::<DomainGetHostname>(|world, args| {
        guest::agent_of(world, &args.dom).map(|d| DomainGetHostnameRet {
            hostname: d.name.as_str().into(),
        })
    });
    call.on::<DomainGetGuestInfo>(|world, args| {
        let name = guest::agent_of(world, &args.dom)?.name.clone();
        let known = [
            ("os.id", "debian"),
            ("os.name", "Debian GNU/Linux"),
            ("os.version-id", "12"),
            ("hostname", name.as_str()),
        ];
        let param = |(field, value): (&str, &str)| TypedParam {
            field: field.into(),
            value: TypedParamValue::String(value.into()),
        };
        Ok(DomainGetGuestInfoRet {
            params: known.into_iter().map(param).collect(),
        })
    });
}

/// Carries out a command of the agent.
fn command(world: &mut World, wanted: &DomainRef, text: &str) -> Result<String, Refusal> {
    let domain = guest::agent_of(world, wanted)?;
    let uuid = domain.uuid;
    let request: Value =
        serde_json::from_str(text).map_err(|error| Refusal::internal(format!("cannot parse json {text}: {error}")))?;
    let name = request.get("execute").and_then(Value::as_str).unwrap_or_default();
    let version = world.host.version;
    let failed = |what: &str| {
        let message = format!("unable to execute QEMU agent command '{name}': {what}");
        if version < OWN_ERRORS {
            return Refusal::internal(message);
        }
        let message = format!("guest agent command failed: {message}");
        Refusal::new(ErrorNumber::ERR_AGENT_COMMAND_FAILED, message)
    };
    let Some(domain) = world.domains.find(&uuid) else {
        return Err(failed("it is gone"));
    };
    let (guest, leases) = (world.guest_of(domain), world.leases_of(domain));
    if guest.disabled.iter().any(|disabled| disabled == name) {
        let what = format!("Command {name} has been disabled: the command is not allowed");
        return Err(failed(&what));
    }
    let args = request.get("arguments").unwrap_or(&Value::Null);
    if name == "guest-shutdown" {
        // It never answers that it does; libvirt waits for what follows instead.
        if args["mode"] == "reboot" {
            guest::ask_to_reboot(world, uuid);
        } else {
            guest::ask_to_stop(world, uuid);
        }
        return Ok(json!({ "return": {} }).to_string());
    }
    let mut files = world.take_files(uuid);
    let open = world.agents.entry(uuid).or_default();
    let answer = match world.state.domains.find(&uuid) {
        Some(domain) => Agent {
            guest,
            domain,
            open,
            files: &mut files,
            leases,
        }
        .carry_out(name, args),
        None => Err("it is gone".to_owned()),
    };
    world.put_files(uuid, files);
    answer
        .map(|value| json!({ "return": value }).to_string())
        .map_err(|what| failed(&what))
}

/// An agent at work.
struct Agent<'a> {
    guest: Arc<Guest>,
    domain: &'a Domain,
    open: &'a mut Open,
    files: &'a mut Files,
    leases: Vec<Lease>,
}

impl Agent<'_> {
    fn carry_out(&mut self, name: &str, args: &Value) -> Result<Value, String> {
        match name {
            "guest-ping" => Ok(json!({})),
            "guest-sync" => Ok(args["id"].clone()),
            "guest-info" => Ok(self.info()),
            "guest-get-osinfo" => Ok(json!({
                "id": "debian", "name": "Debian GNU/Linux", "pretty-name": "Debian GNU/Linux 12 (bookworm)",
                "version": "12 (bookworm)", "version-id": "12", "machine": "x86_64", "kernel-release": "6.1.0-fake",
            })),
            "guest-get-host-name" => Ok(json!({ "host-name": self.domain.name })),
            "guest-get-time" => {
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                Ok(json!(
                    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
                ))
            }
            "guest-network-get-interfaces" => Ok(self.interfaces()),
            "guest-exec" => self.exec(args),
            "guest-exec-status" => self.exec_status(args),
            _ => match name.strip_prefix("guest-file-") {
                Some(what) => super::agent_file::carry_out(self.open, self.files, what, args),
                None => Err(format!("The command {name} has not been found")),
            },
        }
    }

    fn info(&self) -> Value {
        let disabled = |command: &str| self.guest.disabled.iter().any(|d| d == command);
        let command = |name: &str| json!({ "name": name, "enabled": !disabled(name), "success-response": name != "guest-shutdown" });
        let commands: Vec<_> = COMMANDS.into_iter().map(command).collect();
        json!({ "version": "8.2.0", "supported_commands": commands })
    }

    fn interfaces(&self) -> Value {
        let local = json!({
            "name": "lo", "hardware-address": "00:00:00:00:00:00",
            "ip-addresses": [{ "ip-address-type": "ipv4", "ip-address": "127.0.0.1", "prefix": 8 }],
        });
        let nics = self.domain.hardware.nics.iter().enumerate().map(|(at, nic)| {
            let addresses: Vec<_> = self.leases.iter().filter(|lease| lease.mac == nic.mac).collect();
            let addresses = addresses
                .iter()
                .map(|lease| json!({ "ip-address-type": "ipv4", "ip-address": lease.address, "prefix": lease.prefix }));
            json!({
                "name": format!("eth{at}"), "hardware-address": nic.mac,
                "ip-addresses": addresses.collect::<Vec<_>>(),
            })
        });
        std::iter::once(local).chain(nics).collect()
    }

    fn exec(&mut self, args: &Value) -> Result<Value, String> {
        let list = |key: &str| -> Vec<String> {
            let values = args[key].as_array().into_iter().flatten();
            values.filter_map(|v| v.as_str().map(str::to_owned)).collect()
        };
        let exec = Exec {
            domain: self.domain.name.clone(),
            path: args["path"].as_str().ok_or("Parameter 'path' is missing")?.to_owned(),
            args: list("arg"),
            env: list("env"),
            input: match args["input-data"].as_str() {
                Some(text) => base64::decode(text).ok_or("Base64 data is invalid")?,
                None => Vec::new(),
            },
        };
        let program = self.guest.programs.get(&exec.path).or(self.guest.otherwise.as_ref());
        let result = match program {
            Some(run) => run(&exec, self.files),
            None if self.guest.programs.is_empty() => ExecResult::default(),
            None => {
                let path = &exec.path;
                return Err(format!(
                    "Failed to execute child process “{path}” (No such file or directory)"
                ));
            }
        };
        let state = &mut *self.open;
        state.counter += 1;
        let captured = args["capture-output"].as_bool().unwrap_or(false);
        state.processes.insert(state.counter, Running::new(result, captured));
        Ok(json!({ "pid": state.counter }))
    }

    fn exec_status(&mut self, args: &Value) -> Result<Value, String> {
        let pid = args["pid"].as_i64().ok_or("Parameter 'pid' is missing")?;
        let processes = &mut self.open.processes;
        let process = processes.get(&pid).ok_or("Invalid parameter 'pid'")?;
        if !process.has_ended() {
            return Ok(json!({ "exited": false }));
        }
        let mut answer = serde_json::Map::from_iter([("exited".to_owned(), json!(true))]);
        match process.result.signal {
            Some(signal) => answer.insert("signal".to_owned(), json!(signal)),
            None => answer.insert("exitcode".to_owned(), json!(process.result.exit)),
        };
        let outputs = [
            ("out-data", &process.result.stdout),
            ("err-data", &process.result.stderr),
        ];
        for (key, bytes) in outputs
            .into_iter()
            .filter(|(_, bytes)| process.captured && !bytes.is_empty())
        {
            answer.insert(key.to_owned(), json!(base64::encode(bytes)));
        }
        // As the real one: the first answer that says so is also the last.
        processes.remove(&pid);
        Ok(answer.into())
    }
}
