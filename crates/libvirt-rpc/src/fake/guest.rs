//! The guests: how long they take, what they answer, and what becomes of them.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    call::Refusal,
    domain::Domain,
    event,
    exec::{Exec, ExecResult, Program},
    files::Files,
    world::World,
};
use crate::wire::{
    constant::{
        domain::{
            ConnectDomainEventAgentLifecycleReason as Reason, ConnectDomainEventAgentLifecycleState as Lifecycle,
            DomainShutoffReason, DomainState,
        },
        error::ErrorNumber,
    },
    remote::{
        domain_event::{DomainEventCallbackAgentLifecycleMsg, DomainEventCallbackRebootMsg, DomainEventRebootMsg},
        record::DomainRef,
    },
    xdr::Uuid,
};

/// How guests behave.
///
/// Without more, a guest has booted and its agent answers as soon as its domain runs, every program succeeds without a
/// word, and asked to shut down it does so at once.
pub struct Guest {
    boot: Duration,
    agent: Duration,
    shutdown: Option<Duration>,
    silent: bool,
    pub(super) console: Vec<u8>,
    pub(super) disabled: Vec<String>,
    pub(super) programs: BTreeMap<String, Arc<Program>>,
    pub(super) otherwise: Option<Arc<Program>>,
    on_boot: Option<Arc<OnBoot>>,
}

type OnBoot = dyn Fn(&str, &mut Files) + Send + Sync;

/// What a running guest remembers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct State {
    /// It has been told to start.
    pub(super) on: bool,
    pub(super) booted: bool,
    pub(super) agent_up: bool,
    /// Counts the boots, so that what belonged to an earlier one is known.
    pub(super) boots: u64,
    /// Files of a guest whose domain has no disk of a pool.
    pub(super) files: Files,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            boot: Duration::ZERO,
            agent: Duration::ZERO,
            shutdown: Some(Duration::ZERO),
            silent: false,
            console: Vec::new(),
            disabled: Vec::new(),
            programs: BTreeMap::new(),
            otherwise: None,
            on_boot: None,
        }
    }
}

impl Guest {
    /// A guest whose agent is there at once and whose commands do nothing and succeed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The guest has booted so long after the start: it has addresses and hears the power button.
    #[must_use]
    pub fn boot_time(mut self, boot: Duration) -> Self {
        self.boot = boot;
        self
    }

    /// The agent answers so long after the guest has booted.
    #[must_use]
    pub fn agent_time(mut self, agent: Duration) -> Self {
        self.agent = agent;
        self
    }

    /// The agent never comes up.
    #[must_use]
    pub fn without_agent(mut self) -> Self {
        self.silent = true;
        self
    }

    /// Asked to shut down or reboot, the guest takes so long.
    #[must_use]
    pub fn shutdown_time(mut self, shutdown: Duration) -> Self {
        self.shutdown = Some(shutdown);
        self
    }

    /// The guest does nothing when it is asked to shut down or reboot.
    #[must_use]
    pub fn ignoring_shutdown(mut self) -> Self {
        self.shutdown = None;
        self
    }

    /// What somebody who opens the console reads first.
    #[must_use]
    pub fn console(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.console = text.into();
        self
    }

    /// The agent refuses a command, `guest-exec`, as distributions set it up.
    #[must_use]
    pub fn disable(mut self, command: impl Into<String>) -> Self {
        self.disabled.push(command.into());
        self
    }

    /// What a program does, by its path; it can read and write the guest's files.
    ///
    /// A shell is such a program too: `/bin/sh` finds `-c` and the script in the arguments.
    #[must_use]
    pub fn program(
        mut self,
        path: impl Into<String>,
        run: impl Fn(&Exec, &mut Files) -> ExecResult + Send + Sync + 'static,
    ) -> Self {
        self.programs.insert(path.into(), Arc::new(run));
        self
    }

