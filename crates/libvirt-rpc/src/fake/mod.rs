//! A libvirtd in memory that speaks the real protocol, for tests of what is built on this library.
//!
//! It has domains with snapshots and saved memory, a guest in each of them, storage pools with volumes that hold bytes
//! and may be full, networks that give out addresses, secrets, devices and events, and it can be made to fail in the
//! ways real daemons do. What it answers and tells, and in which order, is what libvirtd and QEMU were seen to; tests
//! ask both the same.
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
//!
//! A [`Guest`] says how long guests boot, what their programs do to their [`Files`], whether they listen. Files are on the
//! volume that is the domain's first disk: a new overlay is a clean guest, one that is kept remembers. Time is tokio's,
//! so that a test may pause it. A [`Snapshot`] is the whole host as something serde can write, for a host that is to
//! outlive the process it is in.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use libvirt_rpc::fake::{Daemon, ExecResult, Guest};
//!
//! let daemon = Daemon::new();
//! daemon.set_guest(Guest::new().program("/bin/sh", |exec, files| {
//!     files.write("/etc/joined", exec.args.join(" "));
//!     ExecResult::default()
//! }));
//! let kept = serde_json::to_string(&daemon.snapshot())?;
//!
//! let later = Daemon::new();
//! later.restore(&serde_json::from_str(&kept)?)?;
//! # Ok(()) }
//! ```

mod agent;
mod agent_file;
mod call;
mod capabilities;
mod connect;
mod content;
mod domain;
mod domain_define;
mod domain_find;
mod domain_look;
mod domain_power;
mod event;
mod exec;
mod fault;
mod files;
mod guest;
mod hardware;
mod host;
mod lease;
mod list;
mod metadata;
mod moment;
mod network;
mod network_update;
mod node_device;
mod pool;
mod record;
mod saved;
mod secret;
mod session;
mod stats;
mod table;
mod transfer;
mod volume;
mod world;
mod xml;

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::UnixListener,
    task::JoinHandle,
};

