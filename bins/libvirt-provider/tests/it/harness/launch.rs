//! The binary as a child process.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    net::SocketAddr,
    ops::Deref,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::{net::TcpStream, time::sleep};

use super::{Client, fresh_port};

/// How long a start may take (contract §12.2).
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long a process may take to end by itself.
const EXIT_LIMIT: Duration = Duration::from_secs(20);
/// How often another port is tried.
const PORTS_TRIED: usize = 5;

/// How to start a provider; can be started again and again on the same state and into the same log.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    fake: bool,
    seeds: usize,
    metrics: Option<String>,
    state: Option<PathBuf>,
    flags: Vec<String>,
    env: Vec<(String, String)>,
    port: Option<u16>,
    program: Vec<OsString>,
    logs: Arc<TempDir>,
}

impl Default for Launch {
    fn default() -> Self {
        Self {
            fake: true,
            seeds: 64,
            metrics: Some("127.0.0.1:0".into()),
            state: None,
            flags: Vec::new(),
            env: Vec::new(),
            port: None,
            program: vec![env!("CARGO_BIN_EXE_libvirt-provider").into()],
            logs: Arc::new(TempDir::new().unwrap()),
        }
    }
}

impl Launch {
    /// With a fleet in memory.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// With its state in a file.
    pub(crate) fn on(state: impl Into<PathBuf>) -> Self {
        Self {
            state: Some(state.into()),
            ..Self::default()
        }
    }

    pub(crate) fn seeds(mut self, seeds: usize) -> Self {
        self.seeds = seeds;
        self
    }

    /// Without `--use-fake-backend`.
    pub(crate) fn without_fake(mut self) -> Self {
        self.fake = false;
        self
    }

    /// Sets `--metrics-addr`, or leaves it to its default.
    pub(crate) fn metrics(mut self, address: Option<&str>) -> Self {
        self.metrics = address.map(str::to_owned);
        self
    }

    pub(crate) fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// How long each transition of the fake backend takes.
    pub(crate) fn delay(self, delay: Duration) -> Self {
        self.env("LIBVIRT_PROVIDER__FAKE__DELAY", format!("{}ms", delay.as_millis()))
    }

    /// Sets a variable, in place of what it was.
    pub(crate) fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        self.env.retain(|(known, _)| *known != name);
        self.env.push((name, value.into()));
        self
    }

    /// Listens on this port at every start.
    pub(crate) fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Starts this instead of the binary that was built for tests; the flags come after it.
    pub(crate) fn program(mut self, program: impl IntoIterator<Item = OsString>) -> Self {
        self.program = program.into_iter().collect();
        self
    }

    /// Starts it and waits until it listens.
    pub(crate) async fn start(self) -> Provider {
        for _ in 0..PORTS_TRIED {
            let port = self.port.unwrap_or_else(fresh_port);
            let mut running = self.spawn(port);
            if running.listens().await {
                let client = Client::lazily(running.address);
                return Provider {
                    running,
                    client,
                    launch: self,
                };
            }
            let taken = running.log_text().contains("in use");
            assert!(taken, "the provider ended instead of listening");
            running.quiet = true;
        }
        panic!("{PORTS_TRIED} ports in a row were taken");
    }

    /// Starts it and waits until it has ended by itself.
    pub(crate) async fn run(self) -> Exit {
        let mut running = self.spawn(self.port.unwrap_or_else(fresh_port));
        running.exit().await
    }

    /// Starts it and returns at once.
    pub(crate) fn spawn(&self, port: u16) -> Running {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let log = self.logs.path().join("provider.log");
        let out = append(&log);
        let mut command = Command::new(&self.program[0]);
        command
            .args(&self.program[1..])
            .arg(format!("--addr={address}"))
            .arg("--provider=certify")
            .arg(format!("--seed-count={}", self.seeds));
        if self.fake {
            command.arg("--use-fake-backend");
        }
        if let Some(metrics) = &self.metrics {
            command.arg(format!("--metrics-addr={metrics}"));
        }
        if let Some(state) = &self.state {
            command.arg(format!("--state={}", state.display()));
        }
        command
            .args(&self.flags)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out);
        Running {
            child: command.spawn().unwrap(),
            address,
            log,
            quiet: false,
            _logs: Arc::clone(&self.logs),
        }
    }
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Exit {
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
}

impl Exit {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

/// A process that may or may not listen yet. Killed when dropped; shows its log when that is because a test failed.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    quiet: bool,
    _logs: Arc<TempDir>,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGKILL, and waits until the process is no more.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the port accepts; false when the process ended first.
    pub(crate) async fn listens(&mut self) -> bool {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let accepts = TcpStream::connect(self.address).await.is_ok();
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            if accepts {
                return true;
            }
            assert!(
                Instant::now() < deadline,
                "the provider does not listen within {START_LIMIT:?}"
            );
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the process has ended by itself.
    pub(crate) async fn exit(&mut self) -> Exit {
        let deadline = Instant::now() + EXIT_LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Exit {
                    status,
                    output: self.log_text(),
                };
            }
            assert!(
                Instant::now() < deadline,
                "the provider does not end within {EXIT_LIMIT:?}"
            );
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Everything written to stdout and stderr so far, by earlier starts of the same launch too.
    pub(crate) fn log_text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap()).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.kill();
        }
        if std::thread::panicking() && !self.quiet {
            let text = self.log_text();
            let lines: Vec<_> = text.lines().collect();
            let tail = &lines[lines.len().saturating_sub(60)..];
            eprintln!("--- the last lines of the provider ---\n{}\n---", tail.join("\n"));
        }
    }
}

/// A provider that listens, and a connection to it: calls are made on the provider itself.
#[derive(Debug)]
pub(crate) struct Provider {
    running: Running,
    client: Client,
    launch: Launch,
}

impl Provider {
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Another connection.
    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.running.address).await
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }

    pub(crate) fn log_text(&self) -> String {
        self.running.log_text()
    }

    /// SIGKILL; answers how to start it again.
    pub(crate) fn kill(mut self) -> Launch {
        self.running.kill();
        self.launch.clone()
    }

    /// SIGKILL and a start on the same state.
    pub(crate) async fn restart(self) -> Self {
        self.kill().start().await
    }

    /// SIGTERM, and waits for the end; answers how to start it again too.
    pub(crate) async fn terminate(mut self) -> (Exit, Launch) {
        self.running.signal(Signal::TERM);
        let exit = self.running.exit().await;
        (exit, self.launch.clone())
    }
}

impl Deref for Provider {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

fn append(path: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(path).unwrap()
}
