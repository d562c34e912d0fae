//! How a transition ends, and what becomes of failed and lost machines: the background's changes of a record.

use std::{sync::Arc, time::SystemTime};

use providerkit_backend::{Created, HostRef, Lost, Machine, MachineId, OperationId, Profile, State};

use crate::{
    binding,
    engine::{
        draft::Draft,
        record::{Failure, Record},
    },
};

/// What an attempt came to. The error is the machine's `last_error`.
pub(crate) type Outcome = Result<Option<Created>, String>;

/// Ends the transition if it is still the one under way; `None` for a late result, which changes nothing (B704).
pub(crate) fn finish(
    draft: &mut Draft<'_>,
    id: &MachineId,
    operation: OperationId,
    outcome: &Outcome,
    now: SystemTime,
) -> Option<Arc<Record>> {
    let record = draft.machine(id)?;
    let running = record.running.clone().filter(|running| running.id == operation)?;
    let mut record = Record::clone(record);
    record.running = None;
    match outcome {
        Ok(created) => {
            if let Some(profile) = created.as_ref().and_then(|created| created.profile.as_ref()) {
                record.shape = draft.shape(profile);
                record.machine.profile = Arc::clone(&record.shape.profile);
            }
            let host: Option<HostRef> = created.as_ref().map(|created| created.host.clone());
            binding::succeed(&mut record.machine, running.transition, host);
        }
        Err(error) => {
            binding::fail(&mut record.machine, error.as_str());
            let failure = Failure {
                operation,
                transition: running.transition,
                at: now,
                cleaned: false,
            };
            record.failure = Some(Box::new(failure));
        }
    }
    Some(draft.put(record))
}

/// Remembers that the backend has cleaned up after a failed operation.
pub(crate) fn cleaned(draft: &mut Draft<'_>, id: &MachineId, operation: OperationId) {
    let Some(record) = draft.machine(id) else {
        return;
    };
    let Some(failure) = record
        .failure
        .as_deref()
        .filter(|failure| failure.operation == operation)
    else {
        return;
    };
    let failure = Failure {
        cleaned: true,
        ..*failure
    };
    let mut record = Record::clone(record);
    record.failure = Some(Box::new(failure));
    draft.put(record);
}

/// Brings the slot of a machine that failed in this operation back under a fresh id.
pub(crate) fn recycle(draft: &mut Draft<'_>, id: &MachineId, operation: OperationId) -> Option<Arc<Record>> {
    draft
        .machine(id)?
        .failure
        .as_deref()
        .filter(|failure| failure.operation == operation)?;
    draft.retire(id)
}

/// Whether a machine has lost what it runs on. Asked when a finding is adopted, too: a Create that ended since the
/// backend looked has made another host.
pub(crate) fn has_lost(machine: &Machine, lost: &Lost) -> bool {
    matches!(machine.state, State::Idle | State::Configured) && machine.host.as_ref() == Some(&lost.host)
}

/// One finding of a look at the substrate.
#[derive(Clone, Debug)]
pub(crate) enum Finding {
    /// A slot that is not known yet.
    New {
        slot: Arc<str>,
        profile: Arc<Profile>,
        host: Option<HostRef>,
    },
    /// What a machine offers has changed.
    Changed { machine: MachineId, profile: Arc<Profile> },
    /// A host is gone.
    Lost { machine: MachineId, lost: Lost },
}

/// Takes a finding over, if it still holds.
pub(crate) fn adopt(draft: &mut Draft<'_>, finding: &Finding) {
    match finding {
        Finding::New { slot, profile, host } => {
            if let Some(record) = draft.add(Arc::clone(slot), 0, profile, host.clone()) {
                tracing::debug!(machine_id = %record.machine.id, "slot added");
            }
        }
        Finding::Changed { machine, profile } => {
            let Some(record) = draft.machine(machine).cloned() else {
                return;
            };
            let mut record = Record::clone(&record);
            record.shape = draft.shape(profile);
            record.machine.profile = Arc::clone(&record.shape.profile);
            draft.put(record);
        }
        Finding::Lost { machine, lost } => {
            let Some(record) = draft.machine(machine).filter(|record| has_lost(&record.machine, lost)) else {
                return;
            };
            let cluster = record.machine.cluster.as_ref().map(ToString::to_string);
            if let Some(fresh) = draft.retire(machine) {
                let reason = &lost.reason;
                tracing::warn!(machine_id = %machine, fresh_id = %fresh.machine.id, cluster, %reason, "host lost; the slot comes back under a fresh id");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use providerkit_backend::{CapacityType, Slot};

    use super::*;
    use crate::{engine::view::View, store::Snapshot};

    fn change<T>(view: &mut View, edit: impl FnOnce(&mut Draft<'_>) -> T) -> T {
        let mut draft = Draft::new(view);
        let result = edit(&mut draft);
        let (_, effects) = draft.finish();
        view.publish(effects);
        result
    }

    fn with_host(reference: &str) -> (View, MachineId) {
        let mut view = View::load(Snapshot::default(), NonZeroUsize::MIN);
        let profile = Arc::new(Profile::new("t", "z", CapacityType::OnDemand));
        let record = change(&mut view, |draft| {
            let host = Some(HostRef::new("p", reference));
            draft.add("m".into(), 0, &profile, host)
        });
        (view, record.unwrap().machine.id.clone())
    }

    /// Found before, adopted after: commands queue up in between.
    #[test]
    fn a_lost_host_is_compared_again_when_it_is_adopted() {
        let (mut view, machine) = with_host("second");
        let lost = |reference| {
            let slot = Slot::new("m", Profile::new("t", "z", CapacityType::OnDemand));
            let lost = slot.lost(HostRef::new("p", reference), "gone").lost.unwrap();
            Finding::Lost {
                machine: machine.clone(),
                lost,
            }
        };
        change(&mut view, |draft| adopt(draft, &lost("first")));
        assert!(view.machines.contains_key(&machine));
        change(&mut view, |draft| adopt(draft, &lost("second")));
        assert!(!view.machines.contains_key(&machine));
        assert!(view.machines.contains_key("m-r2"));
    }
}
