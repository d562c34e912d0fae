//! `cargo xtask demo`: the provider and a client that walks machines through their life, on this machine only.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};

use crate::{process, workspace};

/// How long a simulated machine takes: long enough to be seen.
const DELAY: &str = "600ms";
const START: Duration = Duration::from_secs(20);
const STOP: Duration = Duration::from_secs(20);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many machines walk
    #[arg(long, default_value_t = 6)]
    machines: usize,
}

/// Builds, starts the provider, runs the client against it, and stops the provider.
///
/// # Errors
/// When a machine does not come back to where it began, or the provider does not end cleanly.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    process::run(&mut process::cargo([
        "build",
        "--package=libvirt-provider",
        "--bin=libvirt-provider",
        "--example=demo",
    ]))?;
    let folder = workspace::target().join("xtask/demo");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let log = folder.join("provider.log");

    let mut provider = Provider::start(&folder, &log, arguments.machines)?;
    let walked = provider
        .ready()
        .and_then(|()| walk(provider.address, arguments.machines));
    let stopped = provider.stop();
    match walked.and(stopped) {
        Ok(()) => {
            println!("provider stopped cleanly; its log is {}", log.display());
            Ok(())
        }
        Err(error) => Err(error.context(format!("the provider's log is {}", log.display()))),
    }
}

fn walk(address: SocketAddr, machines: usize) -> Result<()> {
    let status = Command::new(workspace::target().join("debug/examples/demo"))
        .arg(format!("--addr={address}"))
        .arg(format!("--machines={machines}"))
        .status()
        .context("starting the demo client")?;
    if !status.success() {
        bail!("the demo client failed: {status}");
    }
    Ok(())
}

/// The provider's process; killed if it is dropped while it runs.
struct Provider {
    child: Child,
    address: SocketAddr,
}

impl Provider {
    fn start(folder: &Path, log: &Path, machines: usize) -> Result<Self> {
        let address = free_address()?;
        let output = File::create(log)?;
        let child = Command::new(workspace::target().join("debug/libvirt-provider"))
            .arg(format!("--addr={address}"))
            .arg("--provider=demo")
            .arg("--use-fake-backend")
            .arg(format!("--seed-count={}", machines.saturating_mul(4)))
            .arg(format!("--set=fake.delay={DELAY}"))
            .arg("--metrics-addr=")
            .arg(format!("--state={}", folder.join("state.db").display()))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("starting the provider")?;
        println!("provider on {address}, process {}", child.id());
        Ok(Self { child, address })
    }

    /// Waits until it listens.
    fn ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + START;
        while Instant::now() < deadline {
            if TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the provider ended before it listened: {status}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        bail!("the provider does not listen after {START:?}")
    }

    /// Asks it to end, and waits until it did.
    fn stop(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the provider ended by itself: {status}");
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM).context("sending SIGTERM")?;
        let status = self.wait()?;
        if !status.success() {
            bail!("the provider ended with {status} after SIGTERM");
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + STOP;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(20));
        }
        bail!("the provider still runs {STOP:?} after SIGTERM")
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    Ok(listener.local_addr()?)
}
