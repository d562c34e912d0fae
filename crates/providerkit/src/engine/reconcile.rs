//! Looks at the substrate (contract §10): new slots are added, offers refreshed, lost hosts retired. Nothing is
//! removed because the substrate did not mention it, and nothing is written when nothing changed.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use providerkit_backend::{Error, MachineId, Profile, Slot};
use tokio::{sync::oneshot, time::Instant};

use crate::{
    engine::{
        Shared,
        finish::{self, Finding},
        record::Record,
        writer::Command,
    },
    store, validate,
};

/// Findings in one commit, so that a first look at a large fleet does not hold up calls.
const CHUNK: usize = 4096;
/// From one look to the next, at least.
const GAP: Duration = Duration::from_millis(100);
/// After a look that failed, sooner than usual.
const RETRY: Duration = Duration::from_secs(5);

/// What one look came to.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// What is to be taken over.
    pub(crate) findings: Vec<Finding>,
    /// Slots that may not be taken in, with the reason.
    pub(crate) rejected: Vec<String>,
}

/// Looks for ever: after this pause, if any, then at intervals, and whenever the backend says that something changed.
pub(crate) async fn run(shared: Arc<Shared>, mut pause: Option<Duration>) {
    let mut looked = Instant::now();
    loop {
        tokio::select! {
            () = sleep(pause) => {}
            () = shared.backend.changed() => {}
        }
        // What else changes by then is seen in one look.
        tokio::time::sleep_until(looked + GAP).await;
        looked = Instant::now();
        let between = shared.options.between_looks();
        // Also without an interval: a change that was told is not told again.
        let retry = Some(between.map_or(RETRY, |between| RETRY.min(between)));
        pause = match look(&shared).await {
            Ok(found) => {
                for fault in &found.rejected {
                    tracing::warn!(%fault, "a slot is left out");
                }
                match adopt(&shared, found.findings).await {
                    Ok(()) => between,
                    // The writer has logged it.
                    Err(_) => retry,
                }
            }
            Err(error) => {
                tracing::warn!(error = %error.report(), "the substrate could not be described; the inventory stays");
                retry
            }
        };
    }
}

/// For ever, without a time.
async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

/// One look, which changes nothing yet.
pub(crate) async fn look(shared: &Shared) -> Result<Look, Error> {
    let begun = Instant::now();
    let limit = shared.options.timeouts.describe;
    let (records, asked_at) = {
        let view = shared.view();
        let records: Vec<_> = view.machines.values().cloned().collect();
        (records, view.head)
    };
    let known: Vec<_> = records.iter().map(|record| record.known()).collect();
    drop(records);
    let slots = match tokio::time::timeout(limit, shared.backend.describe(&known)).await {
        Ok(slots) => slots,
        Err(_elapsed) => Err(Error::new(format!("no description within {limit:?}"))),
    };
    let outcome = if slots.is_ok() { "success" } else { "error" };
    metrics::counter!(crate::metric::RECONCILES, "outcome" => outcome).increment(1);
    metrics::histogram!(crate::metric::RECONCILE_DURATION).record(begun.elapsed().as_secs_f64());
    let found = compare(shared, slots?, asked_at);
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    metrics::gauge!(crate::metric::RECONCILE_LAST_SUCCESS).set(now.as_secs_f64());
    Ok(found)
}

/// Takes findings over, durably. What was not taken over is found again by the next look.
pub(crate) async fn adopt(shared: &Shared, findings: Vec<Finding>) -> Result<(), store::Error> {
    if findings.is_empty() {
        return Ok(());
    }
    let mut findings = findings.into_iter();
    loop {
        let chunk: Vec<_> = findings.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            break;
        }
        let (done, adopted) = oneshot::channel();
        let command = Command::Adopt { findings: chunk, done };
        // An engine that has stopped meanwhile has nothing to say.
        if shared.commands.send(command).await.is_err() {
            return Ok(());
        }
        adopted.await.unwrap_or(Ok(()))?;
    }
    shared.commands.send(Command::ForgetShapes).await.ok();
    Ok(())
}

fn compare(shared: &Shared, slots: Vec<Slot>, asked_at: u64) -> Look {
    let (mut findings, mut rejected) = (Vec::new(), Vec::new());
    // Before what is only offered, so that no slot's first id is one that another slot's machine has already.
    let (mut adoptions, mut adopted_by) = (Vec::new(), HashMap::new());
    let mut seen = HashSet::with_capacity(slots.len());
    // Not under the lock: calls must not wait while a large fleet is compared.
    let records: Vec<Arc<Record>> = shared.view().machines.values().cloned().collect();
    let by_slot: HashMap<&str, &Record> = records.iter().map(|record| (&*record.slot, &**record)).collect();
    let by_machine: HashMap<&MachineId, &Record> =
        records.iter().map(|record| (&record.machine.id, &**record)).collect();
    for mut slot in slots {
        if !seen.insert(Arc::clone(&slot.name)) {
            rejected.push(format!("slot `{}` is there twice", slot.name));
            continue;
        }
        if let Err(fault) = validate::slot(&slot) {
            rejected.push(fault);
            continue;
        }
        let Some(record) = by_slot.get(&*slot.name) else {
            let Some(adopted) = &slot.adopted else {
                findings.push(Finding::New(slot));
                continue;
            };
            let taken = by_machine.get(&adopted.machine).map(|record| &record.slot);
            if let Some(other) = taken.or_else(|| adopted_by.get(&adopted.machine)) {
                rejected.push(format!(
                    "slot `{}` has machine `{}`, but so has slot `{other}`; remove the one that is not BigFleet's from \
                     the substrate",
                    slot.name, adopted.machine
                ));
                continue;
            }
            adopted_by.insert(adopted.machine.clone(), Arc::clone(&slot.name));
            adoptions.push(Finding::New(slot));
            continue;
        };
        let machine = record.machine.id.clone();
        let lost = slot.lost.take();
        if let Some(lost) = lost.filter(|lost| finish::has_lost(&record.machine, lost)) {
            findings.push(Finding::Lost { machine, lost, slot });
            continue;
        }
        let profile = refreshed(&record.machine.profile, &slot.profile);
        if profile.is_some() || record.withheld != slot.withheld {
            findings.push(Finding::Changed {
                machine,
                profile,
                withheld: slot.withheld,
                asked_at,
            });
        }
    }
    adoptions.append(&mut findings);
    Look {
        findings: adoptions,
        rejected,
    }
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
