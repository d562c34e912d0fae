//! When a silent peer counts as dead.

use super::options;

/// What to do at the end of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fine,
    Ping,
    Dead,
}

/// Counts the questions without answer.
#[derive(Debug)]
pub(crate) struct Keepalive {
    limit: u32,
    asked: u32,
    heard: bool,
}

impl Keepalive {
    pub(crate) fn new(options: options::Keepalive) -> Self {
        Self {
            limit: options.count,
            asked: 0,
            heard: true,
        }
    }

    /// Anything came from the peer.
    pub(crate) fn heard(&mut self) {
        self.heard = true;
        self.asked = 0;
    }

    /// An interval is over. While `excused` the peer cannot be heard for a reason of ours: a paused reader, an upload
    /// behind which our question waits.
    pub(crate) fn tick(&mut self, excused: bool) -> Verdict {
        if std::mem::take(&mut self.heard) || excused {
            return Verdict::Fine;
        }
        if self.asked >= self.limit {
            return Verdict::Dead;
        }
        self.asked += 1;
        Verdict::Ping
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn silence_is_death_after_the_last_question_and_any_sound_is_life() {
        let mut keepalive = Keepalive::new(options::Keepalive {
            interval: Duration::from_secs(1),
            count: 2,
        });
        let ticks: Vec<_> = (0..4).map(|_| keepalive.tick(false)).collect();
        assert_eq!(ticks, [Verdict::Fine, Verdict::Ping, Verdict::Ping, Verdict::Dead]);
        keepalive.heard();
        assert_eq!(keepalive.tick(false), Verdict::Fine);
        assert_eq!(keepalive.tick(true), Verdict::Fine);
        assert_eq!(keepalive.tick(false), Verdict::Ping);
    }
}
