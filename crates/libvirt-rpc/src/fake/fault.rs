//! Ways to fail.

use std::time::Duration;

use crate::wire::{constant::error::ErrorNumber, procedure::Info};

/// What happens to calls of one name, or to all.
#[derive(Clone, Debug)]
pub struct Fault {
    procedure: Option<String>,
    named: Vec<u8>,
    effect: Effect,
    skip: usize,
    times: Option<usize>,
}

/// What happens instead of an answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Effect {
    /// The call is refused with an error.
    Refuse(ErrorNumber, String),
    /// The daemon is too old to know the call.
    Unknown,
    /// The call is carried out and answered this much later.
    Delay(Duration),
    /// The call is carried out and never answered.
    Silence,
    /// The connection is cut before the call is carried out.
    CutBefore,
    /// The connection is cut after the call was carried out, before it is answered.
    CutAfter,
}

impl Fault {
    /// Calls of a name, `domain_create`, have this effect.
    #[must_use]
    pub fn on(procedure: impl Into<String>, effect: Effect) -> Self {
        Self {
            procedure: Some(procedure.into()),
            named: Vec::new(),
            effect,
            skip: 0,
            times: None,
        }
    }

    /// All calls have this effect.
    #[must_use]
    pub fn on_all(effect: Effect) -> Self {
        Self {
            procedure: None,
            named: Vec::new(),
            effect,
            skip: 0,
            times: None,
        }
    }

    /// Only calls that have this text in their arguments have it: the name of a domain, say, or the beginning of one.
    #[must_use]
    pub fn naming(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.named = text.into();
        self
    }

    /// Only so many calls have it.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    /// The first so many calls do not have it.
    #[must_use]
    pub fn after(mut self, calls: usize) -> Self {
        self.skip = calls;
        self
    }

    /// The effect on a call, if it has any.
    pub(super) fn effect(&mut self, info: &Info, arguments: &[u8]) -> Option<Effect> {
        if self.procedure.as_deref().is_some_and(|name| name != info.name) {
            return None;
        }
        let named = self.named.len();
        if named > 0 && !arguments.windows(named).any(|text| text == self.named) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        match &mut self.times {
            Some(0) => return None,
            Some(times) => *times -= 1,
            None => {}
        }
        Some(self.effect.clone())
    }
}
