//! The provider's process.

use std::{
    fs::File,
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::{interrupt, process, workspace};

const START: Duration = Duration::from_secs(60);
/// Longer than the provider waits for what is under way.
const STOP: Duration = Duration::from_secs(60);

/// A provider that runs; killed if it is dropped.
pub(super) struct Provider {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Provider {
    /// Starts the one that was built, on a free port of loopback, with its state in the folder.
    pub(super) fn start(folder: &Path, log: &Path, arguments: &[String]) -> Result<Self> {
        let address = free_address()?;
        let output = File::create(log)?;
        let child = process::bound(workspace::target().join("debug/libvirt-provider"))
            .arg(format!("--addr={address}"))
            .arg("--provider=demo")
            .arg("--metrics-addr=")
            .arg(format!("--state={}", folder.join("state.db").display()))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("starting the provider")?;
        println!("provider on {address}, process {}", child.id());
        Ok(Self { child, address })
    }

    /// Waits until it listens.
    pub(super) fn ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + START;
        while Instant::now() < deadline {
            interrupt::check()?;
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
    pub(super) fn stop(mut self) -> Result<()> {
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
