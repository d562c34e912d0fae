//! Everything that was acknowledged, and whatever contradicts it.

use std::collections::BTreeMap;

use bigfleet_proto::TransitionAck;

use super::machine::{Book, Bound};
use crate::harness::{Step, Token};

/// What a fence mark belongs to: shard and machine.
pub(super) type MarkKey = (String, String);

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) rounds: u64,
    pub(super) starts_killed: u64,
    pub(super) terminated: u64,
    pub(super) acknowledged: u64,
    pub(super) refused: u64,
    pub(super) fenced: u64,
    pub(super) lost: u64,
    pub(super) mid_transition: u64,
    pub(super) resumed: u64,
    pub(super) replays: u64,
    pub(super) marks: u64,
    pub(super) bindings: u64,
}

/// The one model that all callers write to.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) books: BTreeMap<String, Book>,
    /// What each operation id was heard for.
    operations: BTreeMap<String, (String, Step)>,
    /// The greatest token that was answered with anything but fencing.
    marks: BTreeMap<MarkKey, Token>,
    clock: u64,
    /// The provider was asked to end: it may turn calls away.
    pub(super) ending: bool,
    pub(super) counts: Counts,
    pub(super) violations: Vec<String>,
}

impl Ledger {
    pub(super) fn new<'a>(ids: impl Iterator<Item = &'a String>, shared: &[String]) -> Self {
        Self {
            books: ids.map(|id| (id.clone(), Book::new(!shared.contains(id)))).collect(),
            operations: BTreeMap::new(),
            marks: BTreeMap::new(),
            clock: 0,
            ending: false,
            counts: Counts::default(),
            violations: Vec::new(),
        }
    }

    /// The next moment.
    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A call is about to be sent; answers the moment, which names it.
    pub(super) fn begin(&mut self, id: &str, step: Step, wanted: Bound) -> u64 {
        let begun = self.tick();
        if let Some(book) = self.books.get_mut(id) {
            book.begin(begun, step, wanted);
        }
        begun
    }

    pub(super) fn acked(&mut self, id: &str, step: Step, begun: u64, ack: TransitionAck) {
        self.counts.acknowledged += 1;
        let ended = self.tick();
        let known = self.heard(&ack.operation_id, id, step);
        let Some(book) = self.books.get_mut(id) else {
            self.violation(
                id,
                format!("{step:?} of a machine that does not exist was acknowledged"),
            );
            return;
        };
        if let Err(what) = book.acked(begun, ended, ack, known) {
            self.violation(id, what);
        }
    }

    pub(super) fn fenced(&mut self, id: &str, begun: u64) {
        if let Some(book) = self.books.get_mut(id) {
            book.fenced(begun);
        }
    }

    pub(super) fn refused(&mut self, id: &str, begun: u64) {
        let Some(book) = self.books.get_mut(id) else {
            return;
        };
        if let Err(what) = book.refused(begun) {
            self.violation(id, what);
        }
    }

    /// Notes what an operation id was heard for; answers whether it was heard before.
    pub(super) fn heard(&mut self, operation: &str, id: &str, step: Step) -> bool {
        let now = (id.to_owned(), step);
        match self.operations.insert(operation.to_owned(), now.clone()) {
            None => false,
            Some(before) => {
                if before != now {
                    self.violation(id, format!("{operation} is the id of {before:?} and of {now:?}"));
                }
                true
            }
        }
    }

    /// A token passed the fence.
    pub(super) fn passed(&mut self, id: &str, token: &Token) {
        if !token.shard.is_empty() {
            self.marks.insert((token.shard.clone(), id.to_owned()), token.clone());
        }
    }

    /// The mark, where there is one for sure.
    pub(super) fn mark(&self, shard: &str, id: &str) -> Option<&Token> {
        self.marks.get(&(shard.to_owned(), id.to_owned()))
    }

    /// All marks with their machines.
    pub(super) fn marks(&self) -> Vec<(String, Token)> {
        self.marks
            .iter()
            .map(|((_, id), token)| (id.clone(), token.clone()))
            .collect()
    }

    pub(super) fn violation(&mut self, id: &str, what: impl Into<String>) {
        self.violations
            .push(format!("round {}: `{id}`: {}", self.counts.rounds, what.into()));
    }

    pub(super) fn summary(&self) -> String {
        let c = &self.counts;
        format!(
            "{} machines, {} rounds, {} of them by SIGTERM, {} kills while starting, {} calls acknowledged, {} refused, {} fenced, {} lost, \
             {} kills in mid-transition ({} transitions driven on), {} operation ids seen, {} replays checked, \
             {} marks checked, {} bindings checked, {} violations",
            self.books.len(),
            c.rounds,
            c.terminated,
            c.starts_killed,
            c.acknowledged,
            c.refused,
            c.fenced,
            c.lost,
            c.mid_transition,
            c.resumed,
            self.operations.len(),
            c.replays,
            c.marks,
            c.bindings,
            self.violations.len()
        )
    }
}
