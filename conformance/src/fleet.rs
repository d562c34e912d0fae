//! Who has which machines of a provider.
//!
//! Every behaviour gets its machines before it starts, so that behaviours that wait can wait side by side. What was
//! used is made SPECULATIVE again, where that is possible, once nothing fresh is left.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bigfleet_proto::{CapacityType, Machine, MachineState as S};
use tokio::sync::Notify;

use crate::{
    Outcome,
    behaviour::MachineKind,
    call::{free, only},
    client::Client,
    outcome::Stop,
};

/// The label of machines whose Create fails (contract §12.3).
pub(crate) const CREATE_FAULT: (&str, &str) = ("conformance.fault/create", "error");
/// How long a used machine may take to come back.
const RECYCLE: Duration = Duration::from_secs(30);

/// The machines of one provider.
#[derive(Debug)]
pub(crate) struct Fleet {
    client: Client,
    pool: Mutex<Pool>,
    returned: Notify,
    recycling: tokio::sync::Mutex<()>,
    create_fault: (String, String),
}

#[derive(Debug, Default)]
struct Pool {
    known: BTreeSet<String>,
    fresh: Vec<String>,
    failing: Vec<String>,
    used: Vec<String>,
    out: usize,
}

impl Fleet {
    pub(crate) async fn new(client: Client, create_fault: (String, String)) -> Outcome<Self> {
        let fleet = Self {
            client,
            pool: Mutex::default(),
            returned: Notify::new(),
            recycling: tokio::sync::Mutex::default(),
            create_fault,
        };
        fleet.look().await?;
        Ok(fleet)
    }

    /// Takes in what is not SPECULATIVE, too: for a provider that was started for us, on hosts that an earlier lane left
    /// machines on. They are given back before they are used.
    pub(crate) async fn adopt(&self) -> Outcome {
        let machines = self.client.list(only(&[])).await?.machines;
        let mut pool = self.lock();
        for machine in machines {
            if returnable(&machine) && pool.known.insert(machine.id.clone()) {
                pool.used.push(machine.id);
            }
        }
        Ok(())
    }

    /// Takes in what is SPECULATIVE and was not seen before.
    async fn look(&self) -> Outcome {
        let mut machines = self.client.list(only(&[S::Speculative])).await?.machines;
        // Machines that can be given back first: it makes no difference to most behaviours.
        machines.sort_by_key(|machine| (!returnable(machine), machine.id.clone()));
        let mut pool = self.lock();
        for machine in machines {
            if pool.known.insert(machine.id.clone()) {
                let (label, value) = &self.create_fault;
                if machine.labels.get(label) == Some(value) {
                    pool.failing.push(machine.id);
                } else {
                    pool.fresh.push(machine.id);
                }
            }
        }
        Ok(())
    }

    /// How many machines can be claimed at once, all behaviours together.
    pub(crate) fn size(&self) -> usize {
        let pool = self.lock();
        pool.fresh.len() + pool.used.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, count: usize, kind: MachineKind) -> Option<Vec<String>> {
        let mut pool = self.lock();
        let from = match kind {
            MachineKind::Any => &mut pool.fresh,
            MachineKind::CreateFails => &mut pool.failing,
        };
        if from.len() < count {
            return None;
        }
        let taken: Vec<String> = from.drain(..count).collect();
        pool.out += taken.len();
        Some(taken)
    }

    /// So many SPECULATIVE machines, all at once; waits for others to give theirs back where it must.
    pub(crate) async fn claim(&self, count: usize, kind: MachineKind) -> Outcome<Vec<String>> {
        loop {
            let returned = self.returned.notified();
            if let Some(taken) = self.take(count, kind) {
                return Ok(taken);
            }
            if kind == MachineKind::Any && self.recycle().await? {
                continue;
            }
            if self.lock().out == 0 {
                if let Some(taken) = self.take(count, kind) {
                    return Ok(taken);
                }
                let what = match kind {
                    MachineKind::Any => "SPECULATIVE machines".to_owned(),
                    MachineKind::CreateFails => format!(
                        "SPECULATIVE machines labelled {}={}",
                        self.create_fault.0, self.create_fault.1
                    ),
                };
                return Err(Stop::skipped(format!("the provider has no {count} {what} left")));
            }
            returned.await;
        }
    }

    /// Gives machines back, in whatever state.
    pub(crate) fn put_back(&self, ids: Vec<String>) {
        let mut pool = self.lock();
        pool.out -= ids.len();
        pool.used.extend(ids);
        drop(pool);
        self.returned.notify_waiters();
    }

    /// Makes used machines fresh; whether there were any.
    async fn recycle(&self) -> Outcome<bool> {
        let _one_at_a_time = self.recycling.lock().await;
        let used = std::mem::take(&mut self.lock().used);
        if used.is_empty() {
            let before = self.lock().known.len();
            self.look().await?;
            return Ok(self.lock().known.len() > before);
        }
        let mut tasks = tokio::task::JoinSet::new();
        for id in used {
            let client = self.client.clone();
            tasks.spawn(async move { restore(&client, &id).await.then_some(id) });
        }
        let restored: Vec<String> = tasks.join_all().await.into_iter().flatten().collect();
        let any = !restored.is_empty();
        self.lock().fresh.extend(restored);
        Ok(any)
    }
}

fn returnable(machine: &Machine) -> bool {
    matches!(machine.capacity_type(), CapacityType::OnDemand | CapacityType::Spot)
}

/// Walks a machine to SPECULATIVE; whether that worked.
async fn restore(client: &Client, id: &str) -> bool {
    let end = std::time::Instant::now() + client.session.limit(RECYCLE);
    while std::time::Instant::now() < end {
        let Ok(machine) = client.try_get(id).await else {
            return false;
        };
        let asked = match machine.state() {
            S::Speculative => return true,
            S::Configured => client.drain(id, 0, &free()).await,
            S::Idle => client.delete(id, &free()).await,
            S::Failed | S::Unspecified => return false,
            S::Creating | S::Configuring | S::Draining | S::Deleting => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        if asked.is_err() {
            return false;
        }
    }
    false
}
