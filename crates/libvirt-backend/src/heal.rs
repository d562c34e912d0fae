//! Machines that should run and do not: started again, resumed, told of (field reports F40, F89, F90).

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use libvirt_rpc::wire::constant::domain::{DomainCreateFlags, DomainState};
use providerkit_backend::{MachineId, State};
use tokio::time::Instant;

use crate::{
    backend::Inner,
    create,
    failure::{Doing as _, Failure},
    host::{Host, Seen},
    janitor::Janitor,
    metric::{self, Op},
};

/// Without news, look anyway: what did not work may work now.
const TICK: Duration = Duration::from_secs(15);
/// News come in flocks.
const BREATH: Duration = Duration::from_millis(250);
/// A machine that stops again and again is started less and less often.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LAST_PAUSE: Duration = Duration::from_secs(300);
/// A machine that ran so long has recovered.
const RECOVERED: Duration = Duration::from_secs(600);
/// Machines that start at a time on one host, after it rebooted, say.
const RAMP: usize = 2;

/// Looks after one host, so that another one that does not answer holds up nothing here.
pub(crate) struct Healer {
    inner: Arc<Inner>,
    host: Host,
    tried: HashMap<MachineId, Tried>,
    /// The reasons told last, which count nothing when they are over.
    reasons: HashSet<String>,
    janitor: Janitor,
    /// How many machines' images were not what they had been, at the last look.
    imageless: usize,
}

struct Tried {
    at: Instant,
    pause: Duration,
}

/// What would bring a machine back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cure {
    Start,
    /// Its saved memory is hours old: boot instead.
    StartAnew,
    Resume,
}

impl Cure {
    fn name(self) -> &'static str {
        match self {
            Self::Start | Self::StartAnew => "started",
            Self::Resume => "resumed",
        }
    }
}

impl Healer {
    pub(crate) fn new(inner: Arc<Inner>, host: Host) -> Self {
        Self {
            janitor: Janitor::default(),
            inner,
            host,
            tried: HashMap::new(),
            reasons: HashSet::new(),
            imageless: 0,
        }
    }

