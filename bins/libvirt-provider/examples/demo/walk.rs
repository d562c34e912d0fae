//! Where every machine is, and what it is sent next.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use bigfleet_proto::{
    ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, Machine, MachineState, TransitionAck,
};
use tokio::task::JoinSet;
use tonic::{Response, Status};

use crate::Client;

const SHARD: &str = "demo";
const EPOCH: i64 = 1;
/// Between the first calls of two machines, so that they are not all in the same state.
const APART: Duration = Duration::from_millis(250);
/// What a machine joins by. It says so also on the console, which libvirt keeps in the host's logs.
const BLOB: &str = "#!/bin/sh
text=\"$(hostname) joined $BIGFLEET_CLUSTER_ID as $BIGFLEET_MACHINE_ID, on $(uname -sr)\"
echo \"$text\"
[ ! -w /dev/console ] || echo \"demo: $text\" >/dev/console
";
/// Clusters the machines are spread over.
const CLUSTERS: [&str; 2] = ["blue", "green"];

/// One machine on its way.
pub(crate) struct Step {
    machine: Machine,
    operation: String,
    since: Instant,
    before: Duration,
    was_configured: bool,
}

impl Step {
    pub(crate) fn id(&self) -> &str {
        &self.machine.id
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Id of the newest operation.
    pub(crate) fn operation(&self) -> &str {
        &self.operation
    }

    /// Time in the present state.
    pub(crate) fn rested(&self) -> Duration {
        self.since.elapsed()
    }

    /// How long it was in the state before.
    pub(crate) fn before(&self) -> Duration {
        self.before
    }

    fn take(&mut self, machine: Machine) -> Result<()> {
        ensure!(
            machine.state() != MachineState::Failed,
            "machine `{}` failed: {}",
            machine.id,
            machine.last_error
        );
        if machine.state != self.machine.state {
            self.before = self.since.elapsed();
            self.since = Instant::now();
        }
        self.was_configured |= machine.state() == MachineState::Configured;
        self.machine = machine;
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.was_configured && self.machine.state() == MachineState::Speculative
    }
}

/// All machines on their way.
pub(crate) struct Walk {
    steps: Vec<Step>,
    hold: Duration,
    /// Whether machines that are CONFIGURED wait for the others.
    gather: bool,
    sequence: i64,
}

impl Walk {
    /// Chooses `count` SPECULATIVE machines, spread over the zones and over each zone's machines.
    pub(crate) fn new(fleet: &[Machine], count: usize, hold: Duration, gather: bool) -> Result<Self> {
        let free = free(fleet);
        ensure!(count > 0, "no machine is to walk");
        if free.len() < count {
            bail!("{} machines are SPECULATIVE; {count} are to walk", free.len());
        }
        let mut zones: BTreeMap<&str, Vec<&Machine>> = BTreeMap::new();
        for machine in free {
            zones.entry(&machine.zone).or_default().push(machine);
        }
        let share = count.div_ceil(zones.len());
        let mut zones: Vec<_> = zones
            .into_values()
            .map(|machines| {
                let stride = (machines.len() / share).max(1);
                let (spread, rest): (Vec<_>, Vec<_>) = machines
                    .into_iter()
                    .enumerate()
                    .partition(|(place, _)| place % stride == 0);
                spread.into_iter().chain(rest).map(|(_, machine)| machine)
            })
            .collect();
        let mut chosen = Vec::with_capacity(count);
        while chosen.len() < count {
            chosen.extend(zones.iter_mut().filter_map(Iterator::next));
        }
        chosen.truncate(count);
        let steps = chosen.into_iter().map(|machine| Step {
            machine: machine.clone(),
            operation: String::new(),
            since: Instant::now(),
            before: Duration::ZERO,
            was_configured: false,
        });
        Ok(Self {
            steps: steps.collect(),
            hold,
            gather,
            sequence: 0,
        })
    }

    /// Whether all machines that wait for each other are CONFIGURED.
    pub(crate) fn has_gathered(&self) -> bool {
        self.gather
            && self
                .steps
                .iter()
                .all(|step| step.machine.state() == MachineState::Configured)
    }

