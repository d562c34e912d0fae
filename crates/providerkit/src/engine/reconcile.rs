//! Looks at the substrate (contract §10): new slots are added, offers refreshed, lost hosts retired. Nothing is
//! removed because the substrate did not mention it, and nothing is written when nothing changed.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use providerkit_backend::{Error, MachineId, Profile, Slot, State};
use tokio::{sync::oneshot, time::Instant};

use crate::{
    engine::{Shared, finish::Finding, writer::Command},
    validate,
};

/// Findings in one commit, so that a first look at a large fleet does not hold up calls.
const CHUNK: usize = 4096;
/// After a look that failed, sooner than usual.
const RETRY: Duration = Duration::from_secs(5);

/// What one look came to.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Slots that may not be taken in, with the reason.
    pub(crate) rejected: Vec<String>,
    pub(crate) findings: usize,
}

/// Looks for ever.
pub(crate) async fn run(shared: Arc<Shared>, mut pause: Duration) {
    loop {
        tokio::time::sleep(pause).await;
        pause = match once(&shared).await {
            Ok(report) => {
                for fault in &report.rejected {
                    tracing::warn!(%fault, "a slot is left out");
                }
                shared.options.reconcile_interval
            }
            Err(error) => {
                tracing::warn!(error = %error.report(), "the substrate could not be described; the inventory stays as it is");
                RETRY.min(shared.options.reconcile_interval)
            }
        };
    }
}

/// One look.
pub(crate) async fn once(shared: &Shared) -> Result<Report, Error> {
    let begun = Instant::now();
    let limit = shared.options.timeouts.describe;
    let slots = match tokio::time::timeout(limit, shared.backend.describe()).await {
        Ok(slots) => slots,
        Err(_elapsed) => Err(Error::new(format!("no description within {limit:?}"))),
    };
    let outcome = if slots.is_ok() { "ok" } else { "error" };
    metrics::counter!(crate::metric::RECONCILES, "outcome" => outcome).increment(1);
    metrics::histogram!(crate::metric::RECONCILE_DURATION).record(begun.elapsed().as_secs_f64());
    let (findings, rejected) = compare(shared, slots?);
    let report = Report {
        rejected,
        findings: findings.len(),
    };
    let mut findings = findings.into_iter();
    loop {
        let chunk: Vec<_> = findings.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            break;
        }
        let (done, adopted) = oneshot::channel();
        let command = Command::Adopt { findings: chunk, done };
        if shared.commands.send(command).await.is_err() || adopted.await.is_err() {
            return Err(Error::new("the engine has stopped"));
        }
    }
    if report.findings > 0 && shared.commands.send(Command::ForgetShapes).await.is_err() {
        return Err(Error::new("the engine has stopped"));
    }
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    metrics::gauge!(crate::metric::RECONCILE_LAST_SUCCESS).set(now.as_secs_f64());
    Ok(report)
}

fn compare(shared: &Shared, slots: Vec<Slot>) -> (Vec<Finding>, Vec<String>) {
    let (mut findings, mut rejected) = (Vec::new(), Vec::new());
    let mut seen = HashSet::with_capacity(slots.len());
    let view = shared.view();
    let machines: HashMap<&str, &MachineId> = view
        .machines
        .values()
        .map(|record| (&*record.slot, &record.machine.id))
        .collect();
    for slot in slots {
        if !seen.insert(Arc::clone(&slot.name)) {
            rejected.push(format!("slot `{}` is there twice", slot.name));
            continue;
        }
        if let Err(fault) = validate::slot(&slot) {
            rejected.push(fault);
            continue;
        }
        let known = machines.get(&*slot.name).and_then(|id| view.machines.get(*id));
        let Some(record) = known else {
            findings.push(Finding::New {
                slot: slot.name,
                profile: slot.profile,
                host: slot.host,
            });
            continue;
        };
        let machine = record.machine.id.clone();
        if let Some(reason) = slot.lost
            && matches!(record.machine.state, State::Idle | State::Configured)
        {
            findings.push(Finding::Lost { machine, reason });
        } else if let Some(profile) = refreshed(&record.machine.profile, &slot.profile) {
            findings.push(Finding::Changed { machine, profile });
        }
    }
    (findings, rejected)
}

/// A machine keeps what it is and where; only what it costs and offers follows the substrate.
fn refreshed(known: &Arc<Profile>, offered: &Arc<Profile>) -> Option<Arc<Profile>> {
    if Arc::ptr_eq(known, offered) || known == offered {
        return None;
    }
    let mut profile = Profile::clone(known);
    profile.price_per_hour = offered.price_per_hour;
    profile.interruption_probability = offered.interruption_probability;
    profile.resources.clone_from(&offered.resources);
    profile.allocatable.clone_from(&offered.allocatable);
    profile.labels.clone_from(&offered.labels);
    (profile != **known && validate::profile(&profile).is_empty()).then(|| Arc::new(profile))
}
