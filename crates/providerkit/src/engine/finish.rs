//! How a transition ends, and what becomes of failed and lost machines: the background's changes of a record.

use std::{sync::Arc, time::SystemTime};

use providerkit_backend::{Created, HostRef, Lost, Machine, MachineId, OperationId, Profile, Slot, State, Transition};

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
            if running.transition == Transition::Delete {
                // It has just given its own room back, and who waits for its end must see it: until the next look.
                record.withheld = None;
            }
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
    let old = draft.machine(id)?;
    old.failure
        .as_deref()
        .filter(|failure| failure.operation == operation)?;
    let mut slot = Slot::new(Arc::clone(&old.slot), Arc::clone(&old.shape.profile));
    slot.host = old.machine.host.clone().filter(|_| old.hosted);
    slot.withheld.clone_from(&old.withheld);
    draft.retire(id, slot)
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
    New(Slot),
    /// What a machine offers, or whether it is offered, has changed.
    Changed {
        machine: MachineId,
        profile: Option<Arc<Profile>>,
        withheld: Option<Arc<str>>,
        /// The newest revision when the backend was asked.
        asked_at: u64,
    },
    /// A host is gone; what the slot is without it.
    Lost { machine: MachineId, lost: Lost, slot: Slot },
}

/// Takes a finding over, if it still holds.
pub(crate) fn adopt(draft: &mut Draft<'_>, finding: &Finding) {
    match finding {
        Finding::New(slot) => {
            if let Some(adopted) = slot.adopted.clone() {
                let (machine, slot_name) = (adopted.machine.clone(), &slot.name);
                match draft.adopt(slot.clone(), adopted) {
                    Some(record) => {
                        let cluster = record.machine.cluster.as_ref().map(tracing::field::display);
                        tracing::info!(machine_id = %machine, slot = %slot_name, cluster, "machine adopted");
                    }
                    // The next look says whose it is.
                    None => {
                        tracing::warn!(machine_id = %machine, slot = %slot_name, "not adopted: the id is taken");
                    }
                }
            } else if let Some(record) = draft.add(slot.clone(), 0) {
                tracing::debug!(machine_id = %record.machine.id, "slot added");
            }
        }
        Finding::Changed {
            machine,
            profile,
            withheld,
            asked_at,
        } => {
            let Some(old) = draft.machine(machine).cloned() else {
                return;
            };
            let mut record = Record::clone(&old);
            if let Some(profile) = profile {
                record.shape = draft.shape(profile);
                record.machine.profile = Arc::clone(&record.shape.profile);
            }
            // What was asked before a Delete ended says nothing about the room it left.
            if record.returned <= *asked_at {
                record.withheld.clone_from(withheld);
            }
            if record != *old {
                draft.put(record);
            }
        }
        Finding::Lost { machine, lost, slot } => {
            let Some(record) = draft.machine(machine).filter(|record| has_lost(&record.machine, lost)) else {
                return;
            };
            let cluster = record.machine.cluster.as_ref().map(ToString::to_string);
            // A slot that brings its own host may have got another one.
            let mut slot = slot.clone();
            slot.host = slot.host.filter(|host| *host != lost.host);
            if let Some(fresh) = draft.retire(machine, slot) {
                let reason = &lost.reason;
                tracing::warn!(machine_id = %machine, fresh_id = %fresh.machine.id, cluster, %reason, "host lost; the slot comes back under a fresh id");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use providerkit_backend::CapacityType;

    use super::*;
    use crate::{
        engine::{
            record::{Inputs, Running},
            view::View,
        },
        store::Snapshot,
    };

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
            draft.add(Slot::new("m", profile).host(HostRef::new("p", reference)), 0)
        });
        (view, record.unwrap().machine.id.clone())
    }

    fn withheld(machine: &MachineId, reason: Option<&str>, asked_at: u64) -> Finding {
        Finding::Changed {
            machine: machine.clone(),
            profile: None,
            withheld: reason.map(Into::into),
            asked_at,
        }
    }

    #[test]
    fn what_was_asked_before_a_delete_ended_withholds_nothing() {
        let (mut view, machine) = with_host("h");
        let asked_at = view.head;
        let operation = OperationId::mint();
        change(&mut view, |draft| {
            let mut record = Record::clone(draft.machine(&machine).unwrap());
            record.machine.state = State::Deleting;
            record.withheld = Some("no room".into());
            record.running = Some(Arc::new(Running {
                id: operation,
                transition: Transition::Delete,
                accepted: SystemTime::now(),
                deadline: SystemTime::now(),
                attempt: 1,
                inputs: Inputs::None,
            }));
            draft.put(record);
        });
        change(&mut view, |draft| {
            finish(draft, &machine, operation, &Ok(None), SystemTime::now()).unwrap();
            adopt(draft, &withheld(&machine, Some("no room"), asked_at));
        });
        assert!(!view.machines[&machine].is_hidden(), "the Delete has just made room");
        let (head, asked_at) = (view.head, view.head);
        change(&mut view, |draft| {
            adopt(draft, &withheld(&machine, Some("no room"), asked_at));
        });
        assert!(view.machines[&machine].is_hidden());
        assert_eq!(view.head, head, "a delta has nothing to say of it");
        change(&mut view, |draft| adopt(draft, &withheld(&machine, None, asked_at)));
        assert_eq!((view.machines[&machine].is_hidden(), view.head), (false, head + 1));
    }

    #[test]
    fn a_finding_that_changes_nothing_is_no_change() {
        let (view, machine) = with_host("h");
        let mut draft = Draft::new(&view);
        adopt(&mut draft, &withheld(&machine, None, view.head));
        assert!(draft.is_empty());
    }

    /// Found before, adopted after: commands queue up in between.
    #[test]
    fn a_lost_host_is_compared_again_when_it_is_adopted() {
        let (mut view, machine) = with_host("second");
        let lost = |reference| {
            let slot = Slot::new("m", Profile::new("t", "z", CapacityType::OnDemand));
            let slot = slot.lost(HostRef::new("p", reference), "gone");
            Finding::Lost {
                machine: machine.clone(),
                lost: slot.lost.clone().unwrap(),
                slot,
            }
        };
        change(&mut view, |draft| adopt(draft, &lost("first")));
        assert!(view.machines.contains_key(&machine));
        change(&mut view, |draft| adopt(draft, &lost("second")));
        assert!(!view.machines.contains_key(&machine));
        assert!(view.machines.contains_key("m-r2"));
    }
}
