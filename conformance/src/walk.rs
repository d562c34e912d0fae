//! Leading machines from state to state and watching them, at the paces of contract §12.5.

use std::{
    collections::BTreeMap,
    future::Future,
    time::{Duration, Instant},
};

use bigfleet_proto::{ListFilter, Machine, MachineList, MachineState};
use bytes::Bytes;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    Outcome,
    call::{Binding, free, sketch, state_name},
    client::{Answer, Client},
    expect::{operation, success},
    outcome::{Stop, ensure, ensure_eq},
};

/// Between two looks at something awaited or watched.
const POLL: Duration = Duration::from_millis(20);
/// Between two looks of a trace.
const TRACE_POLL: Duration = Duration::from_millis(1);
/// How long an awaited state may take unless a behaviour says otherwise.
pub(crate) const AWAIT: Duration = Duration::from_secs(15);
/// The width of a burst.
pub(crate) const WIDTH: usize = 16;

pub(crate) const TRANSITIONAL: [MachineState; 4] = [
    MachineState::Creating,
    MachineState::Configuring,
    MachineState::Draining,
    MachineState::Deleting,
];

impl Client {
    pub(crate) async fn get(&self, id: &str) -> Outcome<Machine> {
        success(self.try_get(id).await, "Get")
    }

    pub(crate) async fn list(&self, filter: ListFilter) -> Outcome<MachineList> {
        success(self.try_list(filter).await, "List")
    }

    /// A list without duplicates, by id.
    pub(crate) async fn map(&self, filter: ListFilter) -> Outcome<BTreeMap<String, Machine>> {
        by_id(self.list(filter).await?.machines)
    }

    /// All machines, by id.
    pub(crate) async fn fleet(&self) -> Outcome<BTreeMap<String, Machine>> {
        self.map(ListFilter::default()).await
    }

    /// The cursor of now.
    pub(crate) async fn revision(&self) -> Outcome<Bytes> {
        Ok(self.list(ListFilter::default()).await?.revision)
    }

    /// Waits for a state. FAILED is waited for only by who asks for it: nothing leads out of it.
    pub(crate) async fn reach_within(&self, id: &str, state: MachineState, limit: Duration) -> Outcome<Machine> {
        let (began, limit) = (Instant::now(), self.session.limit(limit));
        loop {
            let answer = self.try_get(id).await;
            let seen = match &answer {
                Ok(machine) if machine.state() == state => return Ok(machine.clone()),
                Ok(machine) => sketch(machine),
                Err(status) => format!("{:?}: {}", status.code(), status.message()),
            };
            let failed = answer.is_ok_and(|machine| machine.state() == MachineState::Failed);
            ensure!(
                began.elapsed() < limit && !failed,
                format!("`{id}` to be {} within {limit:?}", state_name(state)),
                format!("after {:?} {seen}", began.elapsed())
            );
            sleep(self.session.pace(POLL)).await;
        }
    }

    pub(crate) async fn reach(&self, id: &str, state: MachineState) -> Outcome<Machine> {
        self.reach_within(id, state, AWAIT).await
    }

