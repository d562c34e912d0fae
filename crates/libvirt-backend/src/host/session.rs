//! One session with a host: connect, subscribe, list, then follow what happens until a connection is lost.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt as _;
use libvirt_rpc::{
    Connection,
    event::{self, Interruption, Subscription, domain},
    wire::{
        constant::domain::{
            ConnectGetAllDomainStatsFlags, ConnectListAllDomainsFlags, DomainEventType, DomainState, DomainStatsTypes,
            DomainXMLFlags,
        },
        remote::record::DomainRef,
        xdr::Uuid,
    },
};
use tokio::time::MissedTickBehavior;

use crate::{
    failure::{Absent as _, Doing as _, Failure},
    host::{
        Facts, Host, Lanes,
        inventory::{Inventory, PoolSeen, Seen, Status},
    },
    metric,
    pool::Pool,
    settings::MachineSettings,
};

/// Between two relists, which find what no event told.
const RELIST: Duration = Duration::from_secs(60);

/// The name of the event that an agent came or went.
const AGENT: &str = "agent";

pub(crate) struct Session {
    pub(crate) lanes: Arc<Lanes>,
    events: Connection,
    subscriptions: Subscriptions,
}

/// How a session ended.
pub(crate) struct Lost {
    /// One of [`metric::LOSSES`].
    pub(crate) kind: &'static str,
    pub(crate) reason: String,
}

impl Lost {
    /// The host is somewhere else now.
    pub(crate) fn moved() -> Self {
        Self {
            kind: "closed",
            reason: "its address was changed".to_owned(),
        }
    }
}

struct Subscriptions {
    lifecycle: Subscription<domain::Lifecycle>,
    metadata: Subscription<domain::MetadataChange>,
    reboot: Subscription<domain::Reboot>,
    watchdog: Subscription<domain::Watchdog>,
    io_error: Subscription<domain::IoErrorReason>,
    agent: Subscription<domain::AgentLifecycle>,
}

/// What an event was about.
enum Happened {
    To(DomainRef, &'static str),
    /// Nobody knows: look at everything.
    Anything,
}

impl Session {
    /// Opens all connections and subscribes, before anything is listed, so that nothing is missed.
    pub(crate) async fn open(host: &Host, machine: &MachineSettings) -> Result<Self, Failure> {
        let connect = || async {
            host.endpoint()
                .connect(host.calls())
                .await
                .doing(|| format!("connect to host `{}`", host.name()))
        };
        let (control, agent, bulk, events) = tokio::try_join!(connect(), connect(), connect(), connect())?;
        let subscriptions = Subscriptions::register(&events)
            .await
            .doing(|| "subscribe to events".into())?;
        let facts = Facts::ask(&control, machine).await?;
        let lanes = Arc::new(Lanes {
            control,
            agent,
            bulk,
            facts,
        });
        Ok(Self {
            lanes,
            events,
            subscriptions,
        })
    }

    /// Keeps the host's inventory true until a connection is lost; says why it was.
    pub(crate) async fn follow(mut self, host: &Host, machine: &MachineSettings) -> Lost {
        let mut relist = tokio::time::interval(RELIST);
        relist.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is at once, and the first list was made before.
        relist.tick().await;
        let (lanes, events) = (Arc::clone(&self.lanes), self.events.clone());
        let closed = async {
            tokio::select! {
                reason = lanes.control.closed() => reason,
                reason = lanes.agent.closed() => reason,
                reason = lanes.bulk.closed() => reason,
                reason = events.closed() => reason,
            }
        };
        let mut closed = std::pin::pin!(closed);
        loop {
            let happened = tokio::select! {
                biased;
                reason = &mut closed => {
                    return Lost { kind: metric::loss(&reason), reason: reason.to_string() };
                }
                happened = self.subscriptions.next() => happened,
                _ = relist.tick() => {
                    host.note_certificate();
                    Happened::Anything
                }
            };
            let done = match happened {
                Happened::To(domain, what) => self.look_at_all(host, machine, domain, what).await,
                Happened::Anything => list(&self.lanes, host, machine).await,
            };
            if let Err(failure) = done {
                if failure.is_connection() {
                    let reason = providerkit_backend::Error::from(failure).report();
                    return Lost { kind: "call", reason };
                }
                tracing::warn!(host = %host.name(), error = %providerkit_backend::Error::from(failure).report(), "the host's inventory may be behind until the next relist");
            }
        }
    }

    /// Looks once at each domain that something has happened to by now: a start alone is told by five events.
    async fn look_at_all(
        &mut self,
        host: &Host,
        machine: &MachineSettings,
        domain: DomainRef,
        what: &'static str,
    ) -> Result<(), Failure> {
        let mut domains = HashMap::new();
        let mut happened = Some(Happened::To(domain, what));
        while let Some(next) = happened {
            let Happened::To(domain, what) = next else {
                return list(&self.lanes, host, machine).await;
            };
            tracing::debug!(host = %host.name(), domain = %domain.name.to_string_lossy(), what, "event");
            if what == AGENT {
                host.agent_changed(domain.uuid);
            }
            domains.insert(domain.uuid, domain);
            happened = self.subscriptions.next().now_or_never();
        }
        for (uuid, domain) in domains {
            host.learn(uuid, see(&self.lanes.control, &domain).await?);
        }
        Ok(())
    }
}

impl Subscriptions {
    async fn register(events: &Connection) -> Result<Self, libvirt_rpc::Error> {
        Ok(Self {
            lifecycle: events.subscribe(None).await?,
            metadata: events.subscribe(None).await?,
            reboot: events.subscribe(None).await?,
            watchdog: events.subscribe(None).await?,
            io_error: events.subscribe(None).await?,
            agent: events.subscribe(None).await?,
        })
    }

