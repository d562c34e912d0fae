//! List (contract §9): the whole set, what changed, or a page of either.

use bytes::Bytes;

use crate::{
    engine::{listing::States, view::View},
    revision::{Cursor, Rest, Walk},
};

/// What a List asks for.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    /// Machines in these states.
    pub(crate) states: States,
    /// Never more than this many.
    pub(crate) cap: Option<usize>,
    /// A cursor of an earlier answer.
    pub(crate) cursor: Bytes,
}

impl Query {
    /// The query of a request: no states mean all, a cap of 0 or less none.
    #[must_use]
    pub(crate) fn new(states: &[i32], max_results: i32, cursor: Bytes) -> Self {
        let cap = usize::try_from(max_results).ok().filter(|cap| *cap > 0);
        Self {
            states: States::of(states),
            cap,
            cursor,
        }
    }

    /// Whether its answer may begin anywhere (trap 1).
    pub(crate) fn rotates(&self) -> bool {
        self.cap.is_some() && self.states != States::ALL
    }
}

/// What a List answers.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The machines, as runs of list form.
    pub(crate) machines: Vec<Bytes>,
    /// The cursor to go on with.
    pub(crate) cursor: Bytes,
}

/// Answers from what is published. `rotation` is where the next capped, filtered query without a cursor begins.
pub(crate) fn list(view: &View, query: &Query, rotation: u64) -> (Page, Option<u64>) {
    let cursor = view.history.decode(&query.cursor, view.head);
    let (machines, next, rotation) = match (cursor, query.cap) {
        (None, None) => (view.listing.runs(query.states), Cursor::Since(view.head), None),
        (None, Some(cap)) => {
            // Trap 1: two callers that each want one machine should get two.
            let start = if query.rotates() { rotation } else { 0 };
            let (machines, next) = walk(
                view,
                query.states,
                cap,
                Walk {
                    start,
                    next: start,
                    head: view.head,
                },
            );
            let position = match next {
                Cursor::Walk(walk) => walk.next,
                Cursor::Since(_) | Cursor::Rest(_) => 0,
            };
            (machines, next, query.rotates().then_some(position))
        }
        (Some(Cursor::Since(from)), cap) => {
            let (machines, next) = delta(view, query.states, cap, Rest { from, told: from });
            (machines, next, None)
        }
        (Some(Cursor::Rest(rest)), cap) => {
            let (machines, next) = delta(view, query.states, cap, rest);
            (machines, next, None)
        }
        (Some(Cursor::Walk(position)), cap) => {
            let (machines, next) = walk(view, query.states, cap.unwrap_or(usize::MAX), position);
            (machines, next, None)
        }
    };
    (
        Page {
            machines,
            cursor: view.history.encode(next),
        },
        rotation,
    )
}

/// What changed after a revision, the longest unchanged first. A page ends where it says; a machine that changes
/// meanwhile moves to the end, so threading the cursor loses nothing. A machine that is hidden now is there only if its
/// Delete ended after what the caller knew: it would wait for that end for ever.
fn delta(view: &View, states: States, cap: Option<usize>, rest: Rest) -> (Vec<Bytes>, Cursor) {
    let mut machines = Vec::new();
    for (revision, ordinal) in view.changes.range(rest.told.saturating_add(1)..) {
        let shown = view.listing.machine(*ordinal);
        let Some((state, encoded)) = shown.or_else(|| view.hidden_since(*ordinal, rest.from)) else {
            continue;
        };
        if !states.contains(state) {
            continue;
        }
        if cap.is_some_and(|cap| machines.len() >= cap) {
            let rest = Rest {
                told: revision - 1,
                ..rest
            };
            return (machines, Cursor::Rest(rest));
        }
        machines.push(encoded);
    }
    (machines, Cursor::Since(view.head))
}

