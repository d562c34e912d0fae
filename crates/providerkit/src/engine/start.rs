//! Starting: load, settle what a crash left, look at the substrate, go.

use std::{
    error, fmt,
    sync::{Arc, Mutex, RwLock, atomic::AtomicBool},
    time::{Duration, Instant, SystemTime},
};

use providerkit_backend::Backend;
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    engine::{
        Engine, Shared,
        draft::Draft,
        finish,
        options::{OnRestart, Options},
        reconcile,
        record::{Record, Running},
        recycle,
        status::Errors,
        view::View,
        work,
        writer::Writer,
    },
    store::{self, Change, Store},
};

/// Before the first look in the background, be machines known already or could none be seen: callers that waited come
/// first.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// Commands that may wait for the writer before callers have to.
const QUEUE: usize = 4096;

/// Why an engine could not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The store could not be read or written.
    Store(store::Error),
    /// The substrate offers slots that may not be taken in; one sentence each.
    Slots(Vec<String>),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => fmt::Display::fmt(error, f),
            Self::Slots(faults) => {
                write!(f, "the inventory has bad records: {}", faults.join("; "))
            }
        }
    }
}

impl error::Error for StartError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            Self::Slots(_) => None,
        }
    }
}

impl Engine {
    /// Loads the state, settles what a crash left under way, seeds a fresh state from the backend, and starts.
    ///
    /// A fresh state whose backend cannot be described starts empty and is filled when it can. A state that knows
    /// machines serves them at once; the backend is looked at in the background.
    ///
    /// # Errors
    /// [`StartError::Store`] when the state cannot be read or written, [`StartError::Slots`] when a fresh state would
    /// begin with bad records.
    pub async fn start(
        options: Options,
        mut store: Box<dyn Store>,
        backend: Arc<dyn Backend>,
    ) -> Result<Self, StartError> {
        let ghost_marks = options.ghost_marks;
        let on_restart = options.on_restart;
        let load = move || {
            let begun = Instant::now();
            let snapshot = store.load()?;
            let read = begun.elapsed();
            let mut view = View::load(snapshot, ghost_marks);
            tracing::info!(machines = view.machines.len(), ?read, took = ?begun.elapsed(), "state loaded");
            let fresh = view.machines.is_empty() && view.head == 0;
            boot(&mut view, &mut *store, on_restart)?;
            Ok((view, store, fresh))
        };
        let (view, store, fresh) = tokio::task::spawn_blocking(load)
            .await
            .unwrap_or_else(|panic| {
                Err(store::Error::new(store::ErrorKind::Io, "loading the state panicked").with_source(panic))
            })
            .map_err(StartError::Store)?;

        let unfinished: Vec<Arc<Record>> = view
            .machines
            .values()
            .filter(|record| record.running.is_some() || record.failure.is_some())
            .cloned()
            .collect();
        let errors = Errors::of(&view);
        let (commands, queue) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared {
            capabilities: backend.capabilities(),
            options,
            backend,
            view: RwLock::new(view),
            commands,
            errors,
            rotation: Mutex::new(0),
            refusing: AtomicBool::new(false),
            stop: CancellationToken::new(),
            transitions: TaskTracker::new(),
            tasks: TaskTracker::new(),
        });
        if !shared.capabilities.readiness {
            tracing::warn!("the backend has no readiness gate: CONFIGURED will not mean that the node is Ready");
        }
        shared.tasks.spawn(Writer::new(Arc::clone(&shared), store, queue).run());
        for record in &unfinished {
            work::spawn(&shared, record, &tracing::Span::none());
            recycle::spawn(&shared, record);
        }
        let engine = Self(Arc::clone(&shared));
        let mut pause = shared.options.between_looks().map(|_| FIRST_LOOK);
        if fresh {
            match reconcile::look(&shared).await {
                Ok(found) if !found.rejected.is_empty() => {
                    engine.stop(Duration::ZERO).await.map_err(StartError::Store)?;
                    return Err(StartError::Slots(found.rejected));
                }
                Ok(found) => {
                    if let Err(error) = reconcile::adopt(&shared, found.findings).await {
                        engine.stop(Duration::ZERO).await.map_err(StartError::Store)?;
                        return Err(StartError::Store(error));
                    }
                    pause = shared.options.between_looks();
                }
                Err(error) => {
                    tracing::warn!(error = %error.report(), "the substrate could not be described; starting empty");
                    pause = Some(FIRST_LOOK);
                }
            }
        }
        let (stop, tasks) = (shared.stop.clone(), shared.tasks.clone());
        let looking = reconcile::run(Arc::clone(&shared), pause);
        tasks.spawn(async move { stop.run_until_cancelled(looking).await });
        Ok(engine)
    }
}

/// One commit at start: this start is remembered, and transitions under way are counted on or failed.
fn boot(view: &mut View, store: &mut dyn Store, on_restart: OnRestart) -> Result<(), store::Error> {
    let head = view.head;
    let boot = view.history.begin(head);
    let now = SystemTime::now();
    let mut draft = Draft::new(view);
    let running = view
        .machines
        .values()
        .filter_map(|record| Some((record, record.running.as_ref()?)));
    for (record, running) in running {
        match on_restart {
            OnRestart::Resume => {
                let again = Running {
                    attempt: running.attempt.saturating_add(1),
                    ..Running::clone(running)
                };
                let mut record = Record::clone(record);
                record.running = Some(Arc::new(again));
                draft.put(record);
            }
            OnRestart::Fail => {
                let error = format!("{} was interrupted by a provider restart", running.transition);
                finish::finish(&mut draft, &record.machine.id, running.id, &Err(error), now);
                metrics::counter!(crate::metric::TRANSITIONS, "transition" => running.transition.name(), "outcome" => "interrupted").increment(1);
            }
        }
    }
    let (mut changes, effects) = draft.finish();
    changes.push(Change::Boot(boot));
    store.commit(&changes)?;
    view.publish(effects);
    Ok(())
}
