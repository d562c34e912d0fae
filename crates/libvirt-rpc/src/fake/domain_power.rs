//! Domains: on, off and in between.

use super::{
    call::{Call, Refusal},
    domain::absent,
    event, guest,
    hardware::Source,
    world::World,
};
use crate::wire::{
    constant::domain::{
        DomainCreateFlags as Create, DomainEventResumedDetailType, DomainEventShutdownDetailType,
        DomainEventStartedDetailType, DomainEventStoppedDetailType, DomainEventSuspendedDetailType, DomainEventType,
        DomainPausedReason, DomainRunningReason, DomainShutdownFlags as ShutdownFlags, DomainShutoffReason,
        DomainState,
    },
    remote::{
        domain::{
            DomainCreate, DomainCreateWithFlags, DomainCreateWithFlagsRet, DomainCreateXml, DomainCreateXmlRet,
            DomainDestroy, DomainDestroyFlags, DomainHasManagedSaveImage, DomainHasManagedSaveImageRet,
            DomainManagedSave, DomainManagedSaveRemove, DomainReboot, DomainReset, DomainResume, DomainShutdown,
            DomainShutdownFlags, DomainSuspend,
        },
        record::DomainRef,
    },
    xdr::Uuid,
};

/// `ENOENT`.
const NO_ENTRY: i32 = 2;

pub(super) fn answer(call: &mut Call<'_>) {
    start(call);
    stop(call);
    pause(call);
    save(call);
}

fn start(call: &mut Call<'_>) {
    call.on::<DomainCreate>(|world, args| {
        let missing = || absent(args.dom.name.to_string());
        world.domains.find(&args.dom.uuid).ok_or_else(missing)?;
        world.start_domain(args.dom.uuid, false, false).map(drop)
    });
    call.on::<DomainCreateWithFlags>(|world, args| {
        world.domain(&args.dom)?;
        let flags = Create(args.flags);
        let (paused, afresh) = (
            flags.contains(Create::START_PAUSED),
            flags.contains(Create::START_FORCE_BOOT),
        );
        let dom = world.start_domain(args.dom.uuid, paused, afresh)?;
        Ok(DomainCreateWithFlagsRet { dom })
    });
    call.on::<DomainCreateXml>(|world, args| {
        let paused = Create(args.flags).contains(Create::START_PAUSED);
        let dom = world.define_domain(&args.xml_desc.to_string_lossy(), false)?;
        let started = world.start_domain(dom.uuid, paused, false);
        if started.is_err() {
            world.domains.remove(&dom.uuid);
        }
        started.map(|dom| DomainCreateXmlRet { dom })
    });
}

fn stop(call: &mut Call<'_>) {
    call.on::<DomainDestroy>(|world, args| world.stop_domain(&args.dom, DomainShutoffReason::DESTROYED));
    call.on::<DomainDestroyFlags>(|world, args| world.stop_domain(&args.dom, DomainShutoffReason::DESTROYED));
    call.on::<DomainShutdown>(|world, args| {
        world.running(&args.dom)?;
        guest::ask_to_stop(world, args.dom.uuid);
        Ok(())
    });
    call.on::<DomainShutdownFlags>(|world, args| {
        world.running(&args.dom)?;
        if ShutdownFlags(args.flags).contains(ShutdownFlags::GUEST_AGENT) {
            guest::agent_of(world, &args.dom)?;
        }
        guest::ask_to_stop(world, args.dom.uuid);
        Ok(())
    });
    call.on::<DomainReboot>(|world, args| {
        world.running(&args.dom)?;
        guest::ask_to_reboot(world, args.dom.uuid);
        Ok(())
    });
    call.on::<DomainReset>(|world, args| {
        world.running(&args.dom)?;
        guest::reboot(world, args.dom.uuid);
        Ok(())
    });
}

