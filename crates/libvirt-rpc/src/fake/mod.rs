//! A libvirtd in memory that speaks the real protocol, for tests of what is built on this library.
//!
//! It has domains, a guest in each of them, storage pools with volumes that hold bytes, networks and events, and it
//! can be made to fail in the ways real daemons do.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), libvirt_rpc::Error> {
//! use libvirt_rpc::{fake::Daemon, wire::constant::domain::{DomainCreateFlags, DomainDefineFlags, DomainState}};
//!
//! let daemon = Daemon::new();
//! let connection = daemon.connect().await?;
//! let xml = "<domain type='qemu'><name>web</name><memory>1024</memory></domain>";
//! let domain = connection.domain_define(xml, DomainDefineFlags::empty()).await?;
//! let domain = connection.domain_create(&domain, DomainCreateFlags::empty()).await?;
//! assert_eq!(connection.domain_state(&domain).await?.state, DomainState::RUNNING);
//! # Ok(()) }
//! ```

mod call;
mod connect;
mod domain;
mod domain_table;
mod event;
mod fault;
mod guest;
mod network;
mod pool;
mod session;
mod transfer;
mod volume;
mod world;
mod xml;

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::UnixListener,
    task::JoinHandle,
};

use self::world::World;
pub use self::{
    fault::{Effect, Fault},
    guest::{Exec, ExecResult, Guest},
};
use crate::{Connection, Error, Options, transport};

/// A daemon. Clones are the same daemon; its state lives as long as any of them or a connection to it.
#[derive(Clone, Debug)]
pub struct Daemon {
    world: Arc<Mutex<World>>,
}

impl Default for Daemon {
    fn default() -> Self {
        Self::new()
    }
}

impl Daemon {
    /// A daemon on a host with 64 CPUs and 256 GiB of memory, a started pool `default` of 1 TiB, a started network
    /// `default`, and no domain.
    #[must_use]
    pub fn new() -> Self {
        Self {
            world: Arc::new_cyclic(|me| Mutex::new(World::new(me.clone()))),
        }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a connection to it in memory.
    ///
    /// # Errors
    /// When a fault makes opening fail.
    pub async fn connect(&self) -> Result<Connection, Error> {
        self.connect_with(Options::new()).await
    }

    /// Opens a connection with options.
    ///
    /// # Errors
    /// When a fault makes opening fail.
    pub async fn connect_with(&self, options: Options) -> Result<Connection, Error> {
        let (near, far) = tokio::io::duplex(1 << 20);
        tokio::spawn(self.clone().serve(far));
        Connection::open_on(transport::plain(near), "qemu:///system", options).await
    }

    /// Serves one client over any pipe until it leaves.
    pub async fn serve(self, io: impl AsyncRead + AsyncWrite + Unpin + Send) {
        session::run(&self.world, io).await;
    }

    /// Listens on a UNIX socket until the task is aborted.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn listen(&self, path: impl AsRef<Path>) -> io::Result<JoinHandle<()>> {
        let listener = UnixListener::bind(path)?;
        let daemon = self.clone();
        Ok(tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(daemon.clone().serve(socket));
            }
        }))
    }

    /// Makes calls fail, or fail to be answered, from now on.
    pub fn inject(&self, fault: Fault) {
        self.world().faults.push(fault);
    }

    /// Forgets all faults.
    pub fn heal(&self) {
        self.world().faults.clear();
    }

    /// Lets every call take so long.
    pub fn set_latency(&self, latency: Duration) {
        self.world().latency = latency;
    }

    /// Says what the host has; domains that need more memory than is left do not start.
    pub fn set_capacity(&self, cpus: i32, memory_kib: u64) {
        let mut world = self.world();
        world.cpus = cpus;
        world.memory_kib = memory_kib;
    }

    /// Says how guests behave from their next start on.
    pub fn set_guest(&self, guest: Guest) {
        self.world().guest = Arc::new(guest);
    }

    /// Restarts the daemon: all connections end, domains go on.
    pub fn restart(&self) {
        self.world().sessions.clear();
    }

    /// Power loss of the host: all connections end, all domains stop, those without definition are gone.
    pub fn power_loss(&self) {
        let mut world = self.world();
        world.sessions.clear();
        world.stop_all();
    }

    /// Stops a domain as if its process had died.
    pub fn crash(&self, domain: &str) {
        self.world().crash(domain);
    }

    /// How many calls of a name (`domain_create`) have been carried out.
    #[must_use]
    pub fn calls(&self, procedure: &str) -> usize {
        self.world().calls.get(procedure).copied().unwrap_or(0)
    }

    /// How many clients are connected.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.world().sessions.len()
    }

    /// The bytes of a volume.
    #[must_use]
    pub fn volume_content(&self, pool: &str, volume: &str) -> Option<Vec<u8>> {
        let world = self.world();
        let volume = world
            .pools
            .iter()
            .find(|p| p.name == pool)?
            .volumes
            .iter()
            .find(|v| v.name == volume)?;
        Some(volume.content.clone())
    }

    /// The names of all domains, in the order in which they were defined.
    #[must_use]
    pub fn domains(&self) -> Vec<String> {
        self.world().domains.iter().map(|d| d.name.clone()).collect()
    }
}
