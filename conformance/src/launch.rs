//! Providers as child processes.

use std::{
    fs::{self, File, OpenOptions},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{net::TcpStream, time::sleep};

use crate::{
    error::Error,
    mapping::{Flags, Mapping, seconds},
};

/// How long a start may take (contract §12.2).
const START_LIMIT: Duration = Duration::from_secs(20);
/// How often another port is tried where somebody was quicker.
const PORTS_TRIED: usize = 5;

/// Starts providers.
#[derive(Debug)]
pub(crate) struct Launcher {
    command: Vec<String>,
    fault_command: Option<Vec<String>>,
    mapping: Mapping,
    logs: PathBuf,
    next_port: Option<AtomicU16>,
    started: AtomicUsize,
    factor: f64,
}

/// What a process is started with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    /// Names the log.
    pub(crate) name: String,
    pub(crate) seeds: usize,
    pub(crate) state: Option<PathBuf>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) tls: Option<TlsFiles>,
    /// The one that fails on demand.
    pub(crate) fault: bool,
    pub(crate) port: Option<u16>,
}

/// PEM files.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) ca: Option<PathBuf>,
}

impl Start {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            seeds: 64,
            ..Self::default()
        }
    }

    pub(crate) fn seeds(mut self, seeds: usize) -> Self {
        self.seeds = seeds;
        self
    }

    pub(crate) fn state(mut self, path: impl Into<PathBuf>) -> Self {
        self.state = Some(path.into());
        self
    }

    pub(crate) fn fault(mut self, timeout: Duration) -> Self {
        self.fault = true;
        self.timeout = Some(timeout);
        self
    }

    pub(crate) fn tls(mut self, tls: TlsFiles) -> Self {
        self.tls = Some(tls);
        self
    }

    pub(crate) fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }
}

impl Launcher {
    pub(crate) fn new(
        command: &str,
        mapping: Mapping,
        logs: PathBuf,
        first_port: Option<u16>,
        factor: f64,
    ) -> Result<Self, Error> {
        let fault_command = mapping.fault.command.as_deref().map(words).transpose()?;
        Ok(Self {
            command: words(command)?,
            fault_command,
            mapping,
            logs,
            next_port: first_port.map(AtomicU16::new),
            started: AtomicUsize::new(0),
            factor,
        })
    }

    pub(crate) fn has_fault_provider(&self) -> bool {
        self.fault_command.is_some()
    }

    /// Starts it and waits until it listens.
    pub(crate) async fn start(&self, start: &Start) -> Result<Provider, Error> {
        let mut tries = 0;
        loop {
            let mut provider = self.spawn(start)?;
            let Err(why) = provider.listens(START_LIMIT.mul_f64(self.factor)).await else {
                return Ok(provider);
            };
            tries += 1;
            let taken = provider.log_text().contains("in use");
            if !taken || tries == PORTS_TRIED || start.port.is_some() {
                return Err(Error::new(why));
            }
        }
    }

    /// Starts it and returns at once.
    pub(crate) fn spawn(&self, start: &Start) -> Result<Provider, Error> {
        let command = if start.fault {
            let none = "no provider that fails on demand; name one with --fault-provider or `fault.command`";
            self.fault_command.as_ref().ok_or_else(|| Error::new(none))?
        } else {
            &self.command
        };
        let port = match (start.port, &self.next_port) {
            (Some(port), _) => port,
            (None, Some(next)) => next.fetch_add(1, Ordering::Relaxed),
            (None, None) => free_port()?,
        };
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let log = self.logs.join(format!("{number:03}-{}.log", start.name));
        let (program, rest) = command
            .split_first()
            .ok_or_else(|| Error::new("the command of the provider is empty"))?;
        let arguments = self.arguments(start, address);
        let out = append(&log)?;
        let again = out
            .try_clone()
            .map_err(|source| Error::because(format!("log `{}` cannot be written", log.display()), source))?;
        let child = Command::new(program)
            .args(rest)
            .args(&arguments)
            .envs(&self.mapping.env)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(again)
            .spawn()
            .map_err(|source| Error::because(format!("provider `{program}` cannot be started"), source))?;
        Ok(Provider {
            child: Mutex::new(child),
            address,
            log,
            line: format!("{} {}", command.join(" "), arguments.join(" ")),
        })
    }

