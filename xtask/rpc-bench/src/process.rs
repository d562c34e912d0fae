//! Processes that measure, each held to one core.

use std::{
    env,
    ffi::OsStr,
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::sample::Sample;

/// Where servers run.
pub(crate) const SERVER: u8 = 0;
/// Where clients run.
pub(crate) const CLIENT: u8 = 1;

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(30);

/// The command, on one core.
pub(crate) fn pinned(core: u8, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &core.to_string()]).arg(program);
    command.stdin(Stdio::null());
    command
}

/// This program in one of its roles, on one core.
pub(crate) fn role(core: u8, name: &str) -> Result<Command> {
    let mut command = pinned(core, env::current_exe().context("finding this program")?);
    command.arg(name);
    Ok(command)
}

/// Runs a client to its end and reads what it measured.
pub(crate) fn sample(command: &mut Command) -> Result<Sample> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", output.status);
    }
    String::from_utf8_lossy(&output.stdout)
        .parse()
        .with_context(|| format!("reading what {command:?} measured"))
}

/// A server that ends with this value.
pub(crate) struct Server {
    child: Child,
}

impl Server {
    /// Starts it and waits until it listens.
    pub(crate) fn start(command: &mut Command, socket: &Path) -> Result<Self> {
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let mut server = Self { child };
        let begun = Instant::now();
        while UnixStream::connect(socket).is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("{command:?} ended: {status}");
            }
            if begun.elapsed() > PATIENCE {
                bail!("{command:?} does not listen on {}", socket.display());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended already is fine too.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
