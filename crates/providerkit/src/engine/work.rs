//! Drives one accepted transition: the backend's work, its deadline, its end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use providerkit_backend::{
    Backend, ConfigureRequest, CreateRequest, Created, DeleteRequest, DrainRequest, Operation, ReadyRequest, Transition,
};
use tokio::{sync::oneshot, task::JoinHandle, time::Instant};
use tracing::{Instrument as _, Span};

use crate::{
    engine::{
        Shared,
        finish::Outcome,
        record::{Inputs, Record, Running},
        recycle,
        writer::Command,
    },
    validate,
};

/// Starts the work of a record's running transition, with what is left of its time. Its span is linked to the call that
/// caused it, and not a part of it: the call has long been answered when the transition ends.
pub(crate) fn spawn(shared: &Arc<Shared>, record: &Arc<Record>, cause: &Span) {
    let Some(running) = record.running.clone() else {
        return;
    };
    let (shared, record) = (Arc::clone(shared), Arc::clone(record));
    let span = tracing::info_span!(
        parent: None,
        "transition",
        otel.name = running.transition.name(),
        machine_id = %record.machine.id,
        op_id = %running.id,
        transition = running.transition.name(),
        attempt = running.attempt,
        outcome = tracing::field::Empty,
    );
    span.follows_from(cause);
    let task = shared
        .transitions
        .track_future(drive(Arc::clone(&shared), record, running));
    tokio::spawn(task.instrument(span));
}

/// What is left, by a clock that may have been set meanwhile: never more than the whole.
fn time_left(shared: &Shared, running: &Running) -> Duration {
    let left = running.deadline.duration_since(SystemTime::now()).unwrap_or_default();
    left.min(shared.options.timeouts.of(running.transition))
}

async fn drive(shared: Arc<Shared>, record: Arc<Record>, running: Arc<Running>) {
    let transition = running.transition.name();
    metrics::gauge!(crate::metric::TRANSITIONS_IN_FLIGHT, "transition" => transition).increment(1);
    let begun = Instant::now();
    let budget = time_left(&shared, &running);
    let operation = Operation::new(running.id, budget).attempt(running.attempt);
    let cancellation = operation.cancellation.clone();
    let waiting_for_node = Arc::new(AtomicBool::new(false));
    let attempt = Attempt {
        backend: Arc::clone(&shared.backend),
        record: Arc::clone(&record),
        running: Arc::clone(&running),
        operation,
        waiting_for_node: Arc::clone(&waiting_for_node),
    };
    // Nothing is begun that there is no time for: a deadline may have passed while nobody ran.
    let mut attempt = (!budget.is_zero()).then(|| AbortOnDrop(tokio::spawn(attempt.run().in_current_span())));
    let end = tokio::select! {
        biased;
        // What runs is in the store: the next start drives it on.
        () = shared.stop.cancelled() => None,
        outcome = ended(&mut attempt) => Some((outcome, false)),
        () = tokio::time::sleep_until(begun + budget) => {
            Some((Err(timed_out(&shared, &running, waiting_for_node.load(Ordering::Relaxed))), true))
        }
    };
    metrics::gauge!(crate::metric::TRANSITIONS_IN_FLIGHT, "transition" => transition).decrement(1);
    let Some((outcome, late)) = end else { return };
    let label = match (&outcome, late) {
        (Ok(_), _) => "ok",
        (Err(_), true) => "timeout",
        (Err(_), false) => "failed",
    };
    Span::current().record("outcome", label);
    let Some(record) = finish(&shared, &record, &running, outcome).await else {
        return;
    };
    metrics::counter!(crate::metric::TRANSITIONS, "transition" => transition, "outcome" => label).increment(1);
    let took = SystemTime::now().duration_since(running.accepted).unwrap_or_default();
    metrics::histogram!(crate::metric::TRANSITION_DURATION, "transition" => transition).record(took.as_secs_f64());
    if let Some(mut attempt) = attempt.filter(|_| late) {
        cancellation.cancel();
        wind_down(&shared, &record, &running, &mut attempt).await;
    }
    recycle::spawn(&shared, &record);
}

/// How an attempt ended; never, if there is none.
async fn ended(attempt: &mut Option<AbortOnDrop>) -> Outcome {
    match attempt {
        Some(attempt) => (&mut attempt.0)
            .await
            .unwrap_or_else(|panic| Err(format!("the backend failed: {panic}"))),
        None => std::future::pending().await,
    }
}

