//! What happens to a FAILED machine: the backend cleans up until it succeeds, the machine is shown for a while, then
//! its slot comes back under a fresh id (contract §11.4).

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use providerkit_backend::{CleanupRequest, Operation};

use crate::engine::{
    Shared,
    options::FailedSlots,
    record::{Failure, Record},
    writer::Command,
};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(300);

/// Begins with a machine that is FAILED; does nothing for any other.
pub(crate) fn spawn(shared: &Arc<Shared>, record: &Arc<Record>) {
    let Some(failure) = record.failure.as_deref().copied() else {
        return;
    };
    if shared.options.failed_slots == FailedSlots::Keep {
        return;
    }
    let (shared, record) = (Arc::clone(shared), Arc::clone(record));
    let stop = shared.stop.clone();
    let tasks = shared.tasks.clone();
    tasks.spawn(async move { stop.run_until_cancelled(recycle(shared, record, failure)).await });
}

async fn recycle(shared: Arc<Shared>, record: Arc<Record>, failure: Failure) {
    let (machine, operation) = (record.machine.id.clone(), failure.operation);
    if !failure.cleaned {
        clean(&shared, &record, failure).await;
        let command = Command::Cleaned {
            machine: machine.clone(),
            operation,
        };
        if shared.commands.send(command).await.is_err() {
            return;
        }
    }
    let shown = SystemTime::now().duration_since(failure.at).unwrap_or_default();
    tokio::time::sleep(shared.options.failed_hold.saturating_sub(shown)).await;
    // Nobody to hear it: the engine is going down, and begins here again at the next start.
    shared.commands.send(Command::Recycle { machine, operation }).await.ok();
}

async fn clean(shared: &Shared, record: &Record, failure: Failure) {
    let budget = shared.options.timeouts.delete;
    let mut pause = FIRST_PAUSE;
    for attempt in 1.. {
        let operation = Operation::new(failure.operation, budget).attempt(attempt);
        let request = CleanupRequest::new(operation, record.machine.clone(), failure.transition);
        let error = match tokio::time::timeout(budget, shared.backend.cleanup(request)).await {
            Ok(Ok(())) => {
                metrics::counter!(crate::metric::CLEANUPS, "outcome" => "ok").increment(1);
                return;
            }
            Ok(Err(error)) => error.report(),
            Err(_elapsed) => format!("no end within {budget:?}"),
        };
        metrics::counter!(crate::metric::CLEANUPS, "outcome" => "error").increment(1);
        tracing::warn!(machine_id = %record.machine.id, op_id = %failure.operation, attempt, %error, "cleanup failed; it will be tried again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}
