//! How an engine behaves.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use providerkit_backend::Transition;

/// How long things may take, measured from acceptance and kept over restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// SPECULATIVE to IDLE; 5 minutes at first.
    pub create: Duration,
    /// IDLE to CONFIGURED, the readiness gate included; 5 minutes at first.
    pub configure: Duration,
    /// CONFIGURED to IDLE, independent of the grace period; 10 minutes at first.
    pub drain: Duration,
    /// IDLE to SPECULATIVE, and each try to clean up a FAILED slot; 5 minutes at first.
    pub delete: Duration,
    /// One look at the substrate; 30 seconds at first.
    pub describe: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Self {
            create: minutes(5),
            configure: minutes(5),
            drain: minutes(10),
            delete: minutes(5),
            describe: Duration::from_secs(30),
        }
    }
}

impl Timeouts {
    /// The time a transition has.
    #[must_use]
    pub const fn of(&self, transition: Transition) -> Duration {
        match transition {
            Transition::Create => self.create,
            Transition::Configure => self.configure,
            Transition::Drain => self.drain,
            Transition::Delete => self.delete,
        }
    }
}

/// What becomes of transitions that a restart finds under way (contract §6, §16.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnRestart {
    /// They are driven on under the same operation id, within what is left of their own deadline.
    #[default]
    Resume,
    /// Their machines become FAILED.
    Fail,
}

/// What becomes of FAILED slots (contract §11.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailedSlots {
    /// The backend cleans them up; after a hold they come back under a fresh machine id.
    #[default]
    Cleanup,
    /// They stay as they are, substrate included, for somebody to look at.
    Keep,
}

/// How an engine behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The provider's name, for logs.
    pub provider: Arc<str>,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// What becomes of transitions that a restart finds under way.
    pub on_restart: OnRestart,
    /// What becomes of FAILED slots.
    pub failed_slots: FailedSlots,
    /// How long a FAILED machine is shown before its slot comes back; 10 minutes at first.
    pub failed_hold: Duration,
    /// How long a cancelled attempt may take to end by itself before it is dropped; 30 seconds at first.
    pub cancel_grace: Duration,
    /// Between two looks at the substrate; 2 minutes at first. Zero: a state that is known is looked after only when the
    /// backend says that something [changed](providerkit_backend::Backend::changed); a fresh one is filled all the same,
    /// and a look that failed is tried again.
    pub reconcile_interval: Duration,
    /// How many fence marks of machines that do not exist are kept; 65,536 at first, about 10 MB. When one more comes,
    /// the least recently advanced is forgotten: such a mark protects nothing that could be applied.
    pub ghost_marks: NonZeroUsize,
}

impl Options {
    /// The pause between looks, if there are any at intervals.
    pub(crate) fn between_looks(&self) -> Option<Duration> {
        Some(self.reconcile_interval).filter(|interval| !interval.is_zero())
    }

    /// The defaults, for a provider of this name.
    #[must_use]
    pub fn new(provider: impl Into<Arc<str>>) -> Self {
        const GHOST_MARKS: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();
        Self {
            provider: provider.into(),
            timeouts: Timeouts::default(),
            on_restart: OnRestart::default(),
            failed_slots: FailedSlots::default(),
            failed_hold: Duration::from_secs(600),
            cancel_grace: Duration::from_secs(30),
            reconcile_interval: Duration::from_secs(120),
            ghost_marks: GHOST_MARKS,
        }
    }
}