fn timed_out(shared: &Shared, running: &Running, waiting_for_node: bool) -> String {
    let (transition, timeout) = (running.transition, shared.options.timeouts.of(running.transition));
    let doing = if waiting_for_node {
        ", waiting for the node to be Ready"
    } else {
        ""
    };
    format!("{transition} did not end within {timeout:?}{doing}: context deadline exceeded")
}

/// Lets a cancelled attempt end by itself for a while. A result it still brings is late.
async fn wind_down(shared: &Arc<Shared>, record: &Record, running: &Running, attempt: &mut AbortOnDrop) {
    tokio::select! {
        biased;
        () = shared.stop.cancelled() => {}
        joined = &mut attempt.0 => {
            if let Ok(outcome @ Ok(_)) = joined {
                finish(shared, record, running, outcome).await;
            }
        }
        () = tokio::time::sleep(shared.options.cancel_grace) => {
            tracing::warn!(
                machine_id = %record.machine.id,
                op_id = %running.id,
                "a cancelled attempt did not end by itself and is dropped"
            );
            // Awaited, so that cleanup never runs beside it.
            attempt.0.abort();
            (&mut attempt.0).await.ok();
        }
    }
}

/// Has the end committed; `None` when the transition had ended before, or the engine is gone.
async fn finish(shared: &Shared, record: &Record, running: &Running, outcome: Outcome) -> Option<Arc<Record>> {
    let (machine, operation) = (record.machine.id.clone(), running.id);
    match &outcome {
        Ok(_) => {
            tracing::info!(machine_id = %machine, op_id = %operation, transition = running.transition.name(), "succeeded");
        }
        Err(error) => {
            tracing::warn!(machine_id = %machine, op_id = %operation, transition = running.transition.name(), %error, "failed");
        }
    }
    let (done, ended) = oneshot::channel();
    let command = Command::Finish {
        machine: machine.clone(),
        operation,
        outcome,
        done,
    };
    shared.commands.send(command).await.ok()?;
    // Stopped while the disk does not take it: the next start drives the transition on.
    let record = shared.stop.run_until_cancelled(ended).await?.ok()?;
    if let Some(record) = &record {
        shared.errors.note(record);
    } else {
        metrics::counter!(crate::metric::LATE_RESULTS).increment(1);
        tracing::info!(machine_id = %machine, op_id = %operation, "a late result was discarded");
    }
    record
}

/// The backend's work on one transition, on a task of its own so that a panic in it is an error like any other.
struct Attempt {
    backend: Arc<dyn Backend>,
    record: Arc<Record>,
    running: Arc<Running>,
    operation: Operation,
    waiting_for_node: Arc<AtomicBool>,
}

impl Attempt {
    async fn run(self) -> Outcome {
        let Self {
            backend,
            record,
            running,
            operation,
            waiting_for_node,
        } = self;
        let machine = record.machine.clone();
        let begun = Instant::now();
        let done = match (running.transition, &running.inputs) {
            (Transition::Create, _) => {
                return backend
                    .create(CreateRequest::new(operation, machine))
                    .await
                    .map_err(|error| error.report())
                    .and_then(checked);
            }
            (Transition::Configure, Inputs::Bootstrap(bootstrap)) => {
                let Some(cluster) = machine.cluster.clone() else {
                    return Err("the machine has no cluster".into());
                };
                let request =
                    ConfigureRequest::new(operation.clone(), machine.clone(), cluster.clone(), bootstrap.clone());
                match backend.configure(request).await {
                    Ok(()) => {
                        waiting_for_node.store(true, Ordering::Relaxed);
                        let mut operation = operation;
                        operation.budget = operation.budget.saturating_sub(begun.elapsed());
                        backend.ready(ReadyRequest::new(operation, machine, cluster)).await
                    }
                    failed => failed,
                }
            }
            (Transition::Drain, Inputs::Grace(grace)) => {
                backend.drain(DrainRequest::new(operation, machine, *grace)).await
            }
            (Transition::Delete, _) => backend.delete(DeleteRequest::new(operation, machine)).await,
            (transition, _) => return Err(format!("the inputs of the {transition} are lost")),
        };
        done.map(|()| None).map_err(|error| error.report())
    }
}

/// What a backend says it made must have the shape the shard demands (contract §8).
fn checked(created: Created) -> Outcome {
    if created.host.provider.is_empty() || created.host.reference.is_empty() {
        return Err("the backend reported a host without provider or reference".to_owned());
    }
    match created.profile.as_ref().map(|profile| validate::profile(profile)) {
        Some(faults) if !faults.is_empty() => Err(format!("the backend reported a bad profile: {}", faults.join("; "))),
        _ => Ok(Some(created)),
    }
}

struct AbortOnDrop(JoinHandle<Outcome>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
