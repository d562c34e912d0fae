//! The [`Backend`] itself: which host, then the step, within the operation's time.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex as StdMutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use providerkit_backend::{
    Backend, Capabilities, CleanupRequest, ConfigureRequest, CreateRequest, Created, DeleteRequest, DeleteSupport,
    DrainRequest, Error, Known, Machine, MachineId, Operation, ReadyRequest, Slot, Transition, async_trait,
};
use tokio::{
    sync::{Mutex, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    budget::{Ledger, Need},
    catalogue::Catalogue,
    configure, create,
    delivery::Parcel,
    describe, drain,
    failure::Failure,
    fleet::Fleet,
    guest::Stuck,
    host::{Host, Link, News},
    janitor::{self, Leftover},
    limit::within,
    metric::{self, Op},
    name::DomainName,
    plan::Plan,
    remove::Removal,
    settings::{DrainReset, Settings},
    watched::Watched,
};

/// Machines on libvirt hosts.
///
/// Dropping it leaves the tasks that keep the hosts connected; [`stop`](Self::stop) ends them.
#[derive(Clone)]
pub struct Libvirt(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    /// As it was started with; hosts and offerings are those of the fleet.
    pub(crate) settings: Arc<Settings>,
    fleet: RwLock<Arc<Fleet>>,
    /// Held while the fleet is changed.
    changing: StdMutex<()>,
    pub(crate) ledger: Ledger,
    pub(crate) news: News,
    /// What a look at the substrate has not seen yet.
    unseen: Mutex<watch::Receiver<u64>>,
    /// What the last look cost, in microseconds.
    cost: AtomicU64,
    pub(crate) watched: Watched,
    started: Instant,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// How long a host may take to answer for the first time.
const SETTLED: Duration = Duration::from_secs(120);
/// How long the first look waits for hosts to answer.
const FIRST_TRY: Duration = Duration::from_secs(5);
/// Looks follow each other no faster, whatever happens on the hosts.
const BREATH: Duration = Duration::from_millis(500);
/// And no faster than so many times what one costs, which grows with the fleet.
const SHARE: u32 = 20;

impl Libvirt {
    /// Begins to keep the hosts connected. Must be called within a tokio runtime.
    #[must_use]
    pub fn start(settings: Settings) -> Self {
        metric::describe();
        Self::open(settings, Inner::look_after)
    }

    /// As [`start`](Self::start), but nothing happens on the hosts by itself: no machine is started again, no leftover is
    /// removed. For a look beside a provider that runs.
    #[must_use]
    pub fn observe(settings: Settings) -> Self {
        Self::open(settings, Inner::connect)
    }

    fn open(settings: Settings, attend: fn(&Arc<Inner>, Host)) -> Self {
        let news = News::new();
        let unseen = Mutex::new(news.listen());
        let inner = Arc::new(Inner {
            fleet: RwLock::new(Arc::new(Fleet::new(
                Catalogue::new(&settings.provider, &settings.offerings),
                BTreeMap::new(),
            ))),
            changing: StdMutex::default(),
            settings: Arc::new(settings),
            ledger: Ledger::default(),
            news,
            unseen,
            cost: AtomicU64::new(0),
            watched: Watched::default(),
            started: Instant::now(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        let zones = inner.settings.zones.iter().map(|(zone, hosts)| {
            let hosts = hosts.iter().map(|host| inner.host(zone, host));
            (Arc::clone(zone), hosts.collect())
        });
        inner.replace_fleet(Fleet::new(inner.fleet().catalogue.clone(), zones.collect()));
        for host in &inner.fleet().hosts {
            attend(&inner, host.clone());
        }
        Self(inner)
    }

    /// What the janitor would remove from the hosts that can be reached, or would tell of, by host: domains and volumes
    /// of this provider's that belong to none of the machines that the last [`describe`](Backend::describe) was told of.
    /// Nothing is removed by asking.
    ///
    /// # Errors
    /// When a host cannot be asked.
    pub async fn leftovers(&self) -> Result<Vec<(Arc<str>, Leftover)>, Error> {
        let mut all = Vec::new();
        for host in self.0.fleet().hosts.iter().filter(|host| host.is_known()) {
            let mut found: Vec<_> = janitor::leftovers(&self.0, host).await?.into_iter().collect();
            found.sort();
            all.extend(found.into_iter().map(|leftover| (Arc::clone(host.name()), leftover)));
        }
        Ok(all)
    }

    /// Sets the gauges of the hosts from what is known of them; call it before they are read. No host is asked.
    pub fn record_gauges(&self) {
        let inner = &self.0;
        let fleet = inner.fleet();
        let uses = inner
            .ledger
            .uses(&fleet.hosts, &inner.settings.budget, inner.provider());
        for (host, uses) in fleet.hosts.iter().zip(uses) {
            if let Some(uses) = uses {
                metric::record_use(host.zone(), host.name(), &uses);
            }
        }
    }

    /// Removes leftovers that [`leftovers`](Self::leftovers) found; says of each whether it was removed. A stray never is.
    pub async fn remove_leftovers(
        &self,
        leftovers: Vec<(Arc<str>, Leftover)>,
    ) -> Vec<(Arc<str>, Leftover, Result<bool, Error>)> {
        let fleet = self.0.fleet();
        let mut done = Vec::new();
        for (name, leftover) in leftovers {
            let host = fleet.hosts.iter().find(|host| *host.name() == name);
            let removed = match host {
                Some(host) => janitor::sweep(&self.0, host, &leftover).await.map_err(Error::from),
                None => Ok(false),
            };
            done.push((name, leftover, removed));
        }
        done
    }

    /// The hosts that cannot be reached now, and why.
    #[must_use]
    pub fn unreachable(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let fleet = self.0.fleet();
        let hosts = fleet.hosts.iter().filter_map(|host| match host.link() {
            Link::Down { reason } => Some((Arc::clone(host.name()), reason)),
            Link::Up(_) => None,
        });
        hosts.collect()
    }

    /// Ends all connections and tasks; machines stay as they are.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

impl Inner {
    pub(crate) fn provider(&self) -> &Arc<str> {
        &self.settings.provider
    }

    /// The hosts and what is for sale now.
    pub(crate) fn fleet(&self) -> Arc<Fleet> {
        Arc::clone(&self.fleet.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn replace_fleet(&self, fleet: Fleet) {
        *self.fleet.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fleet);
    }

    /// One change of the fleet at a time.
    pub(crate) fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is known what is on the hosts of a zone, or one of them stays away for so long that the others are
    /// used without it.
    pub(crate) fn is_settled(&self, zone: &str) -> bool {
        self.started.elapsed() > SETTLED || self.fleet().hosts_of(zone).iter().all(Host::is_known)
    }

    fn name(&self, machine: &MachineId) -> DomainName {
        DomainName::new(self.provider(), machine)
    }

    fn plan(&self, machine: &Machine, operation: &Operation) -> Result<Plan, Error> {
        let fleet = self.fleet();
        let kind = fleet.catalogue.instance_type(&machine.profile).ok_or_else(|| {
            Error::new(format!(
                "instance type `{}` of machine `{}` is not in the catalogue any more; add it again",
                machine.profile.instance_type, machine.id
            ))
        })?;
        let slot = fleet.catalogue.slot_of(&machine.id);
        Ok(Plan::new(&self.settings, machine, slot, operation.id, kind.clone()))
    }

    /// The host that a machine's domain was last seen on.
    fn seen_on(&self, machine: &Machine) -> Option<Host> {
        let name = self.name(&machine.id);
        let fleet = self.fleet();
        let hosts = fleet.hosts_of(&machine.profile.zone);
        let has = |host: &&Host| host.with_inventory(|inventory| inventory.named(name.as_str()).is_some());
        hosts.iter().find(has).cloned()
    }

    /// Whether room for a machine is counted already: it is promised, or its domain is there.
    pub(crate) fn has_room_of_its_own(&self, machine: &Machine) -> bool {
        let fleet = self.fleet();
        let hosts = fleet.hosts_of(&machine.profile.zone);
        let is_on =
            |host: &Host| host.with_inventory(|inventory| inventory.of_machine(self.provider(), &machine.id).is_some());
        self.ledger.promised(hosts, &machine.id).is_some() || hosts.iter().any(is_on)
    }

    /// The host of a machine that has one. While some host of the zone cannot be reached the machine may be there, so
    /// it is waited for; the caller's deadline bounds it.
    async fn locate(&self, machine: &Machine, stuck: &Stuck) -> Result<Host, Failure> {
        let mut news = self.news.listen();
        loop {
            let fleet = self.fleet();
            let hosts = fleet.hosts_of(&machine.profile.zone);
            if let [only] = hosts {
                return Ok(only.clone());
            }
            if let Some(host) = self.seen_on(machine) {
                return Ok(host);
            }
            if hosts.iter().all(Host::is_known) {
                return Err(Failure::told(format!(
                    "domain `{}` is on no host of zone `{}`; it was removed by hand",
                    self.name(&machine.id),
                    machine.profile.zone
                )));
            }
            stuck.on(format!("a host of zone `{}` that can be reached", machine.profile.zone));
            // invariant: the sender is ours.
            drop(news.changed().await);
        }
    }

    /// The host that a Create goes to: where an earlier attempt was, where it was promised, or where there is room.
    async fn place(
        &self,
        machine: &Machine,
        operation: &Operation,
        need: Need,
        stuck: &Stuck,
    ) -> Result<Host, Failure> {
        let mut news = self.news.listen();
        loop {
            let fleet = self.fleet();
            let hosts = fleet.hosts_of(&machine.profile.zone);
            // An earlier attempt may be on a host that does not answer yet.
            let all_known = hosts.iter().all(Host::is_known);
            if let Some(host) = self.seen_on(machine) {
                return Ok(host);
            }
            if let Some(host) = self.ledger.promised(hosts, &machine.id) {
                return Ok(host);
            }
            if operation.attempt == 1 || all_known {
                let admitted = self
                    .ledger
                    .admit(hosts, &machine.id, need, &self.settings.budget, self.provider());
                match admitted {
                    Ok(host) => return Ok(host),
                    Err(reason) if all_known => return Err(Failure::told(format!("there is no room: {reason}"))),
                    Err(_) => {}
                }
            }
            stuck.on(format!("a host of zone `{}` that can be reached", machine.profile.zone));
            // invariant: the sender is ours.
            drop(news.changed().await);
        }
    }

    async fn create(&self, request: &CreateRequest, stuck: &Stuck) -> Result<Created, Error> {
        let (machine, operation) = (&request.machine, &request.operation);
        let plan = self.plan(machine, operation)?;
        let _turn = self.watched.turn(&machine.id).await;
        let need = Need::from(&plan.instance_type);
        let _released = Released(self, &machine.id);
        let work = async {
            let host = self.place(machine, operation, need, stuck).await?;
            self.ledger.keep(&host, &machine.id, need);
            let guest = host
                .steadily(|lanes| create::create(lanes, &host, &plan, stuck))
                .await?;
            self.check_unique(&machine.id, &guest)?;
            let (host, plan, guest) = (&host, &plan, &guest);
            host.steadily(|lanes| async move { create::settle(&lanes, host, plan, guest).await })
                .await
        };
        within((Transition::Create, operation), stuck, work).await?;
        Ok(Created::new(create::host_ref(
            self.provider(),
            &machine.profile.zone,
            plan.uuid,
        )))
    }

    /// Clones of an image that was booted before share their identity, and then an address (field report F44).
    fn check_unique(&self, machine: &MachineId, guest: &crate::guest::Guest) -> Result<(), Failure> {
        let Some(id) = guest
            .machine_id
            .as_ref()
            .filter(|_| self.settings.guest.unique_machine_id)
        else {
            return Ok(());
        };
        let other = self.fleet().hosts.iter().find_map(|host| {
            host.with_inventory(|inventory| {
                let mut alike = inventory.of_guest_id(self.provider(), id);
                let twin = alike.find(|(_, owner)| owner.machine != *machine);
                twin.map(|(_, owner)| owner.machine.clone())
            })
        });
        match other {
            None => Ok(()),
            Some(other) => Err(Failure::told(format!(
                "the golden image is not generalised: the guest has /etc/machine-id {id}, as machine `{other}` has; \
                 empty that file in the image (`cloud-init clean --machine-id`), or set `guest.unique_machine_id = false`"
            ))),
        }
    }

    async fn drain(&self, request: &DrainRequest, stuck: &Stuck) -> Result<(), Error> {
        let (machine, operation) = (&request.machine, &request.operation);
        let plan = self.plan(machine, operation)?;
        let _turn = self.watched.turn(&machine.id).await;
        let provider = &**self.provider();
        let settings = &self.settings.guest;
        // Whatever the grace period, there must be time to make the machine anew.
        let most = operation.budget.mul_f64(0.7);
        let grace = request.grace.min(most.saturating_sub(settings.drain_margin));
        // Once: a connection that is lost in between does not begin it anew.
        let deadline = Instant::now() + grace + settings.drain_margin;
        let work = async {
            let host = &self.locate(machine, stuck).await?;
            let left = host
                .steadily(|lanes| async move {
                    drain::leave(&lanes, provider, machine, operation.id, grace, deadline, stuck).await
                })
                .await?;
            let left = match left {
                Ok(()) if settings.drain_reset == DrainReset::Unjoin => {
                    host.steadily(|lanes| async move { drain::tidy(&lanes, provider, machine, operation.id).await })
                        .await
                }
                left => left,
            };
            if let Err(failure) = &left {
                tracing::warn!(machine_id = %machine.id, %failure, "the machine did not leave its cluster by itself and is made anew");
                metrics::counter!(metric::FORCED_DRAINS, "zone" => machine.profile.zone.clone()).increment(1);
            }
            let guest = if left.is_ok() && settings.drain_reset == DrainReset::Unjoin {
                crate::guest::Guest::default()
            } else {
                host.steadily(|lanes| drain::renew(lanes, host, &plan, stuck)).await?
            };
            let (plan, guest) = (&plan, &guest);
            host.steadily(|lanes| async move { create::settle(&lanes, host, plan, guest).await })
                .await
        };
        within((Transition::Drain, operation), stuck, work).await
    }

    /// Removes a machine from every host it may be on.
    async fn remove(
        &self,
        machine: &Machine,
        operation: &Operation,
        failed: bool,
        grace: Duration,
    ) -> Result<(), Error> {
        let stuck = Stuck::default();
        let _turn = self.watched.turn(&machine.id).await;
        let removal = Removal {
            provider: self.provider(),
            machine: &machine.id,
            pool: &self.settings.machine.pool,
            operation: failed.then_some(operation.id),
            grace,
        };
        let hosts = match self.seen_on(machine) {
            Some(host) => vec![host],
            None => self.fleet().hosts_of(&machine.profile.zone).to_vec(),
        };
        let work = async {
            for host in &hosts {
                stuck.on(format!("host `{}`", host.name()));
                host.steadily(|lanes| async move { removal.run(&lanes, host).await })
                    .await?;
            }
            Ok(())
        };
        let removed = within((Transition::Delete, operation), &stuck, work).await;
        if removed.is_ok() {
            self.ledger.release(&machine.id);
        }
        self.news.tell();
        removed
    }
}

/// Forgets a promise when its Create has ended, however it did: what was made is in the inventory by then.
struct Released<'a>(&'a Inner, &'a MachineId);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.ledger.release(self.1);
        self.0.news.tell();
    }
}

#[async_trait]
impl Backend for Libvirt {
    fn capabilities(&self) -> Capabilities {
        let readiness = self.0.settings.guest.readiness != crate::settings::Readiness::None;
        Capabilities::default()
            .delete(DeleteSupport::PaidByUse)
            .readiness(readiness)
    }

    async fn describe(&self, known: &[Known]) -> Result<Vec<Slot>, Error> {
        let begun = Instant::now();
        self.0.unseen.lock().await.borrow_and_update();
        // All at once: hosts that are down together cost no more than one.
        let fleet = self.0.fleet();
        futures_util::future::join_all(fleet.hosts.iter().map(|host| host.tried(FIRST_TRY))).await;
        let looking = Instant::now();
        self.0.watched.look(known);
        let slots = describe::slots(&self.0, known);
        let cost = u64::try_from(looking.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.0.cost.store(cost, Ordering::Relaxed);
        Op::Describe.ended(begun.elapsed(), true);
        Ok(slots)
    }

    async fn changed(&self) {
        let cost = Duration::from_micros(self.0.cost.load(Ordering::Relaxed));
        tokio::time::sleep(BREATH.max(cost * SHARE)).await;
        // invariant: the sender is ours.
        drop(self.0.unseen.lock().await.changed().await);
    }

    fn admit(&self, machine: &Machine, transition: Transition) -> Result<(), Error> {
        if transition != Transition::Create {
            return Ok(());
        }
        let inner = &self.0;
        let fleet = inner.fleet();
        let Some(kind) = fleet.catalogue.offered(&machine.profile) else {
            return Err(Error::exhausted(format!(
                "instance type `{}` is not offered any more",
                machine.profile.instance_type
            )));
        };
        let hosts = fleet.hosts_of(&machine.profile.zone);
        let admitted = inner.ledger.admit(
            hosts,
            &machine.id,
            kind.into(),
            &inner.settings.budget,
            inner.provider(),
        );
        inner.news.tell();
        // A provider that was restarted must refuse nothing for that: the Create waits for its host.
        if admitted.is_err() && hosts.iter().any(Host::is_untried) {
            return Ok(());
        }
        admitted
            .map(drop)
            .map_err(|reason| Error::exhausted(format!("zone `{}` has no room: {reason}", machine.profile.zone)))
    }

    async fn create(&self, request: CreateRequest) -> Result<Created, Error> {
        Op::Create
            .timed(Box::pin(self.0.create(&request, &Stuck::default())))
            .await
    }

    async fn configure(&self, request: ConfigureRequest) -> Result<(), Error> {
        let (machine, operation, stuck) = (&request.machine, &request.operation, &Stuck::default());
        let plan = &self.0.plan(machine, operation)?;
        let _turn = self.0.watched.turn(&machine.id).await;
        let parcel = &Parcel {
            machine,
            operation: operation.id,
            cluster: &request.cluster,
            blob: &request.bootstrap,
            limit: operation.budget.mul_f64(0.9),
        };
        let work = async {
            let host = &self.0.locate(machine, stuck).await?;
            host.steadily(|lanes| configure::bootstrap(lanes, host, plan, parcel, stuck))
                .await
        };
        let work = within((Transition::Configure, operation), stuck, work);
        Op::Configure.timed(Box::pin(work)).await
    }

    async fn ready(&self, request: ReadyRequest) -> Result<(), Error> {
        let (machine, operation, stuck) = (&request.machine, &request.operation, &Stuck::default());
        let (provider, cluster) = (&**self.0.provider(), &request.cluster);
        let readiness = self.0.settings.guest.readiness;
        let _turn = self.0.watched.turn(&machine.id).await;
        let work = async {
            let host = &self.0.locate(machine, stuck).await?;
            host.steadily(|lanes| async move {
                configure::ready(&lanes, provider, machine, operation.id, cluster, readiness, stuck).await?;
                configure::bind(&lanes, host, provider, machine, cluster).await
            })
            .await
        };
        within((Transition::Configure, operation), stuck, work).await
    }

    async fn drain(&self, request: DrainRequest) -> Result<(), Error> {
        Op::Drain
            .timed(Box::pin(self.0.drain(&request, &Stuck::default())))
            .await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<(), Error> {
        let grace = self.0.settings.guest.stop_grace;
        let work = self.0.remove(&request.machine, &request.operation, false, grace);
        Op::Delete.timed(Box::pin(work)).await
    }

    async fn cleanup(&self, request: CleanupRequest) -> Result<(), Error> {
        let work = self
            .0
            .remove(&request.machine, &request.operation, true, Duration::ZERO);
        Op::Delete.timed(Box::pin(work)).await
    }
}

impl fmt::Debug for Libvirt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Libvirt")
            .field("hosts", &self.0.fleet().hosts)
            .finish_non_exhaustive()
    }
}
