//! Ctrl-C, for what must be cleaned up first.

use std::{
    process::{Child, Command, ExitStatus},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

/// How long a program may take to end by itself.
const END: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on, signals that ask us to end no longer do it, but are told by [`check`].
///
/// # Errors
/// When signals cannot be received.
pub(crate) fn defer() -> Result<()> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(asked)).context("receiving signals")?;
    }
    Ok(())
}

/// # Errors
/// When we were asked to end.
pub(crate) fn check() -> Result<()> {
    if ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed)) {
        bail!("interrupted");
    }
    Ok(())
}

/// Runs a program to its end, or to ours.
///
/// # Errors
/// When it cannot be started, or we were asked to end; the program has ended by then.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
    loop {
        let ended = child.try_wait()?;
        // First, since Ctrl-C in a terminal ends the program, too.
        if let Err(interrupted) = check() {
            end(&mut child)?;
            return Err(interrupted);
        }
        if let Some(status) = ended {
            return Ok(status);
        }
        thread::sleep(LOOK);
    }
}

fn end(child: &mut Child) -> Result<()> {
    if child.try_wait()?.is_none() {
        kill_process(Pid::from_child(child), Signal::TERM).context("sending SIGTERM")?;
    }
    let deadline = Instant::now() + END;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
        }
        thread::sleep(LOOK);
    }
    Ok(())
}
