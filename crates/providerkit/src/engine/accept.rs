//! The order of checks on a mutating call (contract §3): fence, existence, replay, position, acceptance.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use providerkit_backend::{
    Backend, Capabilities, CapacityType, DeleteSupport, ErrorKind, MachineId, OperationId, State, Transition,
};

use crate::{
    binding::{self, Binding},
    engine::{
        draft::Draft,
        options::Timeouts,
        record::{Inputs, Record, Running},
    },
    fence::{self, Token},
    refusal::{Refusal, RefusalKind},
};

/// A mutating call whose content is valid.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) machine: MachineId,
    /// `None`: unfenced.
    pub(crate) token: Option<Token>,
    pub(crate) arguments: Arguments,
    /// The call in the caller's trace.
    pub(crate) cause: tracing::Span,
}

#[derive(Clone, Debug)]
pub(crate) enum Arguments {
    Create,
    Configure { binding: Binding, bootstrap: Bytes },
    Drain { grace: Duration },
    Delete,
}

impl Arguments {
    pub(crate) const fn transition(&self) -> Transition {
        match self {
            Self::Create => Transition::Create,
            Self::Configure { .. } => Transition::Configure,
            Self::Drain { .. } => Transition::Drain,
            Self::Delete => Transition::Delete,
        }
    }
}

impl Call {
    pub(crate) const fn transition(&self) -> Transition {
        self.arguments.transition()
    }
}

/// What a call that was not refused comes to.
#[derive(Clone, Debug)]
pub(crate) struct Accepted {
    pub(crate) operation: OperationId,
    pub(crate) record: Arc<Record>,
    /// Whether it began just now, as opposed to a retry.
    pub(crate) fresh: bool,
}

/// What the checks depend on beside the machine.
pub(crate) struct Rules<'a> {
    pub(crate) backend: &'a dyn Backend,
    pub(crate) capabilities: Capabilities,
    pub(crate) timeouts: &'a Timeouts,
    pub(crate) now: SystemTime,
}

/// Decides a call on the draft. A refusal after the fence leaves the advanced mark in it.
pub(crate) fn accept(draft: &mut Draft<'_>, call: &Call, rules: &Rules<'_>) -> Result<Accepted, Refusal> {
    let (id, transition) = (&call.machine, call.transition());
    if transition == Transition::Delete && rules.capabilities.delete == DeleteSupport::Never {
        return Err(Refusal::new(
            RefusalKind::Unsupported,
            "this provider does not delete machines",
        ));
    }
    if let Some(token) = &call.token {
        fence(draft, id, token)?;
    }
    let Some(record) = draft.machine(id).cloned() else {
        return Err(Refusal::new(
            RefusalKind::NotFound,
            format!("machine `{id}` is not known; List shows those that are"),
        ));
    };
    if transition == Transition::Delete {
        deletable(&record, rules.capabilities.delete)?;
    }
    if let Some(operation) = record.operations.replay(transition, record.machine.state) {
        note_changed_arguments(call, &record);
        metrics::counter!(crate::metric::IDEMPOTENT_REPLAYS, "method" => transition.name()).increment(1);
        return Ok(Accepted {
            operation,
            record,
            fresh: false,
        });
    }
    if record.machine.state != transition.start() {
        return Err(Refusal::new(RefusalKind::Position, out_of_place(&record, transition)));
    }
    if let Some(reason) = record.withheld.as_ref().filter(|_| record.is_hidden()) {
        let text = format!("machine `{id}` cannot be created now: {reason}; List shows those that can");
        return Err(Refusal::new(RefusalKind::Exhausted, text));
    }
    rules.backend.admit(&record.machine, transition).map_err(|error| {
        let kind = match error.kind() {
            ErrorKind::Unsupported => RefusalKind::Unsupported,
            _ => RefusalKind::Exhausted,
        };
        Refusal::new(kind, format!("machine `{id}`: {}", error.report()))
    })?;
    Ok(begin(draft, &record, call, rules))
}

fn fence(draft: &mut Draft<'_>, id: &MachineId, token: &Token) -> Result<(), Refusal> {
    let mark = draft.mark(id, &token.shard);
    if let Err(stale) = fence::check(mark, token.mark) {
        metrics::counter!(crate::metric::FENCE_REJECTIONS, "reason" => stale.label()).increment(1);
        let newest = mark.unwrap_or(token.mark);
        let text = format!(
            "fenced: shard `{}` sent token (epoch {}, sequence {}) for machine `{id}`, not newer than ({}, {})",
            token.shard, token.mark.epoch, token.mark.sequence, newest.epoch, newest.sequence
        );
        return Err(Refusal::new(RefusalKind::Fenced, text));
    }
    draft.advance(id, &token.shard, token.mark);
    Ok(())
}

/// Capacity that is kept for good is never deleted, though other machines of the provider may be (contract §16.9).
fn deletable(record: &Record, support: DeleteSupport) -> Result<(), Refusal> {
    let kind = record.machine.profile.capacity_type;
    let paid_by_use = matches!(kind, CapacityType::OnDemand | CapacityType::Spot);
    if support == DeleteSupport::Always || paid_by_use {
        return Ok(());
    }
    let text = format!(
        "machine `{}` is {kind} capacity, which is not deleted",
        record.machine.id
    );
    Err(Refusal::new(RefusalKind::Unsupported, text))
}

/// A retry must get its old answer, but a caller that changed its mind should be seen (contract §3).
fn note_changed_arguments(call: &Call, record: &Record) {
    let Arguments::Configure { binding, .. } = &call.arguments else {
        return;
    };
    let machine = &record.machine;
    if machine.cluster.as_ref() != Some(&binding.cluster) || machine.metadata != binding.metadata {
        metrics::counter!(crate::metric::CHANGED_REPLAYS).increment(1);
        tracing::warn!(
            machine_id = %machine.id,
            asked = %binding.cluster,
            bound = machine.cluster.as_ref().map(tracing::field::display),
            "a Configure was repeated with other arguments; the machine keeps its binding"
        );
    }
}

fn out_of_place(record: &Record, transition: Transition) -> String {
    let (id, state) = (&record.machine.id, record.machine.state);
    let legal: Vec<_> = Transition::ALL
        .iter()
        .filter(|other| other.start() == state)
        .map(|other| other.name())
        .collect();
    let remedy = match (&record.running, state) {
        (Some(running), _) => format!("wait until its {} has ended", running.transition),
        (None, State::Failed) => "no call leaves that state; its slot comes back under another id".to_owned(),
        _ => format!("legal now: {}", legal.join(", ")),
    };
    format!(
        "machine `{id}` is {state}, and {transition} begins at {}; {remedy}",
        transition.start()
    )
}

fn begin(draft: &mut Draft<'_>, record: &Record, call: &Call, rules: &Rules<'_>) -> Accepted {
    let transition = call.transition();
    let (binding, inputs) = match &call.arguments {
        Arguments::Create | Arguments::Delete => (None, Inputs::None),
        Arguments::Configure { binding, bootstrap } => (Some(binding.clone()), Inputs::Bootstrap(bootstrap.clone())),
        Arguments::Drain { grace } => (None, Inputs::Grace(*grace)),
    };
    let operation = OperationId::mint();
    let mut record = Record::clone(record);
    binding::begin(&mut record.machine, transition, binding);
    record.operations.accept(transition, operation);
    record.running = Some(Arc::new(Running {
        id: operation,
        transition,
        accepted: rules.now,
        deadline: rules.now + rules.timeouts.of(transition),
        attempt: 1,
        inputs,
    }));
    Accepted {
        operation,
        record: draft.put(record),
        fresh: true,
    }
}
