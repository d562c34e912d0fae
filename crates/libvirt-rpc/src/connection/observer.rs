//! Somebody who is told of every call.

use std::{
    fmt,
    time::{Duration, Instant},
};

use super::state::Reply;
use crate::Error;

/// Is told of every call on a connection that [`Options::observer`](crate::Options::observer) gave it, by the tasks that
/// make them: it must neither block nor panic.
pub trait Observer: Send + Sync + fmt::Debug + 'static {
    /// A call begins to wait for its turn.
    fn begins(&self, call: &'static str);

    /// A call that began has ended.
    fn ended(&self, call: &Ended<'_>);
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Ended<'a> {
    /// The call, such as `domain_create`.
    pub call: &'static str,
    /// From its beginning to its end.
    pub took: Duration,
    /// How much of that it waited until the daemon could take one more ([`Options::window`](crate::Options::window));
    /// `None` when no answer came.
    pub queued: Option<Duration>,
    /// Why it has no answer, or what the daemon objects to; also `None` when its future was dropped.
    pub error: Option<&'a Error>,
    /// Whether its future was dropped before the end.
    pub dropped: bool,
}

/// One call that is observed; a call that is dropped ends, too.
pub(super) struct Watch<'a> {
    observer: Option<&'a dyn Observer>,
    call: &'static str,
    begun: Instant,
}

impl<'a> Watch<'a> {
    pub(super) fn begin(observer: Option<&'a dyn Observer>, call: &'static str) -> Self {
        if let Some(observer) = observer {
            observer.begins(call);
        }
        let begun = Instant::now();
        Self { observer, call, begun }
    }

    pub(super) fn end(mut self, result: &Result<Reply, Error>) {
        let queued = result.as_ref().ok().and_then(|reply| reply.turn);
        let queued = queued.map(|turn| turn.saturating_duration_since(self.begun));
        self.tell(queued, result.as_ref().err(), false);
        self.observer = None;
    }

    fn tell(&self, queued: Option<Duration>, error: Option<&Error>, dropped: bool) {
        if let Some(observer) = self.observer {
            observer.ended(&Ended {
                call: self.call,
                took: self.begun.elapsed(),
                queued,
                error,
                dropped,
            });
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.tell(None, None, true);
    }
}