    fn arguments(&self, start: &Start, address: SocketAddr) -> Vec<String> {
        let flags = &self.mapping.flags;
        let path = |path: &Path| path.display().to_string();
        let mut arguments = flags.extra.clone();
        let mut add = |template: &str, value: &str| arguments.extend(Flags::fill(template, value));
        add(&flags.addr, &address.to_string());
        add(&flags.provider, if start.fault { "fault" } else { "certify" });
        if !start.fault || self.mapping.fault.takes_fake_flag {
            add(&flags.fake, "");
        }
        add(&flags.seed_count, &start.seeds.to_string());
        if let Some(state) = &start.state {
            add(&flags.state, &path(state));
        }
        if let Some(timeout) = start.timeout {
            add(&flags.transition_timeout, &seconds(timeout));
        }
        if let Some(tls) = &start.tls {
            for (template, file) in [
                (&flags.tls_cert, &tls.cert),
                (&flags.tls_key, &tls.key),
                (&flags.tls_ca, &tls.ca),
            ] {
                if let Some(file) = file {
                    add(template, &path(file));
                }
            }
        }
        arguments
    }
}

/// Splits a command line as a shell does.
fn words(command: &str) -> Result<Vec<String>, Error> {
    shlex::split(command)
        .filter(|words| !words.is_empty())
        .ok_or_else(|| Error::new(format!("`{command}` is no command line; check its quotes")))
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> Result<u16, Error> {
    let taken = |source| Error::because("no free port on 127.0.0.1", source);
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(taken)?;
    Ok(listener.local_addr().map_err(taken)?.port())
}

fn append(path: &Path) -> Result<File, Error> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|source| Error::because(format!("log `{}` cannot be written", path.display()), source))
}

/// A provider's process. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Provider {
    child: Mutex<Child>,
    pub(crate) address: SocketAddr,
    log: PathBuf,
    line: String,
}

impl Provider {
    /// Waits until it listens; otherwise says why it does not.
    pub(crate) async fn listens(&mut self, limit: Duration) -> Result<(), String> {
        let end = Instant::now() + limit;
        loop {
            if TcpStream::connect(self.address).await.is_ok() && !self.has_ended() {
                return Ok(());
            }
            if self.has_ended() {
                return Err(format!("`{}` ended at its start:\n{}", self.line, self.tail()));
            }
            if Instant::now() > end {
                return Err(format!(
                    "`{}` does not listen within {limit:?}:\n{}",
                    self.line,
                    self.tail()
                ));
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lock().try_wait().is_ok_and(|status| status.is_some())
    }

    /// Whether it ended by itself and without an error.
    pub(crate) fn ended_well(&self) -> bool {
        self.lock()
            .try_wait()
            .is_ok_and(|status| status.is_some_and(|status| status.success()))
    }

    /// SIGKILL, and waits until the process is no more.
    pub(crate) fn kill(&self) {
        let mut child = self.lock();
        // Fails where it has ended already, which is as good.
        child.kill().ok();
        child.wait().ok();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn log_text(&self) -> String {
        fs::read(&self.log).map_or_else(
            |error| format!("log `{}` cannot be read: {error}", self.log.display()),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    /// The last lines it said.
    pub(crate) fn tail(&self) -> String {
        let text = self.log_text();
        let lines: Vec<_> = text.lines().collect();
        let from = lines.len().saturating_sub(20);
        lines.get(from..).unwrap_or_default().join("\n")
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.kill();
    }
}
