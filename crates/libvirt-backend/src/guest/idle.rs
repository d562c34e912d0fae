//! What a machine must have done to be IDLE.

use std::{sync::Arc, time::Duration};

use libvirt_rpc::wire::{constant::error::ErrorNumber, remote::record::DomainRef};
use serde::Deserialize;
use tokio::time::Instant;

use crate::{
    failure::{Doing as _, Failure},
    guest::{
        agent::{Agent, Permits},
        console::Console,
    },
    host::{Host, Lanes, Status},
    settings::IdleWhen,
};

/// How long a domain must run on before it is believed to: one that KVM cannot run stops within a second.
const SETTLED: Duration = Duration::from_secs(5);
/// Between two looks at what is not there yet, which most often is just about to be.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LAST_PAUSE: Duration = Duration::from_secs(1);
const SCRIPT: Duration = Duration::from_secs(30);

/// Tells whether cloud-init has finished in this boot.
const CLOUD_INIT: &str = "
if [ -s /run/cloud-init/result.json ]; then cat /run/cloud-init/result.json
elif [ -e /run/cloud-init/disabled ]; then echo disabled
elif [ -d /run/cloud-init ] || command -v cloud-init >/dev/null 2>&1; then echo waiting
else echo absent
fi";

/// What was learned of a guest that is ready for use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Guest {
    /// Its `/etc/machine-id`, if it may be asked and has one.
    pub(crate) machine_id: Option<String>,
    /// Commands that its image does not let us use.
    pub(crate) forbidden: Vec<&'static str>,
}

/// Waits until a machine is ready for use. The caller's deadline bounds it; `stuck` then says what it waited for.
pub(crate) async fn wait(
    lanes: &Arc<Lanes>,
    host: &Host,
    domain: &DomainRef,
    level: IdleWhen,
    stuck: &Stuck,
) -> Result<Guest, Failure> {
    let console = Console::listen(lanes, domain);
    let waited = wait_for(lanes, host, domain, level, stuck, &console).await;
    match waited {
        Err(Failure::Told(text)) => {
            let tail = console.tail();
            let tail = if tail.is_empty() {
                String::new()
            } else {
                format!("; the end of its console: {tail}")
            };
            Err(Failure::told(format!("{text}{tail}")))
        }
        waited => waited,
    }
}

/// What is being waited for, to be told when time is up.
#[derive(Debug, Default)]
pub(crate) struct Stuck(std::sync::Mutex<String>);

impl Stuck {
    pub(crate) fn on(&self, what: impl Into<String>) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = what.into();
    }

    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

async fn wait_for(
    lanes: &Lanes,
    host: &Host,
    domain: &DomainRef,
    level: IdleWhen,
    stuck: &Stuck,
    console: &Console,
) -> Result<Guest, Failure> {
    let agent = Agent::new(lanes, domain);
    let agent_changed = host.agent_of(domain.uuid);
    let (begun, mut guest) = (Instant::now(), Guest::default());
    let (mut wanted, mut pause) = (Wanted::Settled, FIRST_PAUSE);
    loop {
        check_running(lanes, domain).await?;
        let done = match wanted {
            Wanted::Settled => {
                stuck.on("the domain to go on running");
                // An agent that answers proves more, sooner.
                level != IdleWhen::Running || begun.elapsed() >= SETTLED
            }
            Wanted::Agent => match agent.ping().await {
                Ok(()) => true,
                Err(failure) if failure.is_connection() => return Err(failure),
                Err(failure) => {
                    let tail = console.tail();
                    stuck.on(format!(
                        "the guest agent: {}; the end of its console: {tail}",
                        describe(&failure)?
                    ));
                    false
                }
            },
            Wanted::Permits => {
                stuck.on("the guest agent to say what it permits");
                match agent.permits().await {
                    Ok(Permits::Everything) => true,
                    Ok(Permits::Not(commands)) => {
                        guest.forbidden = commands;
                        return Ok(guest);
                    }
                    Err(failure) => transient(failure)?,
                }
            }
            Wanted::CloudInit => match agent.run(CLOUD_INIT, &[], SCRIPT).await {
                Ok(ended) => match cloud_init(&ended.text())? {
                    CloudInit::Done => true,
                    CloudInit::Waiting => {
                        stuck.on("cloud-init to finish");
                        false
                    }
                },
                Err(failure) => transient(failure)?,
            },
            Wanted::MachineId => match agent.run("cat /etc/machine-id 2>/dev/null || :", &[], SCRIPT).await {
                Ok(ended) => {
                    guest.machine_id = Some(ended.text()).filter(|id| id.len() == 32);
                    true
                }
                Err(failure) => transient(failure)?,
            },
        };
        if !done {
            // An agent is there when its event says so; the pause is for events that are missed, and for all else.
            drop(tokio::time::timeout(pause, agent_changed.notified()).await);
            pause = (pause * 2).min(LAST_PAUSE);
            continue;
        }
        pause = FIRST_PAUSE;
        wanted = match (wanted, level) {
            (Wanted::Settled, IdleWhen::Running) => return Ok(guest),
            (Wanted::Settled, _) => Wanted::Agent,
            (Wanted::Agent, _) => Wanted::Permits,
            (Wanted::Permits, IdleWhen::CloudInit) => Wanted::CloudInit,
            (Wanted::Permits | Wanted::CloudInit, _) => Wanted::MachineId,
            (Wanted::MachineId, _) => return Ok(guest),
        };
    }
}

