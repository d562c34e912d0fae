//! A process that outlives us, known by a file: its id, and what tells it from a later one with the same id.

use std::{
    fs, io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

/// A process, by its id and when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pid: u32,
    /// Since the machine's boot, in ticks.
    begun: u64,
    /// The boot.
    boot: String,
}

impl Identity {
    /// Of a process that runs.
    ///
    /// # Errors
    /// When there is no such process.
    pub(super) fn of(pid: u32) -> Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").context("reading the machine's boot id")?;
        let (_, begun) = stat(pid).with_context(|| format!("process {pid} has ended"))?;
        Ok(Self {
            pid,
            begun,
            boot: boot.trim().to_owned(),
        })
    }

    /// What a file says; `None` if there is none.
    ///
    /// # Errors
    /// When it says something else.
    pub(super) fn read(file: &Path) -> Result<Option<Self>> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
        };
        let parsed = (|| {
            let mut words = text.split_whitespace();
            Some(Self {
                pid: words.next()?.parse().ok()?,
                begun: words.next()?.parse().ok()?,
                boot: words.next()?.to_owned(),
            })
        })();
        let parsed = parsed.with_context(|| format!("{} names no process; remove it", file.display()))?;
        Ok(Some(parsed))
    }

    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let Self { pid, begun, boot } = self;
        fs::write(file, format!("{pid} {begun} {boot}\n")).with_context(|| format!("writing {}", file.display()))
    }

    /// Whether it runs. One that has ended and was not waited for does not.
    pub(super) fn runs(&self) -> bool {
        let running = stat(self.pid).is_some_and(|(state, begun)| !matches!(state, 'Z' | 'X') && begun == self.begun);
        running && Self::of(self.pid).is_ok_and(|now| now == *self)
    }

    /// Its children that run.
    pub(super) fn children(&self) -> Vec<Self> {
        let file = format!("/proc/{0}/task/{0}/children", self.pid);
        let text = fs::read_to_string(file).unwrap_or_default();
        let pids = text.split_whitespace().filter_map(|pid| pid.parse().ok());
        pids.filter_map(|pid| Self::of(pid).ok()).collect()
    }

    /// Ends it with SIGKILL; nothing happens if it has ended.
    ///
    /// # Errors
    /// When it may not be ended.
    pub(super) fn kill(&self) -> Result<()> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Ok(());
        };
        // The handle first, then the look: it cannot become another process in between.
        let sent = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) if self.runs() => pidfd_send_signal(&handle, Signal::KILL),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        match sent {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("ending process {}", self.pid)),
        }
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// When it still runs after `limit`.
    pub(super) fn wait(&self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        while self.runs() {
            if Instant::now() > deadline {
                bail!("process {} still runs after {limit:?}", self.pid);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// State and beginning of a process.
fn stat(pid: u32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold anything, and ends at the last parenthesis.
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio, id};

    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_with_its_id() {
        let me = Identity::of(id()).unwrap();
        assert!(me.runs());
        let earlier = Identity {
            begun: me.begun - 1,
            ..me.clone()
        };
        assert!(!earlier.runs());
        let before_a_reboot = Identity {
            boot: "another".into(),
            ..me
        };
        assert!(!before_a_reboot.runs());
        // They are not me, so nothing happens.
        earlier.kill().unwrap();
        before_a_reboot.kill().unwrap();
    }

    #[test]
    fn what_was_written_is_read_again_and_can_be_ended() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        assert_eq!(Identity::read(&file).unwrap(), None);
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        identity.write(&file).unwrap();
        assert_eq!(Identity::read(&file).unwrap().as_ref(), Some(&identity));
        assert!(identity.runs());
        identity.kill().unwrap();
        // It is a zombie until the next line but one.
        identity.wait(Duration::from_secs(10)).unwrap();
        assert!(!child.wait().unwrap().success());
        identity.kill().unwrap();
        fs::write(&file, "nonsense").unwrap();
        assert!(Identity::read(&file).is_err());
    }
}
