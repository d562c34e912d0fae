//! A shard that does not know what it wants.

use std::{error::Error as _, sync::Mutex};

use tonic::{Code, Status};

use super::{ledger::Ledger, machine::Bound};
use crate::harness::{Binding, Client, Random, Shard, Step, Token};

/// One of the callers: its own shard, its own machines, one call after the other.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) number: usize,
    own: Vec<String>,
    shared: Vec<String>,
    random: Random,
    sequence: i64,
}

/// How a token relates to the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freshness {
    Newer,
    Stale,
    Unfenced,
}

impl Caller {
    pub(super) fn new(number: usize, own: Vec<String>, shared: Vec<String>, random: Random) -> Self {
        Self {
            number,
            own,
            shared,
            random,
            sequence: 0,
        }
    }

    /// Calls until the provider is gone.
    pub(super) async fn run(&mut self, client: &Client, ledger: &Mutex<Ledger>, epoch: i64) {
        loop {
            let id = self.machine();
            let step = self.step(&ledger.lock().unwrap(), &id);
            let (token, freshness) = self.token(&ledger.lock().unwrap(), &id, epoch);
            let binding = self.binding();
            let wanted = Bound {
                cluster: binding.cluster.clone(),
                metadata: binding.metadata.clone(),
            };
            let begun = ledger.lock().unwrap().begin(&id, step, wanted);
            let answer = step.call(client, &id, &binding, &token).await;
            let mut ledger = ledger.lock().unwrap();
            match answer {
                Err(status) if is_lost(&status) || ledger.ending && status.code() == Code::Unavailable => {
                    ledger.counts.lost += 1;
                    if freshness == Freshness::Stale {
                        ledger.fenced(&id, begun);
                    }
                    return;
                }
                Err(status) if status.code() == Code::FailedPrecondition => {
                    ledger.counts.fenced += 1;
                    ledger.fenced(&id, begun);
                    if freshness != Freshness::Stale {
                        ledger.violation(&id, format!("{token:?} was fenced: {}", status.message()));
                    }
                    continue;
                }
                Err(status) => {
                    ledger.counts.refused += 1;
                    ledger.refused(&id, begun);
                    if ![Code::Aborted, Code::InvalidArgument, Code::NotFound].contains(&status.code()) {
                        ledger.violation(&id, format!("{step:?}: {status:?}"));
                    }
                }
                Ok(ack) => ledger.acked(&id, step, begun, ack),
            }
            if freshness == Freshness::Stale {
                ledger.violation(&id, format!("the stale {token:?} passed"));
            }
            ledger.passed(&id, &token);
        }
    }

    fn machine(&mut self) -> String {
        match self.random.below(20) {
            0 => format!("ghost-{}", self.number),
            1..=5 => self.random.pick(&self.shared).clone(),
            _ => self.random.pick(&self.own).clone(),
        }
    }

    /// Half of the time something that may succeed.
    fn step(&mut self, ledger: &Ledger, id: &str) -> Step {
        let legal = ledger
            .books
            .get(id)
            .map(super::machine::Book::legal)
            .unwrap_or_default();
        if legal.is_empty() || self.random.once_in(2) {
            *self.random.pick(&Step::ALL)
        } else {
            *self.random.pick(&legal)
        }
    }

    fn token(&mut self, ledger: &Ledger, id: &str, epoch: i64) -> (Token, Freshness) {
        let name = format!("shard-{}", self.number);
        let shard = Shard::new(&name);
        if self.random.once_in(10) {
            return (Token::unfenced(), Freshness::Unfenced);
        }
        if let Some(mark) = ledger.mark(&name, id)
            && self.random.once_in(8)
        {
            let stale = match self.random.below(3) {
                0 => mark.clone(),
                1 => shard.at(mark.epoch, mark.sequence - 1),
                _ => shard.at(mark.epoch - 1, i64::MAX),
            };
            return (stale, Freshness::Stale);
        }
        self.sequence += self.random.within(1, 3);
        (shard.at(epoch, self.sequence), Freshness::Newer)
    }

    fn binding(&mut self) -> Binding {
        let mut binding = Binding::to(format!("cluster-{:x}", self.random.next()));
        for _ in 0..self.random.below(6) {
            let (key, value) = (self.random.below(20), self.random.below(200));
            binding = binding.with(self.random.text(key), self.random.text(value));
        }
        if self.random.once_in(10) {
            let large = self.random.text(4096).repeat(8);
            binding = binding.with("large", large);
        }
        let blob = self.random.below(4096);
        binding.blob(self.random.bytes(blob))
    }
}

/// Whether the connection broke, so that nobody knows what was done. What the provider answers has no cause on this
/// side, and no answer for long is a fault of its own.
fn is_lost(status: &Status) -> bool {
    status.source().is_some() && !status.message().contains("Timeout expired")
}
