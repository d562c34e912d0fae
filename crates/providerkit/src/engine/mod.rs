//! The engine: the only place that owns state and spawns.
//!
//! One task, the [`writer`], changes anything; everybody else reads the published [`view`]. A call is a command to the
//! writer, decided by [`accept`]; the work it starts is driven by [`work`] and ends with another command.

mod accept;
mod draft;
mod finish;
mod list;
mod listing;
mod options;
mod reconcile;
pub(crate) mod record;
mod recycle;
mod start;
mod status;
mod view;
mod work;
mod writer;

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use providerkit_backend::{Backend, Capabilities, Machine, State};
use tokio::sync::{mpsc, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::{
    accept::{Accepted, Arguments, Call},
    list::{Page, Query},
};
pub use self::{
    options::{FailedSlots, OnRestart, Options, Timeouts},
    start::StartError,
    status::{Failed, Status, UnderWay},
};
use self::{status::Errors, view::View, writer::Command};
use crate::{
    refusal::{Refusal, RefusalKind},
    store,
};

/// The contract engine of one provider. Cheap to clone; all clones are one engine. It runs until [`stop`](Self::stop),
/// also without a handle.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

/// What all parts of an engine share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) capabilities: Capabilities,
    view: RwLock<View>,
    pub(crate) commands: mpsc::Sender<Command>,
    /// Why transitions failed last.
    pub(crate) errors: Errors,
    /// Where the next capped, filtered, cursor-less List begins.
    rotation: Mutex<u64>,
    refusing: AtomicBool,
    /// Ends every task; what runs then is in the store.
    pub(crate) stop: CancellationToken,
    /// Running transitions.
    pub(crate) transitions: TaskTracker,
    /// Everything else.
    pub(crate) tasks: TaskTracker,
}

impl Shared {
    /// A panic while it was locked cannot leave half an effect that matters more than answering.
    pub(crate) fn view(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn view_mut(&self) -> RwLockWriteGuard<'_, View> {
        self.view.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Numbers for people and gauges; read from memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Machines by state.
    pub machines: BTreeMap<State, usize>,
    /// Transitions under way.
    pub running: usize,
    /// SPECULATIVE machines that no List shows, because they cannot be created now.
    pub withheld: usize,
}

/// What [`Engine::stop`] left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Transitions that were under way; they are in the store and go on at the next start.
    pub left_running: usize,
}

impl Engine {
    /// Accepts or refuses a mutating call; returns once the decision is durable.
    ///
    /// Cancel-safe in the only way that can be: a call whose future is dropped is decided all the same.
    pub(crate) async fn call(&self, call: Call) -> Result<Accepted, Refusal> {
        let unavailable = || {
            Refusal::new(
                RefusalKind::Unavailable,
                "the provider is going down; nothing was changed",
            )
        };
        if self.0.refusing.load(Ordering::Acquire) {
            return Err(unavailable());
        }
        let (reply, answer) = oneshot::channel();
        let command = Command::Call(call, reply);
        self.0.commands.send(command).await.map_err(|_closed| unavailable())?;
        answer.await.unwrap_or_else(|_closed| Err(unavailable()))
    }

    /// A machine in list form.
    pub(crate) fn encoded(&self, id: &str) -> Option<Bytes> {
        let view = self.0.view();
        let record = view.machines.get(id)?;
        view.encoded(record.ordinal).map(|(_, encoded)| encoded)
    }

    /// The inventory, or part of it.
    pub(crate) fn list(&self, query: &Query) -> Page {
        if !query.rotates() {
            return list::list(&self.0.view(), query, 0).0;
        }
        // Locked for the whole answer, so that two callers are not told the same machine.
        let mut rotation = self.0.rotation.lock().unwrap_or_else(PoisonError::into_inner);
        let (page, next) = list::list(&self.0.view(), query, *rotation);
        if let Some(next) = next {
            *rotation = next;
        }
        page
    }

    /// All machines, decoded; also those that no List shows.
    #[must_use]
    pub fn machines(&self) -> Vec<Machine> {
        let view = self.0.view();
        view.machines.values().map(|record| record.machine.clone()).collect()
    }

    /// Numbers for people; never touches disk or a host.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        {
            let view = self.0.view();
            for ((state, _, _), count) in &view.tally {
                *summary.machines.entry(*state).or_default() += count;
            }
            summary.withheld = view.withheld.values().sum();
        }
        let transitional = [State::Creating, State::Configuring, State::Draining, State::Deleting];
        summary.running = transitional
            .iter()
            .filter_map(|state| summary.machines.get(state))
            .sum();
        summary
    }

    /// Sets the gauges that count machines; call it before they are read.
    pub fn record_gauges(&self) {
        let view = self.0.view();
        let zones: HashSet<_> = view.tally.keys().map(|(_, zone, _)| zone).collect();
        for zone in zones {
            let count = view.withheld.get(zone).copied().unwrap_or(0);
            metrics::gauge!(crate::metric::SLOTS_WITHHELD, "zone" => zone.to_string()).set(count as f64);
        }
        let kinds: HashSet<_> = view.tally.keys().map(|(_, zone, capacity)| (zone, *capacity)).collect();
        for (zone, capacity) in kinds {
            for state in State::ALL {
                let labels = [
                    ("state", state.name().to_owned()),
                    ("zone", zone.to_string()),
                    ("capacity_type", capacity.name().to_owned()),
                ];
                let count = view.tally.get(&(state, Arc::clone(zone), capacity));
                metrics::gauge!(crate::metric::MACHINES, &labels).set(count.copied().unwrap_or(0) as f64);
            }
        }
    }

    /// From now on mutating calls are answered `UNAVAILABLE`; reads go on.
    pub fn refuse_mutations(&self) {
        self.0.refusing.store(true, Ordering::Release);
    }

    /// Refuses mutations, gives running transitions this long to end, ends every task and closes the store.
    ///
    /// # Errors
    /// When the store could not be closed cleanly; what was acknowledged is safe all the same.
    pub async fn stop(&self, grace: Duration) -> Result<Stopped, store::Error> {
        self.refuse_mutations();
        let shared = &self.0;
        shared.transitions.close();
        // Not in time: they are in the store.
        tokio::time::timeout(grace, shared.transitions.wait()).await.ok();
        let left_running = shared.transitions.len();
        shared.stop.cancel();
        shared.transitions.wait().await;
        shared.tasks.close();
        let (done, closed) = oneshot::channel();
        if shared.commands.send(Command::Close(done)).await.is_ok()
            && let Ok(result) = closed.await
        {
            result?;
        }
        shared.tasks.wait().await;
        Ok(Stopped { left_running })
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("provider", &self.0.options.provider)
            .finish_non_exhaustive()
    }
}
