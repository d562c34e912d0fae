//! What the daemon knows.

use std::{
    collections::HashMap,
    fmt, io,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use super::{agent, event::Client, fault::Fault, guest::Guest, record::Record, saved::State};
use crate::wire::{constant::domain::DomainShutoffReason, xdr::Uuid};

/// Takes over what changed.
pub(super) type Keep = dyn FnMut(&[Record]) -> io::Result<()> + Send;

pub(super) struct World {
    me: Weak<Mutex<Self>>,
    pub(super) state: State,
    pub(super) latency: Duration,
    pub(super) faults: Vec<Fault>,
    pub(super) guest: Arc<Guest>,
    /// By the name of the domain, where it is not like all.
    pub(super) guests: HashMap<String, Arc<Guest>>,
    pub(super) calls: HashMap<&'static str, usize>,
    pub(super) sessions: HashMap<u64, Client>,
    clients: u64,
    /// What guests' agents have open and run.
    pub(super) agents: HashMap<Uuid, agent::Open>,
    keeper: Option<Box<Keep>>,
    /// What the keeper does not have yet.
    pending: Vec<Record>,
    /// Whether it could not take it.
    behind: bool,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// The world for as long as one thing happens in it; then what changed is told to whoever keeps it.
pub(super) struct Turn<'a>(MutexGuard<'a, World>);

pub(super) fn turn(world: &Mutex<World>) -> Turn<'_> {
    Turn(world.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Turn<'_> {
    /// Ends it, and says whether what changed is kept.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.0.keep()
    }
}

impl Deref for Turn<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.0
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // What is not kept now is tried again with the next change.
        drop(self.0.keep());
    }
}

impl Deref for World {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl World {
    pub(super) fn new(me: Weak<Mutex<Self>>) -> Self {
        let mut world = Self {
            me,
            state: State::default(),
            latency: Duration::ZERO,
            faults: Vec::new(),
            guest: Arc::new(Guest::default()),
            guests: HashMap::new(),
            calls: HashMap::new(),
            sessions: HashMap::new(),
            clients: 0,
            agents: HashMap::new(),
            keeper: None,
            pending: Vec::new(),
            behind: false,
        };
        let path = "/var/lib/libvirt/images";
        let pool = format!("<pool type='dir'><name>default</name><target><path>{path}</path></target></pool>");
        let network = "<network><name>default</name><forward mode='nat'/><bridge name='virbr0'/>\
            <ip address='192.168.122.1' netmask='255.255.255.0'>\
            <dhcp><range start='192.168.122.2' end='192.168.122.254'/></dhcp></ip></network>";
        // invariant: these two are well-formed, and an error would only leave them out.
        drop(world.define_pool(&pool, true));
        drop(world.define_network(network, true));
        world.add_host_devices();
        for pool in world.pools.iter_mut() {
            pool.active = true;
        }
        for network in world.networks.iter_mut() {
            network.active = true;
        }
        world
    }

    /// Does something later, unless the daemon is gone by then.
    pub(super) fn later(&self, delay: Duration, act: impl FnOnce(&mut Self) + Send + 'static) {
        let me = Weak::clone(&self.me);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            if let Some(world) = me.upgrade() {
                act(&mut turn(&world));
            }
        });
    }

    /// Tells the keeper what changed, and what it could not take before.
    fn keep(&mut self) -> io::Result<()> {
        let changes = self.state.take_changes(self.keeper.is_some());
        let Some(keeper) = &mut self.keeper else {
            return Ok(());
        };
        if changes.is_empty() && !self.behind {
            return Ok(());
        }
        self.pending.extend(changes);
        let kept = keeper(&self.pending);
        self.behind = kept.is_err();
        if !self.behind {
            self.pending.clear();
        }
        kept
    }

    /// Lets somebody keep what changes from now on, and with the first of it these.
    pub(super) fn set_keeper(&mut self, keeper: Box<Keep>, first: Vec<Record>) {
        self.keeper = Some(keeper);
        self.pending = first;
    }

    /// A client has connected; its number.
    pub(super) fn welcome(&mut self, client: Client) -> u64 {
        // Not one of `next`, which may begin anew with a snapshot while clients are still on their way out.
        self.clients += 1;
        self.sessions.insert(self.clients, client);
        self.clients
    }

    /// A number never given out before.
    pub(super) fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// A UUID never given out before.
    pub(super) fn next_uuid(&mut self) -> Uuid {
        let mut bytes = [0xfa; 16];
        if let Some(tail) = bytes.last_chunk_mut() {
            *tail = self.next().to_be_bytes();
        }
        Uuid(bytes)
    }

    /// Memory running domains have, in KiB.
    pub(super) fn used_kib(&self) -> u64 {
        let running = self.domains.iter().filter(|d| d.is_active());
        running.map(|d| d.hardware.memory_kib).sum()
    }

    pub(super) fn stop_all(&mut self) {
        for domain in self.domains.iter_mut() {
            domain.stop(DomainShutoffReason::UNKNOWN);
        }
        self.agents.clear();
        self.domains.retain(|d| d.persistent);
        self.pools.retain(|p| p.persistent);
        self.networks.retain(|n| n.persistent);
    }

    /// The host starts again: what has autostart runs.
    pub(super) fn boot_host(&mut self) {
        for pool in self.pools.iter_mut() {
            pool.active = pool.autostart;
        }
        for network in self.networks.iter_mut() {
            network.active = network.autostart;
        }
        let starting: Vec<Uuid> = self.domains.iter().filter(|d| d.autostart).map(|d| d.uuid).collect();
        for uuid in starting {
            // One that does not start is reported to nobody, as in real daemons.
            drop(self.start_domain(uuid, false, false));
        }
    }
}
