//! The server's process, from inside and from outside.

use std::{
    env,
    net::{SocketAddr, TcpListener as StdListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use bigfleet_proto::{CapacityProviderServer, MachineRef};
use providerkit::{Engine, Options, store::Sqlite};
use tokio::{net::TcpListener, time::sleep};
use tonic::transport::{Server as Grpc, server::TcpIncoming};

use crate::{Result, backend, naive::Naive, wire};

const START: Duration = Duration::from_secs(120);

/// Serves until it is killed. Nothing is bound before the state is loaded, so that the first connection is answered.
pub(crate) async fn serve(state: &Path, machines: usize, addr: SocketAddr, naive_addr: SocketAddr) -> Result<()> {
    let store = Box::new(Sqlite::open(state)?);
    let backend = Arc::new(backend::Instant { machines });
    let engine = Engine::start(Options::new("bench"), store, backend).await?;
    let naive = CapacityProviderServer::new(Naive { engine: engine.clone() });
    let ours = Grpc::builder()
        .add_service(providerkit::server(engine))
        .serve_with_incoming(listen(addr).await?);
    let naive = Grpc::builder()
        .add_service(naive)
        .serve_with_incoming(listen(naive_addr).await?);
    tokio::try_join!(ours, naive)?;
    Ok(())
}

async fn listen(addr: SocketAddr) -> Result<TcpIncoming> {
    let listener = TcpListener::bind(addr).await?;
    Ok(TcpIncoming::from(listener).with_nodelay(Some(true)))
}

/// The server as its client holds it; killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    spawned: Instant,
    state: PathBuf,
    machines: usize,
    addr: SocketAddr,
    naive_addr: SocketAddr,
}

impl Server {
    pub(crate) fn start(state: &Path, machines: usize) -> Result<Self> {
        // Both are held until both are known, so that they differ.
        let (ours, naive) = (StdListener::bind("127.0.0.1:0")?, StdListener::bind("127.0.0.1:0")?);
        let (addr, naive_addr) = (ours.local_addr()?, naive.local_addr()?);
        drop((ours, naive));
        let spawned = Instant::now();
        Ok(Self {
            child: spawn(state, machines, addr, naive_addr)?,
            spawned,
            state: state.to_owned(),
            machines,
            addr,
            naive_addr,
        })
    }

    /// Starts it again on the same state.
    pub(crate) fn spawn(&mut self) -> Result<()> {
        self.spawned = Instant::now();
        self.child = spawn(&self.state, self.machines, self.addr, self.naive_addr)?;
        Ok(())
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Time from its start to its first answer.
    pub(crate) async fn answers(&mut self) -> Result<Duration> {
        let id = backend::machine_id(0);
        while self.spawned.elapsed() < START {
            if let Ok(mut client) = wire::client(self.addr).await {
                client.get(MachineRef { id }).await?;
                return Ok(self.spawned.elapsed());
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the server ended: {status}").into());
            }
            sleep(Duration::from_millis(1)).await;
        }
        Err("the server does not answer".into())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) const fn machines(&self) -> usize {
        self.machines
    }

    pub(crate) const fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) const fn naive_addr(&self) -> SocketAddr {
        self.naive_addr
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.kill());
    }
}

fn spawn(state: &Path, machines: usize, addr: SocketAddr, naive: SocketAddr) -> Result<Child> {
    let child = Command::new(env::current_exe()?)
        .arg("--serve")
        .arg(format!("--state={}", state.display()))
        .arg(format!("--machines={machines}"))
        .arg(format!("--addr={addr}"))
        .arg(format!("--naive-addr={naive}"))
        .stdin(Stdio::null())
        .spawn()?;
    Ok(child)
}