    /// What all other programs do. Without this a guest that has any [`program`](Self::program) has no others.
    #[must_use]
    pub fn on_exec(mut self, run: impl Fn(&Exec) -> ExecResult + Send + Sync + 'static) -> Self {
        self.otherwise = Some(Arc::new(move |exec, _| run(exec)));
        self
    }

    /// What happens to the files of a guest, whose domain is named, at each boot: what cloud-init does, say.
    #[must_use]
    pub fn on_boot(mut self, run: impl Fn(&str, &mut Files) + Send + Sync + 'static) -> Self {
        self.on_boot = Some(Arc::new(run));
        self
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guest")
            .field("boot", &self.boot)
            .field("agent", &self.agent)
            .field("shutdown", &self.shutdown)
            .field("silent", &self.silent)
            .field("disabled", &self.disabled)
            .finish_non_exhaustive()
    }
}

impl World {
    /// How the guest of a domain behaves.
    pub(super) fn guest_of(&self, domain: &Domain) -> Arc<Guest> {
        Arc::clone(self.guests.get(&domain.name).unwrap_or(&self.guest))
    }

    /// Guests that were on their way up when the world was saved start again to boot.
    pub(super) fn resume_boots(&mut self) {
        let on = self.domains.iter().filter(|d| d.is_active() && d.guest.on);
        let booting: Vec<_> = on
            .filter(|d| !d.guest.booted || !d.guest.agent_up)
            .map(|d| d.uuid)
            .collect();
        for uuid in booting {
            if let Some(domain) = self.domains.find_mut(&uuid) {
                domain.guest.boots += 1;
            }
            come_up(self, uuid);
        }
    }

    fn boot_of(&mut self, uuid: Uuid, boots: u64) -> Option<&mut Domain> {
        let domain = self.domains.find_mut(&uuid)?;
        (domain.is_active() && domain.guest.on && domain.guest.boots == boots).then_some(domain)
    }
}

/// A domain has been started or reset: its guest boots.
pub(super) fn boot(world: &mut World, uuid: Uuid) {
    let Some(domain) = world.domains.find_mut(&uuid) else {
        return;
    };
    let (boots, files) = (domain.guest.boots + 1, std::mem::take(&mut domain.guest.files));
    domain.guest = State {
        on: true,
        boots,
        files,
        ..State::default()
    };
    let has_agent = domain.hardware.has_agent;
    world.agents.remove(&uuid);
    if has_agent {
        tell_agent(world, uuid, Lifecycle::DISCONNECTED, Reason::DOMAIN_STARTED);
    }
    come_up(world, uuid);
}

fn come_up(world: &mut World, uuid: Uuid) {
    let Some(domain) = world.domains.find(&uuid) else {
        return;
    };
    let (guest, boots) = (world.guest_of(domain), domain.guest.boots);
    after(world, guest.boot, move |world| booted(world, uuid, boots));
}

/// Does something now or later.
fn after(world: &mut World, time: Duration, act: impl FnOnce(&mut World) + Send + 'static) {
    if time.is_zero() {
        act(world);
    } else {
        world.later(time, act);
    }
}

fn booted(world: &mut World, uuid: Uuid, boots: u64) {
    let Some(domain) = world.boot_of(uuid, boots) else {
        return;
    };
    domain.guest.booted = true;
    let (name, has_agent) = (domain.name.clone(), domain.hardware.has_agent);
    let Some(domain) = world.domains.find(&uuid) else {
        return;
    };
    let guest = world.guest_of(domain);
    let mut files = world.take_files(uuid);
    files.forget_volatile();
    if let Some(run) = &guest.on_boot {
        run(&name, &mut files);
    }
    world.put_files(uuid, files);
    world.give_leases(uuid);
    if has_agent && !guest.silent {
        after(world, guest.agent, move |world| {
            if world.boot_of(uuid, boots).is_some() {
                set_agent(world, uuid, true);
            }
        });
    }
}

