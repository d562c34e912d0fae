//! List: a cursor is a place in the order of changes.
//!
//! No two machines have the same `changed`, so that it names a place. A capped list without cursor but with states
//! begins anywhere (trap 1), and its walk wraps around: the cursor then also says where it began and where the head was.

use std::time::Duration;

use bigfleet_proto::{ListFilter, Machine, MachineList, MachineState as S};
use bytes::Bytes;
use tonic::Status;

use super::{Rules, world::World};

/// A place, and the rest of a walk that goes around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cursor {
    after: u64,
    /// Where the walk began and where the head was then; none for a plain delta.
    around: Option<(u64, u64)>,
    /// Already past the end.
    wrapped: bool,
}

impl Cursor {
    fn write(self, incarnation: u64) -> Bytes {
        let (start, head) = self.around.unwrap_or((u64::MAX, u64::MAX));
        let numbers = [incarnation, self.after, start, head, u64::from(self.wrapped)];
        numbers.into_iter().flat_map(u64::to_be_bytes).collect()
    }

    fn read(bytes: &[u8], world: &World, rules: &Rules) -> Option<Self> {
        let bytes = match bytes.get(..40) {
            Some(start) if rules.breaks("cursor-lenient") => start,
            _ => bytes,
        };
        let (numbers, rest) = bytes.as_chunks::<8>();
        let [incarnation, after, start, head, wrapped] = numbers else {
            return None;
        };
        let number = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes);
        let mut known = rest.is_empty() && number(incarnation) == world.incarnation && number(wrapped) < 2;
        if !rules.breaks("cursor-without-incarnation") && !rules.breaks("cursor-restarts") {
            known &= number(after) <= world.revision;
        }
        known.then(|| Self {
            after: number(after),
            around: (number(start) != u64::MAX).then(|| (number(start), number(head))),
            wrapped: number(wrapped) == 1,
        })
    }
}

/// Answers a List.
pub(super) fn list(world: &World, filter: &ListFilter, turn: u64, rules: &Rules) -> Result<MachineList, Status> {
    if rules.breaks("list-unknown-state-error") && filter.states.iter().any(|state| S::try_from(*state).is_err()) {
        return Err(Status::invalid_argument("unknown state"));
    }
    let given = Cursor::read(&filter.since_revision, world, rules);
    if given.is_none() && !filter.since_revision.is_empty() {
        if rules.breaks("cursor-error") {
            return Err(Status::invalid_argument("unknown cursor"));
        }
        if rules.breaks("cursor-empty") {
            return Ok(MachineList::default());
        }
    }
    let cap = match usize::try_from(filter.max_results) {
        Ok(0) => None,
        Ok(cap) => Some(cap),
        Err(_) => rules.breaks("list-negative-cap").then_some(0),
    };
    let cap = cap.filter(|_| !rules.breaks("list-ignores-cap"));
    let rotates = cap.is_some() && given.is_none() && !filter.states.is_empty() && !rules.breaks("list-fixed-order");
    let mut cursor = given.unwrap_or_default();
    if rotates {
        let start = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % world.revision.max(1);
        cursor = Cursor {
            after: start,
            around: Some((start, world.revision)),
            wrapped: false,
        };
    }
    if rules.breaks("delta-last-only") && cursor.after > 0 && cursor.around.is_none() {
        cursor.after = cursor.after.max(world.revision.saturating_sub(1));
    }
    if rules.breaks("delta-inclusive") && cursor.around.is_none() {
        cursor.after = cursor.after.saturating_sub(1);
    }
    let (machines, next) = walk(world, filter, cursor, cap, given.is_some(), rules);
    let machines = spoil(machines, world, rules);
    let mut revision = next.write(world.incarnation);
    if rules.breaks("revision-stuck") {
        revision = Cursor::default().write(world.incarnation);
    }
    Ok(MachineList { machines, revision })
}

fn walk(
    world: &World,
    filter: &ListFilter,
    cursor: Cursor,
    cap: Option<usize>,
    is_delta: bool,
    rules: &Rules,
) -> (Vec<Machine>, Cursor) {
    let head = Cursor {
        after: cursor.around.map_or(world.revision, |(_, head)| head),
        around: None,
        wrapped: false,
    };
    let mut left: Vec<(bool, u64, &Machine)> = world
        .machines
        .values()
        .filter(|record| shown(&record.machine, filter, is_delta, rules))
        .filter_map(|record| {
            let changed = record.changed;
            let second = cursor.around.is_some_and(|(start, _)| changed <= start);
            let ahead = if cursor.wrapped {
                second && changed > cursor.after
            } else {
                second || changed > cursor.after
            };
            ahead.then_some((second, changed, &record.machine))
        })
        .collect();
    left.sort_unstable_by_key(|(second, changed, _)| (*second, *changed));
    let total = left.len();
    let Some(cap) = cap.filter(|cap| *cap < total) else {
        let all = left.into_iter().map(|(_, _, machine)| machine.clone()).collect();
        return (all, head);
    };
    left.truncate(cap);
    let mut next = cursor;
    if let Some((second, changed, _)) = left.last() {
        next = Cursor {
            after: *changed,
            wrapped: *second,
            around: cursor.around,
        };
    }
    let overlaps = rules.breaks("page-overlaps") || rules.breaks("scale-page-overlaps");
    if overlaps && cap > 1 {
        next.after -= 1;
    }
    if rules.breaks("page-skips") && cap > 1 {
        left.pop();
    }
    let page = left.into_iter().map(|(_, _, machine)| machine.clone()).collect();
    (page, next)
}

fn shown(machine: &Machine, filter: &ListFilter, is_delta: bool, rules: &Rules) -> bool {
    let hidden = match machine.state() {
        S::Draining => rules.breaks("hidden-while-draining"),
        S::Failed => rules.breaks("failed-not-listed"),
        S::Idle => is_delta && rules.breaks("delta-without-idle"),
        _ => false,
    };
    let any = filter.states.is_empty()
        || rules.breaks("list-ignores-filter")
        || is_delta && rules.breaks("delta-ignores-filter");
    !hidden && (any || filter.states.contains(&machine.state))
}

fn spoil(mut machines: Vec<Machine>, world: &World, rules: &Rules) -> Vec<Machine> {
    if rules.breaks("list-twice") {
        let twice: Vec<_> = machines
            .iter()
            .filter(|machine| machine.state() == S::Idle)
            .cloned()
            .collect();
        machines.extend(twice);
    }
    if rules.breaks("list-short-when-large") && world.machines.len() > 1000 {
        let mut number = 0;
        machines.retain(|_| {
            number += 1;
            number % 100 != 0
        });
    }
    for machine in &mut machines {
        super::engine::spoil(machine, rules);
    }
    machines
}

/// How long the answer takes.
pub(super) fn pause(world: &World, rules: &Rules) -> Option<Duration> {
    (rules.breaks("slow-list") && world.machines.len() > 1000).then_some(Duration::from_millis(3200))
}
