//! One libvirt host: its supervised connections and what is known of it.

mod facts;
pub(crate) mod inventory;
mod lanes;
mod session;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use libvirt_rpc::{Observer, wire::xdr::Uuid};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

pub use self::lanes::{Dial, Endpoint};
use self::session::{Lost, Session};
pub(crate) use self::{
    facts::Facts,
    inventory::{Inventory, Seen, Status},
    lanes::Lanes,
    session::see,
};
use crate::{
    failure::Failure,
    metric::{self, Calls},
    settings::{HostSettings, MachineSettings},
};

/// Between two tries to reach a host.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// Why a host is down that was not tried yet.
const UNTRIED: &str = "not connected yet";
/// For all of: connect, subscribe, list.
const OPENING: Duration = Duration::from_secs(60);

/// A handle to one host; all clones are of the same.
#[derive(Clone)]
pub(crate) struct Host(Arc<Inner>);

struct Inner {
    zone: Arc<str>,
    name: Arc<str>,
    endpoint: Mutex<Endpoint>,
    calls: Arc<Calls>,
    link: watch::Sender<Link>,
    inventory: Mutex<Inventory>,
    news: News,
    cordoned: AtomicBool,
    /// It is not configured any more.
    retired: AtomicBool,
    /// It is shown a client certificate.
    certified: AtomicBool,
    /// The endpoint has changed.
    redial: Notify,
    stop: CancellationToken,
    /// Who waits for the agent of which domain.
    agents: Mutex<HashMap<Uuid, Arc<Notify>>>,
}

/// Tells whoever waits that something about some host is new.
#[derive(Clone, Debug)]
pub(crate) struct News(Arc<watch::Sender<u64>>);