/// A saved guest goes on where it was.
pub(super) fn go_on(world: &mut World, uuid: Uuid) {
    let Some(domain) = world.domains.find_mut(&uuid) else {
        return;
    };
    let was_up = std::mem::take(&mut domain.guest.agent_up);
    if was_up {
        set_agent(world, uuid, true);
    } else if domain.guest.on && !domain.guest.booted {
        come_up(world, uuid);
    }
}

/// The agent comes or goes.
pub(super) fn set_agent(world: &mut World, uuid: Uuid, up: bool) {
    let Some(domain) = world.domains.find_mut(&uuid) else {
        return;
    };
    if !domain.is_active() || !domain.hardware.has_agent || domain.guest.agent_up == up {
        return;
    }
    domain.guest.agent_up = up;
    // Its processes and open files are known to nobody after it.
    if let Some(open) = world.agents.get_mut(&uuid) {
        open.close();
    }
    let state = if up {
        Lifecycle::CONNECTED
    } else {
        Lifecycle::DISCONNECTED
    };
    tell_agent(world, uuid, state, Reason::CHANNEL);
}

fn tell_agent(world: &World, uuid: Uuid, state: Lifecycle, reason: Reason) {
    let Some(dom) = world.domains.find(&uuid).map(Domain::to_ref) else {
        return;
    };
    event::domain(world, &dom, |callback_id| DomainEventCallbackAgentLifecycleMsg {
        callback_id,
        dom: dom.clone(),
        state: state.0,
        reason: reason.0,
    });
}

/// The power button, or the agent's word: the guest stops if it hears.
pub(super) fn ask_to_stop(world: &mut World, uuid: Uuid) {
    when_it_listens(world, uuid, |world, dom| {
        // It may have been stopped otherwise by now.
        drop(world.stop_domain(&dom, DomainShutoffReason::SHUTDOWN));
    });
}

/// The guest reboots if it hears.
pub(super) fn ask_to_reboot(world: &mut World, uuid: Uuid) {
    when_it_listens(world, uuid, |world, dom| reboot(world, dom.uuid));
}

fn when_it_listens(world: &mut World, uuid: Uuid, act: impl FnOnce(&mut World, DomainRef) + Send + 'static) {
    let Some(domain) = world.domains.find(&uuid) else {
        return;
    };
    let (guest, boots) = (world.guest_of(domain), domain.guest.boots);
    let listens = domain.guest.booted && domain.state == DomainState::RUNNING;
    let Some(time) = guest.shutdown.filter(|_| listens) else {
        return;
    };
    after(world, time, move |world| {
        if let Some(dom) = world.boot_of(uuid, boots).map(|d| d.to_ref()) {
            act(world, dom);
        }
    });
}

/// The domain starts over without having been off.
pub(super) fn reboot(world: &mut World, uuid: Uuid) {
    set_agent(world, uuid, false);
    let Some(dom) = world.domains.find(&uuid).map(Domain::to_ref) else {
        return;
    };
    event::domain(world, &dom, |callback_id| DomainEventCallbackRebootMsg {
        callback_id,
        msg: DomainEventRebootMsg { dom: dom.clone() },
    });
    boot(world, uuid);
}

/// The domain whose agent answers, or why it does not.
pub(super) fn agent_of<'a>(world: &'a World, wanted: &DomainRef) -> Result<&'a Domain, Refusal> {
    let domain = world.running(wanted)?;
    if !domain.hardware.has_agent {
        let message = "argument unsupported: QEMU guest agent is not configured";
        return Err(Refusal::new(ErrorNumber::ERR_ARGUMENT_UNSUPPORTED, message));
    }
    if domain.state != DomainState::RUNNING {
        return Err(Refusal::invalid(
            "Requested operation is not valid: domain is not running",
        ));
    }
    if !domain.guest.agent_up {
        let message = "Guest agent is not responding: QEMU guest agent is not connected";
        return Err(Refusal::new(ErrorNumber::ERR_AGENT_UNRESPONSIVE, message));
    }
    Ok(domain)
}