fn pause(call: &mut Call<'_>) {
    call.on::<DomainSuspend>(|world, args| {
        let state = world.running(&args.dom)?.state;
        if state != DomainState::PAUSED {
            world.pause_domain(args.dom.uuid, DomainPausedReason::USER);
        }
        Ok(())
    });
    call.on::<DomainResume>(|world, args| {
        let domain = world.running_mut(&args.dom)?;
        if domain.state == DomainState::RUNNING {
            return Err(Refusal::invalid(
                "Requested operation is not valid: domain is already running",
            ));
        }
        (domain.state, domain.reason) = (DomainState::RUNNING, DomainRunningReason::UNPAUSED.0);
        domain.disk_errors.clear();
        let (dom, was_never_on) = (domain.to_ref(), !domain.guest.on);
        let detail = DomainEventResumedDetailType::UNPAUSED.0;
        event::lifecycle(world, &dom, DomainEventType::RESUMED, detail);
        if was_never_on {
            guest::boot(world, dom.uuid);
        }
        Ok(())
    });
}

fn save(call: &mut Call<'_>) {
    call.on::<DomainManagedSave>(|world, args| {
        let domain = world.running_mut(&args.dom)?;
        if !domain.persistent {
            return Err(Refusal::invalid(
                "Requested operation is not valid: cannot do managed save for transient domain",
            ));
        }
        domain.saved = Some(std::mem::take(&mut domain.guest));
        world.stop_domain(&args.dom, DomainShutoffReason::SAVED)
    });
    call.on::<DomainManagedSaveRemove>(|world, args| world.domain_mut(&args.dom).map(|d| d.saved = None));
    call.on::<DomainHasManagedSaveImage>(|world, args| {
        world.domain(&args.dom).map(|d| DomainHasManagedSaveImageRet {
            result: d.saved.is_some().into(),
        })
    });
}

impl World {
    /// Starts a domain; `afresh` even if it was saved.
    pub(super) fn start_domain(&mut self, uuid: Uuid, paused: bool, afresh: bool) -> Result<DomainRef, Refusal> {
        let id = i32::try_from(self.next()).unwrap_or(1);
        let free = self.host.memory_kib.saturating_sub(self.used_kib());
        let known = self.domains.find(&uuid).ok_or_else(|| absent(uuid.to_string()))?;
        if known.is_active() {
            return Err(Refusal::invalid(
                "Requested operation is not valid: domain is already running",
            ));
        }
        for source in known.hardware.disks.iter().filter_map(|disk| disk.source.as_ref()) {
            self.check_disk(source)?;
        }
        for network in known.hardware.nics.iter().filter_map(|nic| nic.network.as_deref()) {
            self.check_network(network)?;
        }
        if known.hardware.memory_kib > free {
            let reason = "process exited while connecting to monitor: cannot set up guest memory";
            return Err(Refusal::internal(format!("{reason} 'pc.ram': Cannot allocate memory")));
        }
        let Some(domain) = self.domains.find_mut(&uuid) else {
            return Err(absent(uuid.to_string()));
        };
        let saved = domain.saved.take().filter(|_| !afresh);
        domain.id = id;
        domain.has_nvram |= domain.hardware.keeps_variables;
        let reason = match (paused, saved.is_some()) {
            (true, _) => DomainPausedReason::USER.0,
            (false, true) => DomainRunningReason::RESTORED.0,
            (false, false) => DomainRunningReason::BOOTED.0,
        };
        domain.state = if paused {
            DomainState::PAUSED
        } else {
            DomainState::RUNNING
        };
        domain.reason = reason;
        let detail = match saved {
            Some(_) => DomainEventStartedDetailType::RESTORED,
            None => DomainEventStartedDetailType::BOOTED,
        };
        let dom = domain.to_ref();
        let goes_on = saved.is_some();
        domain.guest = saved.unwrap_or_default();
        // In the order of real daemons: the CPUs run before the start is over.
        let started = (DomainEventType::STARTED, detail.0);
        let resumed = (DomainEventType::RESUMED, DomainEventResumedDetailType::UNPAUSED.0);
        let held = (DomainEventType::SUSPENDED, DomainEventSuspendedDetailType::PAUSED.0);
        let told = match (paused, goes_on) {
            (true, _) => [started, held],
            (false, true) => [started, resumed],
            (false, false) => [resumed, started],
        };
        for (what, detail) in told {
            event::lifecycle(self, &dom, what, detail);
        }
        match (goes_on, paused) {
            (true, _) => guest::go_on(self, uuid),
            (false, true) => {}
            (false, false) => guest::boot(self, uuid),
        }
        Ok(dom)
    }