/// A page of a walk in circles: from its next machine to the end, then from the beginning to where it started. The
/// walk then hands back the head at which it began, so that what changed meanwhile follows as a delta.
fn walk(view: &View, states: States, cap: usize, position: Walk) -> (Vec<Bytes>, Cursor) {
    let Walk { start, next, head } = position;
    let wrapped = next < start;
    let ahead = view
        .listing
        .from(next, states)
        .take_while(|(at, _)| !wrapped || *at < start);
    let behind = view
        .listing
        .from(0, states)
        .take_while(|(at, _)| !wrapped && *at < start);
    let mut machines = Vec::new();
    for (at, encoded) in ahead.chain(behind) {
        if machines.len() == cap {
            return (machines, Cursor::Walk(Walk { start, next: at, head }));
        }
        machines.push(encoded);
    }
    (machines, Cursor::Since(head))
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        num::NonZeroUsize,
        sync::Arc,
    };

    use bigfleet_proto::MachineList;
    use proptest::prelude::*;
    use prost::Message as _;
    use providerkit_backend::{CapacityType, MachineId, Profile, Slot, State};

    use super::*;
    use crate::{
        engine::{draft::Draft, record::Record},
        store::Snapshot,
    };

    fn fleet(machines: usize) -> View {
        let mut view = View::load(Snapshot::default(), NonZeroUsize::MIN);
        let _boot = view.history.begin(0);
        change(&mut view, |draft| {
            let profile = Arc::new(Profile::new("t", "z", CapacityType::OnDemand));
            for n in 0..machines {
                draft.add(Slot::new(format!("m-{n}"), Arc::clone(&profile)), 0);
            }
        });
        view
    }

    fn change(view: &mut View, edit: impl FnOnce(&mut Draft<'_>)) {
        let mut draft = Draft::new(view);
        edit(&mut draft);
        let (_, effects) = draft.finish();
        view.publish(effects);
    }

    fn set_state(view: &mut View, id: &str, state: State) {
        change(view, |draft| {
            let mut record = (**draft.machine(&MachineId::new(id).unwrap()).unwrap()).clone();
            record.machine.state = state;
            draft.put(record);
        });
    }

    fn snapshot(view: &View) -> Snapshot {
        let mut records: Vec<_> = view.machines.values().map(|record| Record::clone(record)).collect();
        records.sort_by_key(|record| record.ordinal);
        Snapshot {
            records,
            head: view.head,
            next_ordinal: view.next_ordinal,
            ..Snapshot::default()
        }
    }

    fn ids(page: &Page) -> Vec<String> {
        let list = MachineList::decode(page.machines.concat().as_slice()).unwrap();
        list.machines.into_iter().map(|machine| machine.id).collect()
    }

    fn page(view: &View, states: &[i32], cap: i32, cursor: &Bytes) -> (Vec<String>, Bytes) {
        let (page, _) = list(view, &Query::new(states, cap, cursor.clone()), 0);
        (ids(&page), page.cursor)
    }

    #[test]
    fn a_delta_is_what_changed_and_nothing_else() {
        let mut view = fleet(5);
        let (all, cursor) = page(&view, &[], 0, &Bytes::new());
        assert_eq!(all.len(), 5);
        assert!(page(&view, &[], 0, &cursor).0.is_empty());
        set_state(&mut view, "m-3", State::Idle);
        set_state(&mut view, "m-1", State::Idle);
        assert_eq!(page(&view, &[], 0, &cursor).0, ["m-3", "m-1"]);
        assert_eq!(
            page(&view, &[State::Speculative as i32], 0, &cursor).0,
            Vec::<String>::new()
        );
        let (first, next) = page(&view, &[], 1, &cursor);
        let (second, end) = page(&view, &[], 1, &next);
        assert_eq!((first, second), (vec!["m-3".to_owned()], vec!["m-1".to_owned()]));
        assert_eq!(page(&view, &[], 1, &end), (vec![], end.clone()));
    }

    #[test]
    fn capped_filtered_lists_take_turns() {
        let view = fleet(3);
        let query = Query::new(&[State::Speculative as i32], 1, Bytes::new());
        let mut rotation = 0;
        let mut seen = Vec::new();
        for _ in 0..4 {
            let (page, next) = list(&view, &query, rotation);
            rotation = next.unwrap();
            seen.extend(ids(&page));
        }
        assert_eq!(seen, ["m-0", "m-1", "m-2", "m-0"]);
    }

    #[test]
    fn a_walk_may_begin_anywhere_even_beyond_the_end() {
        let view = fleet(4);
        for start in [0, 2, 3, 4, 99] {
            let query = Query::new(&[State::Speculative as i32], 3, Bytes::new());
            let (first, _) = list(&view, &query, start);
            let (second, end) = page(&view, &[State::Speculative as i32], 3, &first.cursor);
            let all: BTreeSet<_> = ids(&first).into_iter().chain(second.clone()).collect();
            assert_eq!((all.len(), second.len()), (4, 1), "from {start}");
            assert!(page(&view, &[], 3, &end).0.is_empty());
        }
    }

    /// What happens to a machine that the backend may withhold.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        /// The next state of its cycle.
        Moves,
        Withheld,
        Offered,
        Repriced,
    }

    const CYCLE: [State; 4] = [State::Speculative, State::Creating, State::Idle, State::Deleting];

    /// Does what the engine would; says whether a Delete ended.
    fn happen(view: &mut View, id: &str, event: Event) -> bool {
        let old = Arc::clone(&view.machines[id]);
        let mut record = Record::clone(&old);
        let at = CYCLE.iter().position(|state| *state == old.machine.state).unwrap();
        match event {
            Event::Moves if old.is_hidden() => return false,
            Event::Moves => {
                record.machine.state = CYCLE[(at + 1) % CYCLE.len()];
                if record.machine.state == State::Speculative {
                    record.withheld = None;
                }
            }
            Event::Withheld => record.withheld = Some("no room".into()),
            Event::Offered => record.withheld = None,
            Event::Repriced => {
                let mut profile = Profile::clone(&record.machine.profile);
                profile.price_per_hour += 1.0;
                record.machine.profile = Arc::new(profile);
            }
        }
        let ended = old.machine.state == State::Deleting && record.machine.state == State::Speculative;
        change(view, |draft| {
            record.shape = draft.shape(&record.machine.profile);
            draft.put(record);
        });
        ended
    }

    #[derive(Debug, Default)]
    struct Caller {
        cursor: Bytes,
        knows: BTreeMap<String, State>,
    }

    impl Caller {
        /// One page; fails if that shows a hidden machine for any other reason than that its Delete has ended.
        fn poll(&mut self, view: &View, cap: i32, ended: &BTreeMap<String, u64>) -> Result<usize, TestCaseError> {
            let (page, _) = list(view, &Query::new(&[], cap, self.cursor.clone()), 0);
            let shown = MachineList::decode(page.machines.concat().as_slice()).unwrap().machines;
            let position = match view.history.decode(&self.cursor, view.head) {
                Some(Cursor::Since(from) | Cursor::Rest(Rest { from, .. })) => from,
                _ => u64::MAX,
            };
            for machine in &shown {
                let hidden = view.machines[machine.id.as_str()].is_hidden();
                let news = ended.get(&machine.id).is_some_and(|at| *at > position);
                prop_assert!(!hidden || news, "{} is shown", machine.id);
                self.knows
                    .insert(machine.id.clone(), State::from_number(machine.state).unwrap());
            }
            self.cursor = page.cursor;
            Ok(shown.len())
        }
    }

    proptest! {
        #[test]
        fn callers_hear_of_every_change_and_of_nothing_that_is_withheld(
            machines in 1..40_usize,
            events in prop::collection::vec((0..40_usize, 0..6_u8, prop::option::of((0..3_usize, 0..6_i32))), 0..250),
        ) {
            let mut view = fleet(machines);
            let mut callers: [Caller; 3] = Default::default();
            let mut ended = BTreeMap::new();
            for (machine, event, poll) in events {
                let id = format!("m-{}", machine % machines);
                let event = [Event::Moves, Event::Moves, Event::Moves, Event::Withheld, Event::Offered, Event::Repriced]
                    [usize::from(event)];
                if happen(&mut view, &id, event) {
                    ended.insert(id, view.head);
                }
                if let Some((caller, cap)) = poll {
                    callers[caller].poll(&view, cap, &ended)?;
                }
            }
            let hidden = view.machines.values().filter(|record| record.is_hidden()).count();
            prop_assert_eq!(view.withheld.values().sum::<usize>(), hidden);
            let shown: BTreeSet<_> = page(&view, &[], 0, &Bytes::new()).0.into_iter().collect();
            prop_assert_eq!(shown.len(), machines - hidden);
            for caller in &mut callers {
                // A page may be empty before the end only where a walk turns into a delta.
                let mut empty = 0;
                while empty < 2 {
                    empty = if caller.poll(&view, 7, &ended)? == 0 { empty + 1 } else { 0 };
                }
                for (id, record) in &view.machines {
                    let known = caller.knows.get(id.as_str()).copied();
                    if record.is_hidden() {
                        prop_assert!(matches!(known, None | Some(State::Speculative)), "{id} is {known:?}");
                    } else {
                        prop_assert_eq!(known, Some(record.machine.state), "{}", id);
                    }
                }
            }
            let at_load = View::load(snapshot(&view), NonZeroUsize::MIN);
            let all = |view: &View| list(view, &Query::new(&[], 0, Bytes::new()), 0).0.machines.concat();
            prop_assert_eq!(all(&at_load), all(&view));
            prop_assert_eq!((&at_load.changes, &at_load.withheld.values().sum::<usize>()), (&view.changes, &hidden));
        }

        #[test]
        fn a_walk_meets_every_machine_once_while_they_change(
            machines in 1..60_usize,
            cap in 1..20_i32,
            changes in prop::collection::vec((0..60_usize, 1..9_i32), 0..60),
        ) {
            let mut view = fleet(machines);
            let mut changes = changes.into_iter();
            let (mut seen, mut cursor, mut changed) = (Vec::new(), Bytes::new(), BTreeSet::new());
            let pages = machines.div_ceil(usize::try_from(cap).unwrap());
            for _ in 0..pages {
                let (ids, next) = page(&view, &[], cap, &cursor);
                seen.extend(ids);
                cursor = next;
                for (machine, state) in changes.by_ref().take(3) {
                    let id = format!("m-{}", machine % machines);
                    let before = view.head;
                    set_state(&mut view, &id, State::from_number(state).unwrap());
                    if view.head > before {
                        changed.insert(id);
                    }
                }
            }
            prop_assert_eq!(seen.len(), machines);
            prop_assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), machines);
            let (rest, _) = page(&view, &[], 0, &cursor);
            prop_assert_eq!(rest.into_iter().collect::<BTreeSet<_>>(), changed);
        }
    }
}
