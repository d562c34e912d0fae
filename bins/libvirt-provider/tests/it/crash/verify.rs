//! What must be true after a restart.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
    time::Duration,
};

use bigfleet_proto::{ListFilter, Machine, MachineState as S};
use bytes::Bytes;
use tonic::Code;

use super::{
    ledger::Ledger,
    machine::{Book, Candidate},
};
use crate::{
    fields::assert_sound,
    harness::{Binding, Client, Step, Token, by_id, eventually, since},
};

/// How long a machine may take to come to rest after a restart.
const SETTLE: Duration = Duration::from_secs(20);

type Fleet = BTreeMap<String, Machine>;

/// What a client that follows by deltas remembers.
#[derive(Debug)]
pub(super) struct Anchor {
    pub(super) fleet: Fleet,
    cursor: Bytes,
    /// The moment after it was taken.
    tick: u64,
}

impl Anchor {
    pub(super) async fn take(client: &Client, ledger: &Mutex<Ledger>) -> Self {
        let list = client.list(ListFilter::default()).await;
        Self {
            fleet: by_id(list.machines),
            cursor: list.revision,
            tick: ledger.lock().unwrap().tick(),
        }
    }
}

/// Looks at everything, and leaves a ledger of machines at rest.
pub(super) async fn all(client: &Client, ledger: &Mutex<Ledger>, anchors: &[Anchor]) {
    let woken = client.fleet().await;
    if !woken.keys().eq(ledger.lock().unwrap().books.keys()) {
        let what = format!("the ids are now {:?}", woken.keys());
        return ledger.lock().unwrap().violation("fleet", what);
    }
    acknowledged(&woken, &mut ledger.lock().unwrap());
    let rested = rested(client).await;
    acknowledged(&rested, &mut ledger.lock().unwrap());
    for anchor in anchors {
        deltas(client, &rested, ledger, anchor).await;
    }
    marks(client, ledger).await;
    let replays = replays(client, &rested, ledger).await;
    assert_eq!(
        client.fleet().await,
        rested,
        "replays and stale calls changed something"
    );
    let mut ledger = ledger.lock().unwrap();
    for (id, replays) in replays {
        ledger.books.get_mut(&id).unwrap().settle(&rested[&id], replays);
    }
    let driven_on = woken.values().filter(|machine| is_transitional(machine)).count();
    ledger.counts.resumed += driven_on as u64;
    ledger.counts.mid_transition += u64::from(driven_on > 0);
}

fn is_transitional(machine: &Machine) -> bool {
    [S::Creating, S::Configuring, S::Draining, S::Deleting].contains(&machine.state())
}

/// The fleet, once nothing moves any more.
async fn rested(client: &Client) -> Fleet {
    let mut fleet = Fleet::new();
    eventually("every machine at rest", SETTLE, async || {
        fleet = client.fleet().await;
        !fleet.values().any(is_transitional)
    })
    .await;
    fleet
}

/// The candidates that the record bears out.
fn fitting(book: &Book, machine: &Machine) -> Vec<Candidate> {
    book.candidates()
        .into_iter()
        .filter(|candidate| candidate.fits(machine))
        .collect()
}

/// Every machine is in a state that its last acknowledged transition leads to, with its binding to the byte.
fn acknowledged(fleet: &Fleet, ledger: &mut Ledger) {
    for (id, machine) in fleet {
        assert_sound(machine);
        let book = &ledger.books[id];
        if fitting(book, machine).is_empty() {
            let what = format!("{machine:?} after {:?}", book.candidates());
            ledger.violation(id, what);
        }
        ledger.counts.bindings += u64::from(!machine.cluster.is_empty());
    }
}

/// A delta from before the kill has everything that changed since.
async fn deltas(client: &Client, truth: &Fleet, ledger: &Mutex<Ledger>, anchor: &Anchor) {
    let delta = by_id(client.list(since(anchor.cursor.clone())).await.machines);
    let mut ledger = ledger.lock().unwrap();
    for (id, machine) in truth {
        let changed = anchor.fleet.get(id) != Some(machine) || ledger.books[id].changed_after(anchor.tick);
        match delta.get(id) {
            None if changed => ledger.violation(id, "it changed, and the delta does not have it"),
            Some(record) if record != machine => {
                ledger.violation(id, format!("the delta has {record:?}, the list {machine:?}"));
            }
            _ => {}
        }
    }
    let strangers: BTreeSet<_> = delta.keys().filter(|id| !truth.contains_key(*id)).collect();
    if !strangers.is_empty() {
        ledger.violation("delta", format!("nobody knows {strangers:?}"));
    }
}

/// A token that is not newer than one that passed is fenced.
async fn marks(client: &Client, ledger: &Mutex<Ledger>) {
    let marks = ledger.lock().unwrap().marks();
    for (id, token) in marks {
        let answer = client.create(&id, &token).await;
        let mut ledger = ledger.lock().unwrap();
        ledger.counts.marks += 1;
        match answer {
            Err(status) if status.code() == Code::FailedPrecondition => {}
            other => ledger.violation(&id, format!("the mark {token:?} is gone: {other:?}")),
        }
    }
}

/// Every transition that ends where the machine rests answers with the operation id it had.
async fn replays(client: &Client, rested: &Fleet, ledger: &Mutex<Ledger>) -> BTreeMap<String, BTreeMap<Step, String>> {
    let mut all = BTreeMap::new();
    for (id, machine) in rested {
        let book = ledger.lock().unwrap().books[id].clone();
        let fitting = fitting(&book, machine);
        let mut replays = BTreeMap::new();
        for step in Step::ALL.into_iter().filter(|step| step.target() == machine.state()) {
            let by_lost = fitting.iter().any(|it| it.step == Some(step) && it.operation.is_none());
            let expected = book.operation(step);
            if expected.is_none() && !by_lost {
                continue;
            }
            let answer = step.call(client, id, &Binding::to("another"), &Token::unfenced()).await;
            let mut ledger = ledger.lock().unwrap();
            ledger.counts.replays += 1;
            let Ok(ack) = answer else {
                // Where callers raced, the lost call may have been out of place.
                if book.exclusive || expected.is_some() {
                    ledger.violation(id, format!("a replay of {step:?} was refused: {answer:?}"));
                }
                continue;
            };
            let known = ledger.heard(&ack.operation_id, id, step);
            // What one caller did alone is known exactly; where callers raced, an id may be one that none of them
            // heard.
            let right = match (book.exclusive, by_lost) {
                (true, true) => !known,
                (true, false) => Some(&ack.operation_id) == expected,
                (false, _) => true,
            };
            if !right {
                let what = format!("a replay of {step:?} has {}, it was {expected:?}", ack.operation_id);
                ledger.violation(id, what);
            }
            if ack.machine.as_ref() != Some(machine) {
                ledger.violation(id, format!("a replay of {step:?} shows {:?}", ack.machine));
            }
            replays.insert(step, ack.operation_id);
        }
        all.insert(id.clone(), replays);
    }
    all
}