impl News {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    pub(crate) fn tell(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// What is told from now on.
    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// Whether a host can be reached.
#[derive(Clone, Debug)]
pub(crate) enum Link {
    /// No, for this reason.
    Down {
        reason: Arc<str>,
    },
    Up(Arc<Lanes>),
}

impl Host {
    /// A host that is not connected to yet.
    pub(crate) fn new(zone: Arc<str>, settings: &HostSettings, news: News, stop: CancellationToken) -> Self {
        let name = Arc::clone(&settings.name);
        let reason = UNTRIED.into();
        metric::register(&zone, &name);
        let calls = Arc::new(Calls::of(&zone));
        let host = Self(Arc::new(Inner {
            zone,
            name,
            endpoint: Mutex::new(settings.endpoint.clone()),
            calls,
            link: watch::Sender::new(Link::Down { reason }),
            inventory: Mutex::default(),
            news,
            cordoned: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            certified: AtomicBool::new(false),
            redial: Notify::new(),
            stop,
            agents: Mutex::default(),
        }));
        host.cordon(settings.cordon);
        host
    }

    pub(crate) fn zone(&self) -> &Arc<str> {
        &self.0.zone
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        self.lock_endpoint().clone()
    }

    fn lock_endpoint(&self) -> MutexGuard<'_, Endpoint> {
        self.0.endpoint.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what may change of its settings. With another endpoint it is connected anew; steps under way go on
    /// there.
    pub(crate) fn follow_settings(&self, settings: &HostSettings) {
        self.0.retired.store(false, Ordering::Relaxed);
        self.cordon(settings.cordon);
        let mut endpoint = self.lock_endpoint();
        if !endpoint.is_same(&settings.endpoint) {
            tracing::info!(zone = %self.zone(), host = %self.name(), "the host's address has changed");
            *endpoint = settings.endpoint.clone();
            self.0.redial.notify_one();
        }
    }

    fn cordon(&self, cordoned: bool) {
        if self.0.cordoned.swap(cordoned, Ordering::Relaxed) != cordoned {
            let what = if cordoned { "cordoned" } else { "uncordoned" };
            tracing::info!(zone = %self.zone(), host = %self.name(), "host {what}");
        }
        metrics::gauge!(metric::HOST_CORDONED, &self.labels()).set(u8::from(cordoned));
    }

    /// Gives it no new machines, because it is not configured any more.
    pub(crate) fn retire(&self) {
        self.0.retired.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.0.retired.load(Ordering::Relaxed)
    }

    /// Why it takes no new machines, whatever its room.
    pub(crate) fn closed(&self) -> Option<&'static str> {
        if self.is_retired() {
            Some("it was taken out of the configuration")
        } else {
            self.0.cordoned.load(Ordering::Relaxed).then_some("it is cordoned")
        }
    }

    /// Ends its connections and tasks.
    pub(crate) fn stop(&self) {
        self.0.stop.cancel();
    }

    pub(crate) fn stopped(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Shows until when its client certificate holds, as it is on disk now.
    pub(crate) fn note_certificate(&self) {
        match self.endpoint().not_after() {
            Ok(not_after) => self.show_certificate(not_after),
            // The next connection will say so with all that belongs to it.
            Err(error) => tracing::debug!(host = %self.name(), %error, "the client certificate cannot be read"),
        }
    }

    /// Only of hosts that are shown one, or were until now.
    fn show_certificate(&self, not_after: Option<SystemTime>) {
        let shown = self.0.certified.swap(not_after.is_some(), Ordering::Relaxed);
        if shown || not_after.is_some() {
            metric::record_certificate(self.zone(), self.name(), not_after);
        }
    }

    fn labels(&self) -> [(&'static str, String); 2] {
        [("zone", self.zone().to_string()), ("host", self.name().to_string())]
    }

    /// Who is told of the calls on its connections.
    pub(crate) fn calls(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.0.calls) as Arc<dyn Observer>
    }

    pub(crate) fn link(&self) -> Link {
        self.0.link.borrow().clone()
    }

    /// The connections, if there are any now.
    pub(crate) fn lanes(&self) -> Option<Arc<Lanes>> {
        match self.link() {
            Link::Up(lanes) => Some(lanes),
            Link::Down { .. } => None,
        }
    }

    /// Waits until it is known whether the host can be reached, at most so long.
    pub(crate) async fn tried(&self, limit: Duration) {
        let mut link = self.0.link.subscribe();
        let tried = link.wait_for(|link| !matches!(link, Link::Down { reason } if **reason == *UNTRIED));
        drop(tokio::time::timeout(limit, tried).await);
    }

    /// Runs a step over the host's connections, from its beginning each time they are lost, until it has an end of
    /// its own. The step must therefore find what it made before. Waits for a host that is down; the caller's
    /// deadline bounds it.
    pub(crate) async fn steadily<T, F>(&self, step: impl Fn(Arc<Lanes>) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut link = self.0.link.subscribe();
        loop {
            let lanes = loop {
                if let Link::Up(lanes) = &*link.borrow_and_update() {
                    break Arc::clone(lanes);
                }
                if link.changed().await.is_err() {
                    return Err(Failure::told("the provider is stopping"));
                }
            };
            match step(Arc::clone(&lanes)).await {
                Err(failure) if failure.is_connection() => {
                    tracing::info!(host = %self.name(), %failure, "a step waits for the host");
                    // A call that was too slow says nothing about the connection: ask again after a while.
                    let other = link.wait_for(|link| !matches!(link, Link::Up(now) if Arc::ptr_eq(now, &lanes)));
                    drop(tokio::time::timeout(FIRST_PAUSE, other).await);
                }
                done => return done,
            }
        }
    }

    pub(crate) fn with_inventory<T>(&self, read: impl FnOnce(&Inventory) -> T) -> T {
        read(&self.inventory())
    }

    /// What a domain is now, as just seen; `None` when it is gone.
    pub(crate) fn learn(&self, uuid: Uuid, seen: Option<Seen>) {
        let mut inventory = self.inventory();
        match seen {
            Some(seen) => inventory.insert(seen),
            None => inventory.remove(uuid),
        }
        drop(inventory);
        self.0.news.tell();
    }

    /// Is notified when the agent of a domain comes or goes.
    pub(crate) fn agent_of(&self, domain: Uuid) -> Arc<Notify> {
        let mut agents = self.0.agents.lock().unwrap_or_else(PoisonError::into_inner);
        agents.retain(|_, waiting| Arc::strong_count(waiting) > 1);
        Arc::clone(agents.entry(domain).or_default())
    }

    fn agent_changed(&self, domain: Uuid) {
        let agents = self.0.agents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = agents.get(&domain) {
            waiting.notify_one();
        }
    }

    /// Refuses an image that is not what the machines on it were made from.
    pub(crate) fn check_image(&self, pool: &str, image: &str, now: Option<&str>) -> Result<(), String> {
        self.with_inventory(|inventory| inventory.refuses(pool, image, now).map_or(Ok(()), Err))
    }

    /// Whether the host is up and what is on it is known.
    pub(crate) fn is_known(&self) -> bool {
        self.lanes().is_some()
    }

    /// Whether nobody knows yet if it can be reached: the provider has only just begun.
    pub(crate) fn is_untried(&self) -> bool {
        matches!(&*self.0.link.borrow(), Link::Down { reason } if **reason == *UNTRIED)
    }

    /// Takes over a list that was begun when there were these domains: one that came since may not be in it yet.
    fn replace(&self, mut listed: Inventory, before: &HashSet<Uuid>) {
        let mut inventory = self.inventory();
        let missing: Vec<Uuid> = inventory
            .uuids()
            .filter(|uuid| !before.contains(uuid) && listed.get(*uuid).is_none())
            .collect();
        for seen in missing.iter().filter_map(|uuid| inventory.get(*uuid)) {
            listed.insert(seen.clone());
        }
        *inventory = listed;
        drop(inventory);
        self.0.news.tell();
    }

    fn inventory(&self) -> MutexGuard<'_, Inventory> {
        self.0.inventory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the host connected until it is stopped.
    pub(crate) async fn supervise(self, machine: Arc<MachineSettings>) {
        self.stopped().run_until_cancelled(self.keep_up(&machine)).await;
        self.fall("the provider has let go of it");
        if self.is_retired() {
            metric::forget(self.zone(), self.name());
            self.show_certificate(None);
        }
    }

    async fn keep_up(&self, machine: &MachineSettings) {
        let mut pause = FIRST_PAUSE;
        let labels = self.labels();
        let up = metrics::gauge!(metric::HOST_UP, &labels);
        up.set(0.0);
        loop {
            self.note_certificate();
            let opening = async {
                let session = Session::open(self, machine).await?;
                session::list(&session.lanes, self, machine).await?;
                Ok::<_, Failure>(session)
            };
            let opened = tokio::time::timeout(OPENING, opening).await;
            let reason = match opened {
                Ok(Ok(session)) => {
                    pause = FIRST_PAUSE;
                    up.set(1.0);
                    self.rise(&session);
                    let lost = tokio::select! {
                        () = self.0.redial.notified() => Lost::moved(),
                        lost = session.follow(self, machine) => lost,
                    };
                    up.set(0.0);
                    let [zone, host] = labels.clone();
                    let labels = [zone, host, ("reason", lost.kind.to_owned())];
                    metrics::counter!(metric::HOST_RECONNECTS, &labels).increment(1);
                    lost.reason
                }
                Ok(Err(failure)) => providerkit_backend::Error::from(failure).report(),
                Err(_elapsed) => format!("no answer within {OPENING:?}"),
            };
            self.fall(&reason);
            tokio::select! {
                () = self.0.redial.notified() => pause = FIRST_PAUSE,
                () = tokio::time::sleep(jittered(pause)) => pause = (pause * 2).min(LAST_PAUSE),
            }
        }
    }

    fn rise(&self, session: &Session) {
        let facts = &session.lanes.facts;
        match &facts.platform {
            Ok(platform) => tracing::info!(
                zone = %self.zone(), host = %self.name(), memory_mib = facts.memory_mib, cpus = facts.cpus,
                accelerator = %platform.capabilities.domain, machine = %platform.capabilities.machine, "host is up"
            ),
            Err(reason) => {
                tracing::error!(zone = %self.zone(), host = %self.name(), %reason, "host is up but cannot run machines");
            }
        }
        self.0.link.send_replace(Link::Up(Arc::clone(&session.lanes)));
        self.0.news.tell();
    }

    fn fall(&self, reason: &str) {
        let first = self.0.link.send_if_modified(|link| {
            if let Link::Down { reason: known } = link
                && **known == *reason
            {
                return false;
            }
            *link = Link::Down { reason: reason.into() };
            true
        });
        if first {
            tracing::warn!(zone = %self.zone(), host = %self.name(), reason, "host is down; it will be tried for ever");
        }
        self.0.news.tell();
    }
}

/// Between a half and one and a half: hosts that went down together do not come back in step.
fn jittered(pause: Duration) -> Duration {
    let noise = uuid::Uuid::new_v4().as_u128() % 1000;
    // invariant: below 1000.
    let share = 0.5 + f64::from(u32::try_from(noise).unwrap_or(0)) / 1000.0;
    pause.mul_f64(share)
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("zone", &self.0.zone)
            .field("name", &self.0.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use libvirt_rpc::wire::{constant::domain::DomainState, remote::record::DomainRef};

    use super::*;

    fn seen(number: u8) -> Seen {
        Seen {
            domain: DomainRef {
                uuid: Uuid([number; 16]),
                ..DomainRef::default()
            },
            status: Status {
                state: DomainState::RUNNING,
                reason: 0,
            },
            owner: None,
            memory_mib: 1,
            vcpus: 1,
            files: Vec::new(),
        }
    }

    /// A machine that was made while the host was listed would be taken for lost.
    #[test]
    fn a_list_does_not_forget_what_came_while_it_was_made() {
        let settings = HostSettings {
            name: "h".into(),
            endpoint: Endpoint::Uri(String::new()),
            cordon: false,
        };
        let host = Host::new("z".into(), &settings, News::new(), CancellationToken::new());
        assert!(host.is_untried());
        let (gone, kept, new) = (seen(1), seen(2), seen(3));
        for known in [&gone, &kept] {
            host.learn(known.domain.uuid, Some(known.clone()));
        }
        let before = host.with_inventory(|inventory| inventory.uuids().collect());
        host.learn(new.domain.uuid, Some(new.clone()));
        let mut listed = Inventory::default();
        listed.insert(kept);
        host.replace(listed, &before);
        let numbers = host.with_inventory(|inventory| {
            let mut numbers: Vec<_> = inventory.uuids().map(|uuid| uuid.0[0]).collect();
            numbers.sort_unstable();
            numbers
        });
        assert_eq!(numbers, [2, 3]);
        assert_eq!(host.with_inventory(|inventory| inventory.taken("p").memory_mib), 2);
    }
}
