//! One host of the lab: a folder, and the process that `host.sh` becomes.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::pid::Identity;
use crate::{interrupt, process, workspace};

/// A host starts within seconds; on a machine that builds something, not.
const START: Duration = Duration::from_secs(180);
const STOP: Duration = Duration::from_secs(60);
/// Seconds virsh may take: a daemon may be frozen.
const VIRSH: u32 = 60;
/// What a socket's path may have, in bytes.
const SOCKET_PATH: usize = 107;
/// An image that is being copied.
const PARTIAL: &str = ".partial";

/// One host. It need not run.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    folder: PathBuf,
    number: u32,
}

/// What a host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    On,
    Starting,
    Off,
}

impl Host {
    pub(super) fn new(lab: &Path, number: u32) -> Self {
        let folder = lab.join(format!("host-{number}"));
        Self { folder, number }
    }

    pub(crate) fn name(&self) -> String {
        format!("host-{}", self.number)
    }

    /// The zone it is served as.
    pub(crate) fn zone(&self) -> String {
        format!("zone-{}", self.number)
    }

    pub(crate) fn uri(&self) -> String {
        format!("qemu+unix:///system?socket={}", self.socket().display())
    }

    /// Where its daemons and guests' consoles log.
    pub(crate) fn logs(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// # Errors
    /// When it cannot be told.
    pub(crate) fn power(&self) -> Result<Power> {
        Ok(match self.process()? {
            Some(_) if self.ready().exists() => Power::On,
            Some(_) => Power::Starting,
            None => Power::Off,
        })
    }

    /// Puts the image into its pool, and starts it unless it runs; `bound`, it ends with us.
    ///
    /// # Errors
    /// When the image cannot be put there, or the host does not start.
    pub(super) fn start(&self, image: &Path, bound: bool) -> Result<()> {
        let socket = self.socket();
        ensure!(
            socket.as_os_str().len() <= SOCKET_PATH,
            "{} is longer than a socket's path may be ({SOCKET_PATH} bytes); set CARGO_TARGET_DIR to a shorter one",
            socket.display()
        );
        self.stage(image)?;
        if self.process()?.is_none() {
            // Of an earlier start.
            drop(fs::remove_file(self.ready()));
            let log = File::create(self.log()).with_context(|| format!("creating {}", self.log().display()))?;
            let script = workspace::root().join("xtask/src/lab/host.sh");
            let mut command = if bound {
                process::bound(script)
            } else {
                Command::new(script)
            };
            let child = command
                .arg(&self.folder)
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                // Ctrl-C is not for it.
                .process_group(0)
                .spawn()
                .context("starting host.sh")?;
            Identity::of(child.id())
                .and_then(|identity| identity.write(&self.pid_file()))
                .with_context(|| format!("{} is not known to run{}", self.name(), self.last_words()))?;
        }
        Ok(())
    }

    /// Waits until it serves its pool.
    ///
    /// # Errors
    /// When it ends or takes too long; says what it printed.
    pub(super) fn wait(&self) -> Result<()> {
        let deadline = Instant::now() + START;
        loop {
            match self.power()? {
                Power::On => break,
                Power::Starting if Instant::now() < deadline => {
                    interrupt::check()?;
                    thread::sleep(Duration::from_millis(50));
                }
                Power::Starting => bail!("{} is not ready after {START:?}{}", self.name(), self.last_words()),
                Power::Off => bail!("{} ended as it started{}", self.name(), self.last_words()),
            }
        }
        // The image may have come after the pool.
        self.virsh(&["pool-refresh", "default"]).map(drop)
    }

    /// Takes its power. Nothing of it runs afterwards.
    ///
    /// # Errors
    /// When it does not end.
    pub(super) fn stop(&self) -> Result<()> {
        if let Some(process) = self.process()? {
            // The first process of its namespace: it is gone only when all others are.
            let inner = process.children();
            process.kill()?;
            process.wait(STOP)?;
            inner.iter().try_for_each(|init| init.wait(STOP))?;
        }
        drop(fs::remove_file(self.pid_file()));
        Ok(())
    }

    /// The names of all its domains.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub(crate) fn domains(&self) -> Result<Vec<String>> {
        let text = self.virsh(&["list", "--all", "--name"])?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// The names of all volumes of its pool.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub(crate) fn volumes(&self) -> Result<Vec<String>> {
        self.virsh(&["pool-refresh", "default"])?;
        let text = self.virsh(&["vol-list", "default"])?;
        let names = text.lines().filter_map(|line| line.split_whitespace().next());
        Ok(names.map(str::to_owned).collect())
    }

    /// What virsh prints.
    ///
    /// # Errors
    /// With what it complains of.
    pub(crate) fn virsh(&self, arguments: &[&str]) -> Result<String> {
        self.ask(&["-q"], arguments)
    }

    /// The same with the heads of its tables.
    ///
    /// # Errors
    /// With what it complains of.
    pub(crate) fn virsh_table(&self, arguments: &[&str]) -> Result<String> {
        self.ask(&[], arguments)
    }

    fn ask(&self, options: &[&str], arguments: &[&str]) -> Result<String> {
        let output = Command::new("timeout")
            .args([&VIRSH.to_string(), "virsh", "-c", &self.uri()])
            .args(options)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .context("starting virsh")?;
        let asked = || format!("`virsh {}` on {}", arguments.join(" "), self.name());
        match output.status.code() {
            Some(0) => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
            Some(124) => bail!("{} has no answer after {VIRSH} s", asked()),
            _ => bail!("{} failed: {}", asked(), String::from_utf8_lossy(&output.stderr).trim()),
        }
    }

    /// Its process, if it runs.
    fn process(&self) -> Result<Option<Identity>> {
        Ok(Identity::read(&self.pid_file())?.filter(Identity::runs))
    }

    fn stage(&self, image: &Path) -> Result<()> {
        let pool = self.folder.join("lib/images");
        fs::create_dir_all(&pool).with_context(|| format!("creating {}", pool.display()))?;
        let name = image.file_name().context("the image has no name")?;
        let (staged, partial) = (pool.join(name), pool.join(PARTIAL));
        let content = fs::read(image).with_context(|| format!("reading {}", image.display()))?;
        if fs::read(&staged).is_ok_and(|there| there == content) {
            return Ok(());
        }
        let ours = [name, OsStr::new(PARTIAL)];
        let others = fs::read_dir(&pool)?
            .flatten()
            .any(|entry| !ours.contains(&&*entry.file_name()));
        if staged.exists() && others {
            bail!(
                "{} has machines on an earlier build of the image, which another build would break; `cargo xtask lab \
                 down` removes them",
                self.name()
            );
        }
        let put = fs::write(&partial, content).and_then(|()| fs::rename(&partial, &staged));
        put.with_context(|| format!("copying the image to {}", staged.display()))
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("run/libvirt-sock")
    }

    fn ready(&self) -> PathBuf {
        self.folder.join("run/lab-ready")
    }

    fn pid_file(&self) -> PathBuf {
        self.folder.join("host.pid")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("host.log")
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        match text.trim() {
            "" => String::new(),
            text => format!("; it said: {text}"),
        }
    }
}
