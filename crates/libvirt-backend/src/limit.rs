//! The time an operation has.

use std::time::Duration;

use providerkit_backend::{Error, Operation, Transition};

use crate::{failure::Failure, guest::Stuck};

/// We stop a little before the engine does, because we know what was waited for.
const SPARE: Duration = Duration::from_secs(2);

/// Runs the work of an operation within its budget. When time is up the error says what it waited for.
pub(crate) async fn within<T>(
    (what, operation): (Transition, &Operation),
    stuck: &Stuck,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Error> {
    let budget = operation.budget.saturating_sub(SPARE.min(operation.budget / 10));
    let timed_out = || {
        let text = stuck.text();
        let waited = if text.is_empty() { "its host".to_owned() } else { text };
        Error::new(format!(
            "{what} still waits for {waited} after {:.0?}: context deadline exceeded",
            operation.budget
        ))
    };
    tokio::select! {
        biased;
        () = operation.cancellation.cancelled() => Err(timed_out()),
        done = tokio::time::timeout(budget, work) => match done {
            Ok(done) => done.map_err(Error::from),
            Err(_elapsed) => Err(timed_out()),
        },
    }
}