use self::world::{Turn, World};
pub use self::{
    exec::{Exec, ExecResult},
    fault::{Effect, Fault},
    files::{File, Files},
    guest::Guest,
    host::Virtualization,
    record::Record,
    saved::{RestoreError, Snapshot},
};
use crate::{
    Connection, Error, Options, transport,
    wire::constant::domain::{DomainDiskErrorCode, DomainPausedReason, DomainShutoffReason},
};

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

    fn world(&self) -> Turn<'_> {
        world::turn(&self.world)
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
        world.host.cpus = cpus;
        world.host.memory_kib = memory_kib;
    }

    /// Divides CPUs and memory among so many NUMA cells.
    pub fn set_cells(&self, cells: i32) {
        self.world().host.cells = cells.max(1);
    }

    /// Says whether the host has KVM. It has, unless this says otherwise.
    pub fn set_virtualization(&self, virtualization: Virtualization) {
        self.world().host.virtualization = virtualization;
    }

    /// Says which version of libvirt it is, `9_000_000` for 9.0.0: an older one refuses flags of undefining that came
    /// later, counts errors of guest agents as internal ones (before 11.2.0) and mixes up the arguments of a network's
    /// update (before 7.2.0). It is 11.3.0, unless this says otherwise.
    pub fn set_version(&self, version: u64) {
        self.world().host.version = version;
    }

    /// Says how guests behave; what takes time does so from their next start on.
    pub fn set_guest(&self, guest: Guest) {
        self.world().guest = Arc::new(guest);
    }

    /// Says how the guest of one domain behaves, whatever the others do.
    pub fn set_guest_of(&self, domain: impl Into<String>, guest: Guest) {
        self.world().guests.insert(domain.into(), Arc::new(guest));
    }

    /// The files of a domain's guest.
    #[must_use]
    pub fn files(&self, domain: &str) -> Option<Files> {
        self.with_files(domain, |files| files.clone())
    }

    /// Looks into the files of a domain's guest, or changes them.
    pub fn with_files<T>(&self, domain: &str, act: impl FnOnce(&mut Files) -> T) -> Option<T> {
        let mut world = self.world();
        let uuid = world.domains.named(domain)?.uuid;
        let mut files = world.take_files(uuid);
        let done = act(&mut files);
        world.put_files(uuid, files);
        Some(done)
    }

    /// The agent of a running domain comes or goes, as when its service is started or stopped.
    pub fn set_agent(&self, domain: &str, up: bool) {
        let mut world = self.world();
        if let Some(uuid) = world.domains.named(domain).map(|d| d.uuid) {
            guest::set_agent(&mut world, uuid, up);
        }
    }

    /// The guest of a domain stops by itself, as by `poweroff` in it.
    pub fn power_off(&self, domain: &str) {
        let mut world = self.world();
        if let Some(dom) = world.domains.named(domain).map(domain::Domain::to_ref) {
            // One that is off already stays so.
            drop(world.stop_domain(&dom, DomainShutoffReason::SHUTDOWN));
        }
    }

    /// The guest of a domain reboots by itself, as by `reboot` in it.
    pub fn reboot(&self, domain: &str) {
        let mut world = self.world();
        let running = world.domains.named(domain).filter(|d| d.is_active());
        if let Some(uuid) = running.map(|d| d.uuid) {
            guest::reboot(&mut world, uuid);
        }
    }

    /// A disk (`vda`) of a running domain fails and QEMU stops the domain; says whether there is such a disk.
    ///
    /// It is resumed as any stopped domain is.
    pub fn fail_disk(&self, domain: &str, target: &str, error: DomainDiskErrorCode) -> bool {
        self.world().io_error(domain, target, error)
    }

    /// Stops the CPUs of a running domain for a reason of the host's.
    pub fn pause(&self, domain: &str, reason: DomainPausedReason) {
        let mut world = self.world();
        if let Some(uuid) = world.domains.named(domain).map(|d| d.uuid) {
            world.pause_domain(uuid, reason);
        }
    }

    /// Says how much of a pool is taken by what is no volume; says whether there is such a pool.
    pub fn fill_pool(&self, pool: &str, bytes: u64) -> bool {
        let mut world = self.world();
        let found = world.pools.named_mut(pool);
        found.map(|pool| pool.others = bytes).is_some()
    }

    /// Says how large a pool is; says whether there is such a pool.
    pub fn resize_pool(&self, pool: &str, bytes: u64) -> bool {
        let mut world = self.world();
        let found = world.pools.named_mut(pool);
        found.map(|pool| pool.capacity = bytes).is_some()
    }

    /// Plugs a device in, by its description.
    ///
    /// # Errors
    /// When the description cannot be read.
    pub fn add_device(&self, xml: &str) -> Result<(), Error> {
        let added = self.world().add_device(xml);
        added.map_err(|refusal| Error::daemon_said("add_device", *refusal.0))
    }

    /// Pulls a device out; says whether it was there.
    pub fn remove_device(&self, name: &str) -> bool {
        self.world().remove_device(name)
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

    /// The host boots after a [`power_loss`](Self::power_loss): pools, networks and domains that have autostart start,
    /// and no others.
    pub fn boot_host(&self) {
        self.world().boot_host();
    }

    /// Stops a domain as if its process had died.
    pub fn crash(&self, domain: &str) {
        self.world().crash(domain);
    }

    /// All that the daemon and its host remember.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.world().snapshot()
    }

    /// Puts what a snapshot has in the place of what there is; all connections end.
    ///
    /// Domains that ran go on as if nothing had been. Guests that were booting boot again; agents know nothing of programs
    /// that were running and files that were open.
    ///
    /// # Errors
    /// When it is no snapshot of this version of the library; then nothing has changed.
    pub fn restore(&self, snapshot: &Snapshot) -> Result<(), RestoreError> {
        self.world().restore(snapshot)
    }

    /// Lets the host outlive the process it is in: takes over what an earlier life of it left, and tells a keeper of
    /// every change from then on.
    ///
    /// Of a host that has no earlier life, nothing is `left`, and all that is there is told with the first change.
    /// Records told together belong together: they are to be kept all or none, in their order, each in the place of an
    /// earlier one of the same key. A call is answered when the keeper has what it changed. A keeper that fails is told
    /// the same and more at the next call, and clients are cut off without an answer until it has all.
    ///
    /// Domains that ran go on, as [`restore`](Self::restore) says.
    ///
    /// # Errors
    /// When what is left is not all that a daemon of this version of the library told; then nothing has changed.
    pub fn live_on(
        &self,
        left: Vec<Record>,
        keeper: impl FnMut(&[Record]) -> io::Result<()> + Send + 'static,
    ) -> Result<(), RestoreError> {
        self.world().live_on(left, Box::new(keeper))
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
        let volume = world.pools.named(pool)?.volumes.named(volume)?;
        Some(volume.content.read(0, usize::MAX))
    }

    /// The names of all domains, in the order in which they were defined.
    #[must_use]
    pub fn domains(&self) -> Vec<String> {
        self.world().domains.iter().map(|d| d.name.clone()).collect()
    }
}
