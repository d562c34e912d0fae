//! What the daemon knows.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use super::{event::Client, fault::Fault, guest::Guest};
use crate::wire::{
    constant::domain::{DomainShutoffReason, DomainState},
    remote::record::{DomainRef, NetworkRef, StoragePoolRef, StorageVolRef},
    xdr::Uuid,
};

#[derive(Debug)]
pub(super) struct World {
    me: Weak<Mutex<Self>>,
    pub(super) cpus: i32,
    pub(super) memory_kib: u64,
    pub(super) latency: Duration,
    pub(super) faults: Vec<Fault>,
    pub(super) guest: Arc<Guest>,
    pub(super) calls: HashMap<&'static str, usize>,
    pub(super) domains: Vec<Domain>,
    pub(super) pools: Vec<Pool>,
    pub(super) networks: Vec<Network>,
    pub(super) sessions: HashMap<u64, Client>,
    counter: u64,
}

#[derive(Debug)]
pub(super) struct Domain {
    pub(super) name: String,
    pub(super) uuid: Uuid,
    pub(super) id: i32,
    pub(super) xml: String,
    /// By namespace, or by the name of the plain sorts.
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) state: DomainState,
    pub(super) reason: i32,
    pub(super) memory_kib: u64,
    pub(super) vcpus: u16,
    pub(super) persistent: bool,
    pub(super) autostart: bool,
    pub(super) has_agent: bool,
    pub(super) agent_up: bool,
    pub(super) guest: super::guest::State,
}

#[derive(Debug)]
pub(super) struct Pool {
    pub(super) name: String,
    pub(super) uuid: Uuid,
    pub(super) xml: String,
    pub(super) path: String,
    pub(super) capacity: u64,
    pub(super) active: bool,
    pub(super) persistent: bool,
    pub(super) autostart: bool,
    pub(super) volumes: Vec<Volume>,
}

#[derive(Debug)]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) xml: String,
    pub(super) capacity: u64,
    pub(super) content: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Network {
    pub(super) name: String,
    pub(super) uuid: Uuid,
    pub(super) xml: String,
    pub(super) active: bool,
    pub(super) persistent: bool,
    pub(super) autostart: bool,
}

impl World {
    pub(super) fn new(me: Weak<Mutex<Self>>) -> Self {
        let mut world = Self {
            me,
            cpus: 64,
            memory_kib: 256 << 20,
            latency: Duration::ZERO,
            faults: Vec::new(),
            guest: Arc::new(Guest::default()),
            calls: HashMap::new(),
            domains: Vec::new(),
            pools: Vec::new(),
            networks: Vec::new(),
            sessions: HashMap::new(),
            counter: 0,
        };
        let path = "/var/lib/libvirt/images";
        let pool = format!("<pool type='dir'><name>default</name><target><path>{path}</path></target></pool>");
        let network = "<network><name>default</name><bridge name='virbr0'/></network>";
        // invariant: these two are well-formed, and an error would only leave them out.
        drop(world.define_pool(&pool, true));
        drop(world.define_network(network, true));
        for pool in &mut world.pools {
            pool.active = true;
        }
        for network in &mut world.networks {
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
                act(&mut world.lock().unwrap_or_else(PoisonError::into_inner));
            }
        });
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
        self.domains
            .iter()
            .filter(|d| d.is_active())
            .map(|d| d.memory_kib)
            .sum()
    }

    pub(super) fn stop_all(&mut self) {
        for domain in &mut self.domains {
            domain.stop(DomainShutoffReason::UNKNOWN);
        }
        self.domains.retain(|d| d.persistent);
        self.pools.retain(|p| p.persistent);
        self.networks.retain(|n| n.persistent);
    }
}

impl Domain {
    pub(super) fn is_active(&self) -> bool {
        self.id >= 0
    }

    pub(super) fn stop(&mut self, reason: DomainShutoffReason) {
        if self.is_active() {
            self.id = -1;
            self.state = DomainState::SHUTOFF;
            self.reason = reason.0;
            self.agent_up = false;
            self.guest = super::guest::State::default();
        }
    }

    pub(super) fn to_ref(&self) -> DomainRef {
        DomainRef {
            name: self.name.as_str().into(),
            uuid: self.uuid,
            id: self.id,
        }
    }
}

impl Pool {
    pub(super) fn to_ref(&self) -> StoragePoolRef {
        StoragePoolRef {
            name: self.name.as_str().into(),
            uuid: self.uuid,
        }
    }

    pub(super) fn allocation(&self) -> u64 {
        self.volumes.iter().map(|v| v.content.len() as u64).sum()
    }

    pub(super) fn volume_ref(&self, volume: &Volume) -> StorageVolRef {
        StorageVolRef {
            pool: self.name.as_str().into(),
            name: volume.name.as_str().into(),
            key: volume.path.as_str().into(),
        }
    }
}

impl Network {
    pub(super) fn to_ref(&self) -> NetworkRef {
        NetworkRef {
            name: self.name.as_str().into(),
            uuid: self.uuid,
        }
    }
}
