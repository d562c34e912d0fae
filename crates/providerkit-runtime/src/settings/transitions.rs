//! How machines go from state to state.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Findings, Period};

/// How machines go from state to state, as configured.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct TransitionsConfig {
    /// How long each may take before the machine is FAILED.
    pub timeouts: TimeoutsConfig,
    /// What becomes of transitions that were running when the process ended.
    pub on_restart: OnRestart,
    /// What becomes of FAILED slots.
    pub failed_slots: FailedSlots,
    /// How long a FAILED machine is shown before its slot comes back.
    pub failed_hold: Period,
    /// How long the backend may take to end an operation that was cancelled before it is cut off.
    pub cancel_grace: Period,
    /// How often the backend is asked what there is; 0 for only when it says that something changed.
    pub reconcile_interval: Period,
    /// How many fence marks of machines that do not exist are remembered.
    pub ghost_marks: NonZeroU32,
}

const GHOST_MARKS: NonZeroU32 = NonZeroU32::new(65_536).unwrap();

impl Default for TransitionsConfig {
    fn default() -> Self {
        Self {
            timeouts: TimeoutsConfig::default(),
            on_restart: OnRestart::default(),
            failed_slots: FailedSlots::default(),
            failed_hold: Period::seconds(10 * 60),
            cancel_grace: Period::seconds(30),
            reconcile_interval: Period::seconds(2 * 60),
            ghost_marks: GHOST_MARKS,
        }
    }
}

/// Time limits.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct TimeoutsConfig {
    /// SPECULATIVE to IDLE.
    pub create: Period,
    /// IDLE to CONFIGURED, with the node Ready.
    pub configure: Period,
    /// CONFIGURED to IDLE. Independent of the grace that BigFleet grants workloads.
    pub drain: Period,
    /// IDLE to SPECULATIVE.
    pub delete: Period,
    /// One look at what there is.
    pub describe: Period,
}

impl Default for TimeoutsConfig {
    fn default() -> Self {
        Self {
            create: Period::seconds(5 * 60),
            configure: Period::seconds(5 * 60),
            drain: Period::seconds(10 * 60),
            delete: Period::seconds(5 * 60),
            describe: Period::seconds(30),
        }
    }
}

/// What becomes of transitions that were running when the process ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OnRestart {
    /// They are driven on.
    #[default]
    Resume,
    /// Their machines are FAILED.
    Fail,
}

/// What becomes of FAILED slots.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FailedSlots {
    /// They are cleaned and come back under a new machine id.
    #[default]
    Cleanup,
    /// They stay as they are.
    Keep,
}

/// How machines go from state to state.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Transitions {
    /// Time limit of Create.
    pub create: Duration,
    /// Time limit of Configure.
    pub configure: Duration,
    /// Time limit of Drain.
    pub drain: Duration,
    /// Time limit of Delete.
    pub delete: Duration,
    /// Time limit of one look at what there is.
    pub describe: Duration,
    /// What becomes of transitions that were running when the process ended.
    pub on_restart: OnRestart,
    /// What becomes of FAILED slots.
    pub failed_slots: FailedSlots,
    /// How long a FAILED machine is shown.
    pub failed_hold: Duration,
    /// How long a cancelled operation may take to end.
    pub cancel_grace: Duration,
    /// How often the backend is asked what there is; 0 for only when it says that something changed.
    pub reconcile_interval: Duration,
    /// How many fence marks of unknown machines are remembered.
    pub ghost_marks: NonZeroUsize,
}

impl Transitions {
    pub(super) fn parse(config: &TransitionsConfig, findings: &mut Findings) -> Self {
        let mut positive = |key: &str, period: Period| {
            if period.0.is_zero() {
                findings.refuse(&format!("transitions.{key}"), "must be longer than 0");
            }
            period.0
        };
        let timeouts = &config.timeouts;
        Self {
            create: positive("timeouts.create", timeouts.create),
            configure: positive("timeouts.configure", timeouts.configure),
            drain: positive("timeouts.drain", timeouts.drain),
            delete: positive("timeouts.delete", timeouts.delete),
            describe: positive("timeouts.describe", timeouts.describe),
            on_restart: config.on_restart,
            failed_slots: config.failed_slots,
            failed_hold: config.failed_hold.0,
            cancel_grace: config.cancel_grace.0,
            reconcile_interval: config.reconcile_interval.0,
            ghost_marks: config.ghost_marks.try_into().unwrap_or(NonZeroUsize::MAX),
        }
    }
}
