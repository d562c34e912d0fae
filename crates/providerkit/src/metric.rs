//! Names of the metrics the engine records, through the `metrics` facade and without a prefix: the process that
//! exports them adds its own.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use providerkit_backend::Transition;

/// Machines by `state`, `zone` and `capacity_type`.
pub const MACHINES: &str = "machines";
/// SPECULATIVE machines that no List shows because their slots cannot be created now, by `zone`. They are in
/// [`MACHINES`], too.
pub const SLOTS_WITHHELD: &str = "slots_withheld";
/// Ended transitions by `transition` and `outcome` (`ok`, `failed`, `timeout`, `interrupted`).
pub const TRANSITIONS: &str = "transitions_total";
/// Seconds from acceptance to the end, by `transition`.
pub const TRANSITION_DURATION: &str = "transition_duration_seconds";
/// Transitions under way, by `transition`.
pub const TRANSITIONS_IN_FLIGHT: &str = "transitions_in_flight";
/// Results that came after their transition had ended.
pub const LATE_RESULTS: &str = "late_results_total";
/// Calls with a token that was not newer, by `reason` (`stale_epoch`, `stale_sequence`).
pub const FENCE_REJECTIONS: &str = "fence_rejections_total";
/// Retries that got their first answer again, by `method`.
pub const IDEMPOTENT_REPLAYS: &str = "idempotent_replays_total";
/// Repeated Configures whose arguments had changed.
pub const CHANGED_REPLAYS: &str = "changed_replays_total";
/// Seconds of a commit to the store.
pub const STORE_COMMIT_DURATION: &str = "store_commit_duration_seconds";
/// Calls and background changes that shared a commit.
pub const STORE_GROUP_SIZE: &str = "store_group_size";
/// Bytes of the state file and its log; absent where nothing is kept.
pub const STORE_SIZE: &str = "store_size_bytes";
/// Commits that failed.
pub const STORE_ERRORS: &str = "store_errors_total";
/// FAILED slots that came back under a fresh id.
pub const SLOTS_RECYCLED: &str = "slots_recycled_total";
/// Tries to clean up a FAILED slot, by `outcome` (`ok`, `error`).
pub const CLEANUPS: &str = "cleanups_total";
/// Looks at the substrate, by `outcome` (`success`, `error`, as the reference spells them).
pub const RECONCILES: &str = "reconcile_total";
/// Seconds of a look at the substrate.
pub const RECONCILE_DURATION: &str = "reconcile_duration_seconds";
/// When a look at the substrate last succeeded, in seconds since 1970.
pub const RECONCILE_LAST_SUCCESS: &str = "reconcile_last_success_timestamp_seconds";

/// Tells the recorder what each of them is, and shows those whose labels are known from the start.
pub fn describe() {
    describe_gauge!(MACHINES, "Machines by state, zone and capacity type.");
    describe_gauge!(
        SLOTS_WITHHELD,
        "SPECULATIVE machines that are not listed because they cannot be created now."
    );
    describe_counter!(
        TRANSITIONS,
        "Ended transitions by outcome: ok, failed, timeout, interrupted."
    );
    describe_histogram!(
        TRANSITION_DURATION,
        Unit::Seconds,
        "Time from acceptance to the end of a transition."
    );
    describe_gauge!(TRANSITIONS_IN_FLIGHT, "Transitions under way.");
    describe_counter!(LATE_RESULTS, "Results that came after their transition had ended.");
    describe_counter!(FENCE_REJECTIONS, "Calls whose fencing token was not newer.");
    describe_counter!(IDEMPOTENT_REPLAYS, "Retries that got their first answer again.");
    describe_counter!(CHANGED_REPLAYS, "Repeated Configures whose arguments had changed.");
    describe_histogram!(STORE_COMMIT_DURATION, Unit::Seconds, "Time of a commit to the store.");
    describe_histogram!(STORE_GROUP_SIZE, "Calls and background changes that shared a commit.");
    describe_gauge!(
        STORE_SIZE,
        Unit::Bytes,
        "Size of the state file and its log after the last commit."
    );
    describe_counter!(STORE_ERRORS, "Commits that failed.");
    describe_counter!(SLOTS_RECYCLED, "FAILED slots that came back under a fresh id.");
    describe_counter!(CLEANUPS, "Tries to clean up a FAILED slot.");
    describe_counter!(RECONCILES, "Looks at the substrate.");
    describe_histogram!(RECONCILE_DURATION, Unit::Seconds, "Time of a look at the substrate.");
    describe_gauge!(
        RECONCILE_LAST_SUCCESS,
        Unit::Seconds,
        "When a look at the substrate last succeeded, in seconds since 1970; 0 if none has yet."
    );
    register();
}

fn register() {
    for transition in Transition::ALL {
        let transition = transition.name();
        gauge!(TRANSITIONS_IN_FLIGHT, "transition" => transition).set(0);
        drop(histogram!(TRANSITION_DURATION, "transition" => transition));
        counter!(IDEMPOTENT_REPLAYS, "method" => transition).increment(0);
        for outcome in ["ok", "failed", "timeout", "interrupted"] {
            counter!(TRANSITIONS, "transition" => transition, "outcome" => outcome).increment(0);
        }
    }
    for reason in ["stale_epoch", "stale_sequence"] {
        counter!(FENCE_REJECTIONS, "reason" => reason).increment(0);
    }
    for outcome in ["ok", "error"] {
        counter!(CLEANUPS, "outcome" => outcome).increment(0);
    }
    for outcome in ["success", "error"] {
        counter!(RECONCILES, "outcome" => outcome).increment(0);
    }
    for name in [LATE_RESULTS, CHANGED_REPLAYS, STORE_ERRORS, SLOTS_RECYCLED] {
        counter!(name).increment(0);
    }
    for name in [STORE_COMMIT_DURATION, STORE_GROUP_SIZE, RECONCILE_DURATION] {
        drop(histogram!(name));
    }
    gauge!(RECONCILE_LAST_SUCCESS).set(0);
}