    /// Lets machines that have gathered go on, each after its hold.
    pub(crate) fn part(&mut self) {
        self.gather = false;
        for step in &mut self.steps {
            step.since = Instant::now();
        }
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How many calls were accepted.
    pub(crate) fn calls(&self) -> i64 {
        self.sequence
    }

    pub(crate) fn is_over(&self) -> bool {
        self.steps.iter().all(Step::is_over)
    }

    /// Takes in what a List brought.
    pub(crate) fn observe(&mut self, changed: &[Machine]) -> Result<()> {
        for machine in changed {
            if let Some(step) = self.steps.iter_mut().find(|step| step.id() == machine.id) {
                step.take(machine.clone())?;
            }
        }
        Ok(())
    }

    /// Sends the next call to every machine that rests, all at the same time.
    pub(crate) async fn advance(&mut self, client: &Client) -> Result<()> {
        let mut calls = JoinSet::new();
        for (index, step) in self.steps.iter().enumerate() {
            let Some(call) = self.next(step, index) else {
                continue;
            };
            self.sequence += 1;
            let (client, id, sequence) = (client.clone(), step.id().to_owned(), self.sequence);
            calls.spawn(async move {
                let answer = call.send(client, id.clone(), sequence).await;
                (index, answer.with_context(|| format!("{call:?} of `{id}`")))
            });
        }
        while let Some(done) = calls.join_next().await {
            let (index, answer) = done?;
            let ack = answer?.into_inner();
            let machine = ack.machine.context("the ack carries no machine")?;
            if let Some(step) = self.steps.get_mut(index) {
                step.operation = ack.operation_id;
                step.take(machine)?;
            }
        }
        Ok(())
    }

    /// What a machine that rests is sent; nothing while a transition runs, and nothing once it is back.
    fn next(&self, step: &Step, index: usize) -> Option<Call> {
        let place = u32::try_from(index).unwrap_or(u32::MAX);
        match (step.machine.state(), step.was_configured) {
            (MachineState::Speculative, false) if step.rested() >= APART.saturating_mul(place) => Some(Call::Create),
            (MachineState::Idle, false) => Some(Call::Configure {
                cluster: CLUSTERS.get(index % CLUSTERS.len())?,
            }),
            (MachineState::Configured, _) if !self.gather && step.rested() >= self.hold => Some(Call::Drain),
            (MachineState::Idle, true) => Some(Call::Delete),
            _ => None,
        }
    }
}

/// The machines that can be had.
pub(crate) fn free(fleet: &[Machine]) -> Vec<&Machine> {
    let free = fleet
        .iter()
        .filter(|machine| machine.state() == MachineState::Speculative);
    let mut free: Vec<&Machine> = free.collect();
    free.sort_by(|a, b| a.id.cmp(&b.id));
    free
}

#[derive(Debug)]
enum Call {
    Create,
    Configure { cluster: &'static str },
    Drain,
    Delete,
}

impl Call {
    async fn send(
        &self,
        mut client: Client,
        machine_id: String,
        sequence_number: i64,
    ) -> Result<Response<TransitionAck>, Status> {
        let (shard_id, shard_epoch) = (SHARD.to_owned(), EPOCH);
        match self {
            Self::Create => {
                let request = CreateRequest {
                    machine_id,
                    shard_id,
                    shard_epoch,
                    sequence_number,
                };
                client.create(request).await
            }
            Self::Configure { cluster } => {
                let request = ConfigureRequest {
                    machine_id,
                    cluster_id: (*cluster).to_owned(),
                    bootstrap_blob: BLOB.into(),
                    shard_id,
                    shard_epoch,
                    sequence_number,
                    shard_metadata: [("demo/walk".to_owned(), "1".to_owned())].into(),
                };
                client.configure(request).await
            }
            Self::Drain => {
                let request = DrainRequest {
                    machine_id,
                    grace_period_seconds: 1,
                    shard_id,
                    shard_epoch,
                    sequence_number,
                };
                client.drain(request).await
            }
            Self::Delete => {
                let request = DeleteRequest {
                    machine_id,
                    shard_id,
                    shard_epoch,
                    sequence_number,
                };
                client.delete(request).await
            }
        }
    }
}
