//! `janitor`: what failed attempts left on the hosts. A provider that runs has a janitor of its own; this one is for when
//! none runs, or to look.
//!
//! What belongs to a machine, or to an operation that a start would drive on, only the state file knows. So without one
//! nothing is a leftover, and while a provider has it nothing is removed.

use std::{
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use anyhow::anyhow;
use libvirt_backend::{Leftover, Libvirt};
use providerkit::{
    Backend as _, Known,
    store::{self, Sqlite},
};

use super::{Exit, Failure, in_runtime, libvirt, settings};
use crate::cli::Flags;

pub(super) fn run(flags: &Flags, dry_run: bool) -> Result<Exit, Failure> {
    let settings = settings(flags)?;
    let Some(state) = settings.runtime.state.clone() else {
        return Err(Failure::usage(anyhow!(
            "which machines there should be, only the state file knows; name it with --state"
        )));
    };
    let libvirt = libvirt(settings)?;
    if Sqlite::find(&state).map_err(failure)?.is_none() {
        return Err(Failure::usage(anyhow!(
            "state file `{}` is not there, so nothing can be told from a leftover; name the one that the provider has",
            state.display()
        )));
    }
    if dry_run {
        let known = known(&Sqlite::read(&state).map_err(failure)?.records, &state)?;
        return in_runtime(sweep(libvirt, known, true));
    }
    // Held until all is done, so that no provider starts meanwhile.
    let mut held: Box<dyn store::Store> = Box::new(Sqlite::open(&state).map_err(failure)?);
    let known = known(&held.load().map_err(failure)?.records, &state)?;
    let done = in_runtime(sweep(libvirt, known, false));
    held.close().map_err(failure)?;
    done
}

fn failure(error: store::Error) -> Failure {
    match error.kind() {
        store::ErrorKind::InUse => Failure::temporary(anyhow!(
            "{error}; a provider that runs removes leftovers by itself, and --dry-run looks beside it"
        )),
        _ => Failure::usage(error),
    }
}

fn known(records: &[store::Record], state: &Path) -> Result<Vec<Known>, Failure> {
    if records.is_empty() {
        return Err(Failure::usage(anyhow!(
            "state file `{}` knows no machine, so nothing can be told from a leftover; start the provider once: it takes \
             in what it finds",
            state.display()
        )));
    }
    Ok(records.iter().map(store::Record::known).collect())
}

async fn sweep(
    settings: libvirt_backend::settings::Settings,
    known: Vec<Known>,
    dry_run: bool,
) -> Result<Exit, Failure> {
    // It only looks: machines that are off stay off.
    let hosts = Libvirt::observe(settings);
    let looked = async {
        hosts.describe(&known).await?;
        hosts.leftovers().await
    };
    let found = looked.await.map_err(Failure::unavailable);
    let down = hosts.unreachable();
    let outcome = match found {
        Ok(found) if dry_run => tell(found, &down),
        Ok(found) => {
            let done = hosts.remove_leftovers(found).await;
            told(done, &down)
        }
        Err(failure) => Err(failure),
    };
    hosts.stop().await;
    outcome
}

type Host = Arc<str>;

fn tell(found: Vec<(Host, Leftover)>, down: &[(Host, Arc<str>)]) -> Result<Exit, Failure> {
    let mut out = io::stdout().lock();
    let count = found.len();
    for (host, leftover) in found {
        let what = if matches!(leftover, Leftover::Stray(..)) {
            "would be kept"
        } else {
            "would be removed"
        };
        writeln!(out, "{host}: {leftover}: {what}")?;
    }
    if count == 0 {
        writeln!(out, "there are no leftovers")?;
    }
    end(out, down, false)
}

fn told(
    done: Vec<(Host, Leftover, Result<bool, providerkit::Error>)>,
    down: &[(Host, Arc<str>)],
) -> Result<Exit, Failure> {
    let mut out = io::stdout().lock();
    if done.is_empty() {
        writeln!(out, "there are no leftovers")?;
    }
    let mut failed = false;
    for (host, leftover, removed) in done {
        match removed {
            Ok(true) => writeln!(out, "{host}: {leftover}: removed")?,
            Ok(false) => writeln!(out, "{host}: {leftover}: kept")?,
            Err(error) => {
                failed = true;
                writeln!(out, "{host}: {leftover}: cannot be removed: {}", error.report())?;
            }
        }
    }
    end(out, down, failed)
}

fn end(mut out: io::StdoutLock<'_>, down: &[(Host, Arc<str>)], failed: bool) -> Result<Exit, Failure> {
    for (host, reason) in down {
        writeln!(out, "{host}: not looked at, because it cannot be reached: {reason}")?;
    }
    Ok(match (failed, down) {
        (true, _) => Exit::Internal,
        (_, []) => Exit::Success,
        _ => Exit::Unavailable,
    })
}