    async fn next(&mut self) -> Happened {
        tokio::select! {
            event = self.lifecycle.next() => told(event, |event| {
                let name = match DomainEventType(event.msg.event) {
                    DomainEventType::DEFINED => "defined",
                    DomainEventType::UNDEFINED => "undefined",
                    DomainEventType::STARTED => "started",
                    DomainEventType::SUSPENDED => "suspended",
                    DomainEventType::RESUMED => "resumed",
                    DomainEventType::STOPPED => "stopped",
                    DomainEventType::CRASHED => "crashed",
                    _ => "lifecycle",
                };
                (event.msg.dom, name)
            }),
            event = self.metadata.next() => told(event, |event| (event.dom, "metadata")),
            event = self.reboot.next() => told(event, |event| (event.msg.dom, "reboot")),
            event = self.watchdog.next() => told(event, |event| (event.msg.dom, "watchdog")),
            event = self.io_error.next() => told(event, |event| (event.msg.dom, "I/O error")),
            event = self.agent.next() => told(event, |event| (event.dom, AGENT)),
        }
    }
}

fn told<T: event::Topic>(
    event: Result<T, Interruption>,
    about: impl FnOnce(T) -> (DomainRef, &'static str),
) -> Happened {
    match event {
        Ok(event) => {
            let (domain, what) = about(event);
            Happened::To(domain, what)
        }
        // Missed or unreadable; a closed connection is noticed by itself.
        Err(_) => Happened::Anything,
    }
}

/// Looks at everything; what is known already is not read again.
pub(crate) async fn list(lanes: &Lanes, host: &Host, machine: &MachineSettings) -> Result<(), Failure> {
    let control = &lanes.control;
    let before: HashSet<Uuid> = host.with_inventory(|inventory| inventory.uuids().collect());
    let doing = || format!("list the domains of host `{}`", host.name());
    let domains = control
        .domains(ConnectListAllDomainsFlags::empty())
        .await
        .doing(doing)?;
    let stats = control
        .domain_stats(&[], DomainStatsTypes::STATE, ConnectGetAllDomainStatsFlags::empty())
        .await
        .doing(doing)?;
    let stats: HashMap<Uuid, _> = stats.iter().map(|(domain, params)| (domain.uuid, params)).collect();
    let status = |uuid: Uuid| {
        let params = stats.get(&uuid)?;
        let number = |name| params.unsigned(name).and_then(|number| i32::try_from(number).ok());
        Some(Status {
            state: DomainState(number("state.state")?),
            reason: number("state.reason").unwrap_or(0),
        })
    };
    let mut fresh = Inventory::default();
    for domain in domains {
        let known = host.with_inventory(|inventory| inventory.get(domain.uuid).cloned());
        let seen = match (known, status(domain.uuid)) {
            (Some(seen), Some(status)) if seen.domain.name == domain.name => Some(Seen { status, ..seen }),
            _ => see(control, &domain).await?,
        };
        if let Some(seen) = seen {
            fresh.insert(seen);
        }
    }
    fresh.pool = look_at_pool(lanes, &machine.pool).await?;
    look_at_images(lanes, &mut fresh, machine).await?;
    host.replace(fresh, &before);
    Ok(())
}

/// One domain as it is now; `None` when it is gone.
pub(crate) async fn see(control: &Connection, domain: &DomainRef) -> Result<Option<Seen>, Failure> {
    let doing = || format!("look at domain `{}`", domain.name.to_string_lossy());
    let Some(status) = control.domain_state(domain).await.absent().doing(doing)? else {
        return Ok(None);
    };
    let xml = control
        .domain_xml(domain, DomainXMLFlags::empty())
        .await
        .absent()
        .doing(doing)?;
    let status = Status {
        state: status.state,
        reason: status.reason,
    };
    Ok(xml.and_then(|xml| Seen::parse(domain.clone(), status, &xml)))
}

/// Sees whether the images are still what machines were made from, and whether more can be made.
async fn look_at_images(lanes: &Lanes, inventory: &mut Inventory, machine: &MachineSettings) -> Result<(), Failure> {
    for (pool, image) in inventory.images_in_use() {
        let found = match Pool::open(lanes, &pool).await {
            Ok(opened) => opened.revision(&image).await?,
            Err(failure @ Failure::Host { .. }) => return Err(failure),
            // The pool is gone, and the image with it.
            Err(Failure::Told(_)) => None,
        };
        inventory.images.insert((pool, image), found.flatten());
    }
    let base = async { Pool::open(lanes, &machine.pool).await?.base(&machine.image).await };
    inventory.refusal = match base.await {
        Ok(base) => inventory.refuses(&machine.pool, &machine.image, base.revision.as_deref()),
        Err(failure) if failure.is_connection() => return Err(failure),
        Err(failure) => Some(providerkit_backend::Error::from(failure).report()),
    };
    Ok(())
}

async fn look_at_pool(lanes: &Lanes, name: &str) -> Result<Option<PoolSeen>, Failure> {
    let doing = || format!("look at pool `{name}`");
    let control = &lanes.control;
    let Some(pool) = control.storage_pool_lookup_by_name(name).await.absent().doing(doing)? else {
        return Ok(None);
    };
    // What is free is counted at a refresh only; one that is refused because a volume is being made can wait (F32).
    match lanes.bulk.storage_pool_refresh(&pool).await.doing(doing) {
        Err(failure) if failure.is_connection() => return Err(failure),
        Err(failure) => tracing::debug!(pool = name, %failure, "the pool was not refreshed"),
        Ok(()) => {}
    }
    let info = control.storage_pool_info(&pool).await.doing(doing)?;
    Ok(Some(PoolSeen {
        capacity: info.capacity,
        available: info.available,
    }))
}