    /// A file of a pool must be there; one elsewhere is taken on trust.
    fn check_disk(&self, source: &Source) -> Result<(), Refusal> {
        let path = match source {
            Source::Volume { pool, volume } => {
                let pool = self.pools.named(pool).ok_or_else(|| super::pool::absent(pool))?;
                return pool
                    .volumes
                    .named(volume)
                    .map(drop)
                    .ok_or_else(|| super::volume::absent(volume));
            }
            Source::Path(path) => path,
        };
        let missing = self
            .pools
            .iter()
            .any(|pool| pool.holds(path) && pool.volumes.find(path).is_none());
        if missing {
            let message = format!("Cannot access storage file '{path}': No such file or directory");
            return Err(Refusal::system(NO_ENTRY, message));
        }
        Ok(())
    }

    fn check_network(&self, name: &str) -> Result<(), Refusal> {
        match self.networks.named(name) {
            None => Err(super::network::absent(name)),
            Some(network) if network.active => Ok(()),
            Some(_) => Err(Refusal::invalid(format!(
                "Requested operation is not valid: network '{name}' is not active"
            ))),
        }
    }

    /// Stops a running domain; one without definition is gone.
    pub(super) fn stop_domain(&mut self, wanted: &DomainRef, reason: DomainShutoffReason) -> Result<(), Refusal> {
        let domain = self.running_mut(wanted)?;
        let (was, persistent) = (domain.to_ref(), domain.persistent);
        domain.stop(reason);
        self.agents.remove(&was.uuid);
        let detail = match reason {
            DomainShutoffReason::DESTROYED => DomainEventStoppedDetailType::DESTROYED,
            // What a QEMU that dies without a word is told as.
            DomainShutoffReason::CRASHED => DomainEventStoppedDetailType::FAILED,
            DomainShutoffReason::SAVED => DomainEventStoppedDetailType::SAVED,
            _ => DomainEventStoppedDetailType::SHUTDOWN,
        };
        // QEMU says that it shuts down, and who wanted it to, before it ends.
        let asked = match reason {
            DomainShutoffReason::SHUTDOWN => Some(DomainEventShutdownDetailType::GUEST),
            DomainShutoffReason::DESTROYED => Some(DomainEventShutdownDetailType::HOST),
            _ => None,
        };
        if let Some(asked) = asked {
            event::lifecycle(self, &was, DomainEventType::SHUTDOWN, asked.0);
        }
        event::lifecycle(self, &was, DomainEventType::STOPPED, detail.0);
        self.end_consoles(was.uuid);
        if !persistent {
            self.domains.remove(&was.uuid);
        }
        Ok(())
    }

    /// Stops the CPUs of a running domain.
    pub(super) fn pause_domain(&mut self, uuid: Uuid, reason: DomainPausedReason) {
        let Some(domain) = self.domains.find_mut(&uuid).filter(|d| d.is_active()) else {
            return;
        };
        (domain.state, domain.reason) = (DomainState::PAUSED, reason.0);
        let dom = domain.to_ref();
        let detail = match reason {
            DomainPausedReason::IOERROR => DomainEventSuspendedDetailType::IOERROR,
            DomainPausedReason::WATCHDOG => DomainEventSuspendedDetailType::WATCHDOG,
            _ => DomainEventSuspendedDetailType::PAUSED,
        };
        event::lifecycle(self, &dom, DomainEventType::SUSPENDED, detail.0);
    }

    pub(super) fn crash(&mut self, name: &str) {
        if let Some(dom) = self.domains.named(name).map(super::domain::Domain::to_ref) {
            // One that is off cannot crash.
            drop(self.stop_domain(&dom, DomainShutoffReason::CRASHED));
        }
    }
}