    /// Looks at a machine for a while; a Get that fails is no look.
    async fn watch(&self, id: &str, window: Duration, mut look: impl FnMut(&Machine) -> Outcome) -> Outcome {
        let end = Instant::now() + window;
        while Instant::now() < end {
            if let Ok(machine) = self.try_get(id).await {
                look(&machine)?;
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Watches that a machine keeps its state.
    pub(crate) async fn stays(&self, id: &str, state: MachineState, window: Duration) -> Outcome {
        self.watch(id, window, |machine| {
            let expected = format!("`{id}` to stay {} for {window:?}", state_name(state));
            ensure!(machine.state() == state, expected, sketch(machine));
            Ok(())
        })
        .await
    }

    /// Watches that a machine is never seen in some states.
    pub(crate) async fn never(&self, id: &str, states: &[MachineState], window: Duration) -> Outcome {
        self.watch(id, window, |machine| {
            let names: Vec<_> = states.iter().map(|state| state_name(*state)).collect();
            let expected = format!("`{id}` never to be {} for {window:?}", names.join(" or "));
            ensure!(!states.contains(&machine.state()), expected, sketch(machine));
            Ok(())
        })
        .await
    }

    /// Every record seen until the machine is in a state; equal neighbours are one. Looks each millisecond, less often where
    /// limits are multiplied.
    pub(crate) async fn trace(&self, id: &str, until: MachineState) -> Outcome<Vec<Machine>> {
        let (began, limit) = (Instant::now(), self.session.limit(AWAIT));
        let mut seen: Vec<Machine> = Vec::new();
        loop {
            let machine = self.get(id).await?;
            let (state, line) = (machine.state(), sketch(&machine));
            if seen.last() != Some(&machine) {
                seen.push(machine);
            }
            if state == until {
                return Ok(seen);
            }
            ensure!(
                began.elapsed() < limit && state != MachineState::Failed,
                format!("`{id}` to be {} within {limit:?}", state_name(until)),
                line
            );
            sleep(self.session.pace(TRACE_POLL)).await;
        }
    }

    /// Creates a machine and waits for IDLE.
    pub(crate) async fn make_idle(&self, id: &str) -> Outcome<Machine> {
        operation(self.create(id, &free()).await, "Create")?;
        self.reach(id, MachineState::Idle).await
    }

    /// Walks an IDLE machine to CONFIGURED; answers the operation id.
    pub(crate) async fn bind(&self, id: &str, binding: &Binding) -> Outcome<String> {
        let operation = operation(self.configure(id, binding, &free()).await, "Configure")?;
        self.reach(id, MachineState::Configured).await?;
        Ok(operation)
    }

    /// Walks a CONFIGURED machine back to IDLE; answers the operation id.
    pub(crate) async fn release(&self, id: &str, grace: i64) -> Outcome<String> {
        let operation = operation(self.drain(id, grace, &free()).await, "Drain")?;
        self.reach(id, MachineState::Idle).await?;
        Ok(operation)
    }

    /// Walks an IDLE machine back to SPECULATIVE; answers the operation id.
    pub(crate) async fn give_back(&self, id: &str) -> Outcome<String> {
        let operation = operation(self.delete(id, &free()).await, "Delete")?;
        self.reach(id, MachineState::Speculative).await?;
        Ok(operation)
    }

    /// How often the machine is in the list of this state.
    pub(crate) async fn times_listed(&self, id: &str, state: MachineState) -> Outcome<usize> {
        let machines = self.list(crate::call::only(&[state])).await?.machines;
        Ok(machines.iter().filter(|machine| machine.id == id).count())
    }

    /// The machine is listed exactly once in this state.
    pub(crate) async fn listed_once(&self, id: &str, state: MachineState) -> Outcome {
        let times = self.times_listed(id, state).await?;
        ensure_eq!(format!("times `{id}` is listed as {}", state_name(state)), times, 1);
        Ok(())
    }
}

/// Makes so many calls at the same time.
pub(crate) async fn burst<F>(width: usize, call: impl Fn(usize) -> F) -> Vec<Answer>
where
    F: Future<Output = Answer> + Send + 'static,
{
    let mut calls = JoinSet::new();
    for number in 0..width {
        calls.spawn(call(number));
    }
    calls.join_all().await
}

/// The machines by id, each once.
pub(crate) fn by_id(machines: Vec<Machine>) -> Outcome<BTreeMap<String, Machine>> {
    let mut map = BTreeMap::new();
    for machine in machines {
        if let Some(twice) = map.insert(machine.id.clone(), machine) {
            return Err(Stop::failed("no machine twice in one list", sketch(&twice)));
        }
    }
    Ok(map)
}

/// Nothing of a binding or of a failure is left.
pub(crate) fn clean(machine: &Machine, state: MachineState) -> Outcome {
    let clean = machine.state() == state && machine.cluster.is_empty() && machine.shard_metadata.is_empty();
    ensure!(
        clean && machine.last_error.is_empty(),
        format!(
            "a clean {} machine: no cluster, no metadata, no last_error",
            state_name(state)
        ),
        sketch(machine)
    );
    Ok(())
}

/// The machine is bound as asked.
pub(crate) fn bound(machine: &Machine, binding: &Binding) -> Outcome {
    ensure_eq!("cluster", machine.cluster, binding.cluster);
    if machine.shard_metadata != binding.metadata {
        let wrong = binding
            .metadata
            .iter()
            .find(|(key, value)| machine.shard_metadata.get(*key) != Some(value))
            .map_or_else(
                || "a key that was not sent".into(),
                |(key, _)| format!("wrong or missing value of {key:?}"),
            );
        return Err(Stop::failed(
            format!("the {} metadata keys verbatim", binding.metadata.len()),
            format!("{} keys, {wrong}", machine.shard_metadata.len()),
        ));
    }
    Ok(())
}

/// A wait that ends.
#[derive(Debug)]
pub(crate) struct Patience {
    expected: String,
    began: Instant,
    limit: Duration,
}

impl Patience {
    pub(crate) fn new(expected: impl Into<String>, limit: Duration) -> Self {
        Self {
            expected: expected.into(),
            began: Instant::now(),
            limit,
        }
    }

    /// Waits a little more, or says what was seen last.
    pub(crate) async fn more(&self, seen: impl Into<String>) -> Outcome {
        if self.began.elapsed() >= self.limit {
            let expected = format!("{} within {:?}", self.expected, self.limit);
            return Err(Stop::failed(expected, seen));
        }
        sleep(POLL).await;
        Ok(())
    }
}