    /// Until the host is stopped.
    pub(crate) async fn run(mut self) {
        let stop = self.host.stopped().clone();
        let mut news = self.inner.news.listen();
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => return,
                // invariant: the sender is ours.
                _ = news.changed() => tokio::time::sleep(BREATH).await,
                () = tokio::time::sleep(TICK) => {}
            }
            news.borrow_and_update();
            stop.run_until_cancelled(self.look()).await;
            if self.inner.let_go(&self.host) {
                return;
            }
        }
    }

    async fn look(&mut self) {
        let host = self.host.clone();
        if !host.is_known() {
            return;
        }
        self.tell_of_images(&host);
        let sick = self.sick(&host);
        for chunk in sick.chunks(RAMP) {
            let cures = chunk
                .iter()
                .map(|(machine, seen, cure)| heal(&self.inner, &host, machine, seen, *cure));
            futures_util::future::join_all(cures).await;
        }
        self.janitor.look(&self.inner, &host).await;
    }

    /// Counts the machines whose image was replaced or removed; somebody has to put it back.
    fn tell_of_images(&mut self, host: &Host) {
        let provider = &self.inner.settings.provider;
        let count = host.with_inventory(|inventory| {
            let owned = inventory.owned(provider);
            owned.filter(|(_, owner)| inventory.has_lost_its_image(owner)).count()
        });
        if count > self.imageless {
            tracing::error!(host = %host.name(), machines = count, "the image of machines was replaced or removed: their disks need what it was; they are not started again until it is back");
        }
        self.imageless = count;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let labels = [("zone", host.zone().to_string()), ("host", host.name().to_string())];
        metrics::gauge!(metric::IMAGELESS, &labels).set(count);
    }

    /// The machines of a host that should run and do not, as far as their turn has come.
    fn sick(&mut self, host: &Host) -> Vec<(MachineId, Seen, Cure)> {
        let known = self.inner.watched.known();
        let settings = &self.inner.settings;
        let (mut sick, mut stopped) = (Vec::new(), HashMap::<String, u32>::new());
        let now = Instant::now();
        host.with_inventory(|inventory| {
            let room = inventory.pool.is_none_or(|pool| pool.available > pool.capacity / 100);
            for (seen, owner) in inventory.owned(&settings.provider) {
                if seen.status.is_running() {
                    continue;
                }
                let Some(known) = known.get(&owner.machine) else {
                    continue;
                };
                let resting = matches!(known.machine.state, State::Idle | State::Configured);
                let uuid = known.machine.host.as_ref().and_then(create::domain_of);
                if !resting || uuid.is_none_or(|uuid| *uuid.as_bytes() != seen.domain.uuid.0) {
                    continue;
                }
                *stopped.entry(seen.status.describe()).or_default() += 1;
                let cure = match seen.status {
                    // It would boot into a broken disk, and write to it.
                    _ if inventory.has_lost_its_image(owner) => None,
                    status if status.is_saved() => Some(Cure::StartAnew),
                    status if matches!(status.state, DomainState::SHUTOFF | DomainState::CRASHED) => Some(Cure::Start),
                    status if status.is_io_error() && room => Some(Cure::Resume),
                    // Paused by hand, migrating, being saved: somebody is at it.
                    _ => None,
                };
                if let Some(cure) = cure.filter(|_| settings.guest.restart) {
                    sick.push((owner.machine.clone(), seen.clone(), cure));
                }
            }
        });
        for reason in self.reasons.drain() {
            stopped.entry(reason).or_default();
        }
        for (reason, count) in stopped {
            let labels = [
                ("zone", host.zone().to_string()),
                ("host", host.name().to_string()),
                ("reason", reason.clone()),
            ];
            metrics::gauge!(metric::STOPPED, &labels).set(count);
            if count > 0 {
                self.reasons.insert(reason);
            }
        }
        sick.retain(|(machine, ..)| {
            let tried = self.tried.get(machine);
            let due = tried.is_none_or(|tried| now.duration_since(tried.at) >= tried.pause);
            if due {
                let pause = match tried {
                    Some(tried) if now.duration_since(tried.at) < RECOVERED => (tried.pause * 2).min(LAST_PAUSE),
                    _ => FIRST_PAUSE,
                };
                self.tried.insert(machine.clone(), Tried { at: now, pause });
            }
            due
        });
        sick
    }
}

async fn heal(inner: &Inner, host: &Host, machine: &MachineId, seen: &Seen, cure: Cure) {
    // A machine that is being worked on is stopped on purpose.
    let Some(_turn) = inner.watched.try_turn(machine) else {
        return;
    };
    let Some(lanes) = host.lanes() else { return };
    let domain = &seen.domain;
    let was = seen.status.describe();
    let begun = Instant::now();
    let done = match cure {
        Cure::Start => create::start(&lanes, domain, DomainCreateFlags::empty()).await,
        Cure::StartAnew => create::start(&lanes, domain, DomainCreateFlags::START_FORCE_BOOT).await,
        Cure::Resume => {
            let resumed = lanes.control.domain_resume(domain).await;
            resumed.doing(|| format!("resume domain `{}`", domain.name.to_string_lossy()))
        }
    };
    Op::Heal.ended(begun.elapsed(), done.is_ok());
    let outcome = match &done {
        Ok(()) => "ok",
        Err(_) => "error",
    };
    let zone = host.zone().to_string();
    metrics::counter!(metric::HEALED, "zone" => zone, "action" => cure.name(), "outcome" => outcome).increment(1);
    match done {
        Ok(()) => {
            tracing::warn!(machine_id = %machine, host = %host.name(), was, "a machine that did not run was {}", cure.name());
        }
        Err(failure) => {
            let error = providerkit_backend::Error::from(failure).report();
            tracing::error!(machine_id = %machine, host = %host.name(), was, %error, "a machine does not run and could not be {}", cure.name());
        }
    }
    if let Err(failure @ Failure::Host { .. }) = create::learn(&lanes, host, domain).await {
        tracing::debug!(%failure, "the next relist will tell");
    }
}