#[derive(Clone, Copy)]
enum Wanted {
    Settled,
    Agent,
    Permits,
    CloudInit,
    MachineId,
}

/// Only a running domain can become ready; one that stopped will not by waiting.
async fn check_running(lanes: &Lanes, domain: &DomainRef) -> Result<(), Failure> {
    let name = domain.name.to_string_lossy();
    let status = lanes
        .control
        .domain_state(domain)
        .await
        .doing(|| format!("ask for the state of domain `{name}`"))?;
    let status = Status {
        state: status.state,
        reason: status.reason,
    };
    if status.is_running() || status.is_starting() {
        return Ok(());
    }
    let why = match status {
        status if status.is_io_error() => "its disk cannot be written, most likely the pool is full",
        status if status.is_active() => "QEMU stopped it, as it does where KVM cannot be used",
        _ => "the guest or QEMU ended",
    };
    Err(Failure::told(format!(
        "domain `{name}` is {}: {why}; see /var/log/libvirt/qemu/{name}.log on the host",
        status.describe()
    )))
}

/// An agent that does not answer now may later.
fn transient(failure: Failure) -> Result<bool, Failure> {
    if failure.is_connection() {
        return Err(failure);
    }
    describe(&failure).map(|_| false)
}

/// What an agent's silence means; an error where waiting cannot help.
fn describe(failure: &Failure) -> Result<&'static str, Failure> {
    let code = failure.source().and_then(libvirt_rpc::Error::code);
    match code {
        Some(ErrorNumber::ERR_ARGUMENT_UNSUPPORTED) => Err(Failure::told(
            "the domain has no channel for the guest agent; was its description changed by hand?",
        )),
        Some(ErrorNumber::ERR_AGENT_UNRESPONSIVE) => {
            Ok("it is not connected; does the image start qemu-guest-agent at boot?")
        }
        Some(ErrorNumber::ERR_OPERATION_INVALID) => Ok("the domain does not run"),
        _ => Ok("it does not answer"),
    }
}

enum CloudInit {
    Done,
    Waiting,
}

fn cloud_init(text: &str) -> Result<CloudInit, Failure> {
    #[derive(Deserialize)]
    struct Result {
        v1: Version,
    }
    #[derive(Deserialize)]
    struct Version {
        #[serde(default)]
        errors: Vec<String>,
    }
    match text {
        "waiting" => return Ok(CloudInit::Waiting),
        "absent" | "disabled" => {
            if text == "disabled" {
                tracing::warn!("cloud-init is disabled in the guest: it did not find its seed, or the image says so");
            }
            return Ok(CloudInit::Done);
        }
        _ => {}
    }
    // A file that is just being written is whole the next time.
    let Ok(result) = serde_json::from_str::<Result>(text) else {
        return Ok(CloudInit::Waiting);
    };
    match result.v1.errors.first() {
        None => Ok(CloudInit::Done),
        Some(error) => Err(Failure::told(format!(
            "cloud-init failed in the guest: {error}; see /var/log/cloud-init.log there and the base user-data"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_init_is_done_when_it_says_so_or_is_not_there() {
        for text in [
            "absent",
            "disabled",
            r#"{"v1": {"datasource": "NoCloud", "errors": []}}"#,
        ] {
            assert!(matches!(cloud_init(text), Ok(CloudInit::Done)), "{text}");
        }
        for text in ["waiting", "", r#"{"v1": {"#] {
            assert!(matches!(cloud_init(text), Ok(CloudInit::Waiting)), "{text}");
        }
        let failed = cloud_init(r#"{"v1": {"errors": ["apt failed"]}}"#);
        assert!(matches!(failed, Err(Failure::Told(text)) if text.contains("apt failed")));
    }
}
