//! The inventory as List answers it: encoded, in the order machines were added, cut into leaves.
//!
//! A leaf is the concatenation of its machines in list form. A full List hands out all leaves without copying; one
//! change rewrites one small leaf; and what was handed out stays as it was, since leaves are replaced, not changed.

use std::collections::BTreeMap;

use bytes::Bytes;
use providerkit_backend::State;

/// Machines in a leaf, at most.
const LEAF_MACHINES: usize = 16;
/// Bytes in a leaf of more than one machine, at most; keeps a change cheap where machines carry megabytes of metadata.
const LEAF_BYTES: usize = 64 * 1024;

/// The states a List asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct States(u16);

impl States {
    /// Every state.
    pub(crate) const ALL: Self = Self(u16::MAX);

    /// These numbers of the wire; unknown ones match nothing, none at all means every state.
    #[must_use]
    pub(crate) fn of(numbers: &[i32]) -> Self {
        if numbers.is_empty() {
            return Self::ALL;
        }
        Self(
            numbers
                .iter()
                .filter_map(|number| State::from_number(*number))
                .fold(0, |all, state| all | bit(state)),
        )
    }

    /// Whether this state is asked for.
    #[must_use]
    pub(crate) fn contains(self, state: State) -> bool {
        self.0 & bit(state) != 0
    }

    /// Whether every machine of a leaf with these states is wanted.
    const fn contains_all(self, states: u16) -> bool {
        states & !self.0 == 0
    }

    const fn contains_any(self, states: u16) -> bool {
        states & self.0 != 0
    }
}

const fn bit(state: State) -> u16 {
    1 << state as u16
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    ordinal: u64,
    state: State,
    end: usize,
}

#[derive(Clone, Debug, Default)]
struct Leaf {
    entries: Vec<Entry>,
    bytes: Bytes,
    /// The union of the machines' states.
    states: u16,
}

impl Leaf {
    fn from_machines(machines: &[(u64, State, Bytes)]) -> Self {
        let mut bytes = Vec::with_capacity(machines.iter().map(|(_, _, encoded)| encoded.len()).sum());
        let mut entries = Vec::with_capacity(machines.len());
        for (ordinal, state, encoded) in machines {
            bytes.extend_from_slice(encoded);
            entries.push(Entry {
                ordinal: *ordinal,
                state: *state,
                end: bytes.len(),
            });
        }
        Self::new(entries, bytes)
    }

    fn new(entries: Vec<Entry>, bytes: Vec<u8>) -> Self {
        let states = entries.iter().fold(0, |all, entry| all | bit(entry.state));
        Self {
            entries,
            bytes: bytes.into(),
            states,
        }
    }

    const fn is_too_big(&self) -> bool {
        self.entries.len() > LEAF_MACHINES || (self.bytes.len() > LEAF_BYTES && self.entries.len() > 1)
    }

    /// The leaf with one machine put in, or taken out.
    fn edited(self, ordinal: u64, machine: Option<(State, &[u8])>) -> Self {
        let place = self.entries.binary_search_by_key(&ordinal, |entry| entry.ordinal);
        let (Ok(at) | Err(at)) = place;
        let start = at
            .checked_sub(1)
            .and_then(|before| self.entries.get(before))
            .map_or(0, |before| before.end);
        let old_end = self
            .entries
            .get(at)
            .filter(|_| place.is_ok())
            .map_or(start, |entry| entry.end);
        let encoded = machine.map_or(&[][..], |(_, encoded)| encoded);
        let new_end = start + encoded.len();
        let (before, after) = (self.bytes.get(..start), self.bytes.get(old_end..));
        let bytes = [before.unwrap_or_default(), encoded, after.unwrap_or_default()].concat();
        let mut entries = self.entries;
        for entry in entries.iter_mut().skip(at) {
            entry.end = entry.end + new_end - old_end;
        }
        let entry = machine.map(|(state, _)| Entry {
            ordinal,
            state,
            end: new_end,
        });
        entries.splice(at..at + usize::from(place.is_ok()), entry);
        Self::new(entries, bytes)
    }

    /// All machines with their bytes.
    fn machines(&self) -> impl Iterator<Item = (u64, State, Bytes)> {
        let starts = std::iter::once(0).chain(self.entries.iter().map(|entry| entry.end));
        starts
            .zip(&self.entries)
            .map(|(start, entry)| (entry.ordinal, entry.state, self.bytes.slice(start..entry.end)))
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// By the ordinal of the first machine it had when it was cut.
    leaves: BTreeMap<u64, Leaf>,
}

impl Listing {
    /// The machine with this ordinal, in list form.
    #[must_use]
    pub(crate) fn machine(&self, ordinal: u64) -> Option<(State, Bytes)> {
        let (_, leaf) = self.leaves.range(..=ordinal).next_back()?;
        let at = leaf
            .entries
            .binary_search_by_key(&ordinal, |entry| entry.ordinal)
            .ok()?;
        let entry = leaf.entries.get(at)?;
        let start = at
            .checked_sub(1)
            .and_then(|before| leaf.entries.get(before))
            .map_or(0, |before| before.end);
        Some((entry.state, leaf.bytes.slice(start..entry.end)))
    }

    /// Puts a machine in, in place of the one with its ordinal.
    pub(crate) fn put(&mut self, ordinal: u64, state: State, encoded: &[u8]) {
        self.edit(ordinal, Some((state, encoded)));
    }

    /// Takes a machine out.
    pub(crate) fn remove(&mut self, ordinal: u64) {
        self.edit(ordinal, None);
    }

    /// Fills an empty listing at once, in ascending order.
    pub(crate) fn fill(&mut self, machines: impl Iterator<Item = (u64, State, Bytes)>) {
        let mut leaf = Vec::with_capacity(LEAF_MACHINES);
        for machine in machines {
            leaf.push(machine);
            if leaf.len() == LEAF_MACHINES {
                self.insert(std::mem::replace(&mut leaf, Vec::with_capacity(LEAF_MACHINES)));
            }
        }
        self.insert(leaf);
    }

    /// The whole inventory, or the machines in these states, as runs of list form.
    #[must_use]
    pub(crate) fn runs(&self, states: States) -> Vec<Bytes> {
        let mut runs = Vec::with_capacity(self.leaves.len());
        for leaf in self.leaves.values() {
            if states.contains_all(leaf.states) {
                runs.push(leaf.bytes.clone());
            } else if states.contains_any(leaf.states) {
                let wanted = leaf.machines().filter(|(_, state, _)| states.contains(*state));
                runs.extend(wanted.map(|(_, _, encoded)| encoded));
            }
        }
        runs
    }

    /// The machines in these states from this ordinal on, in order.
    pub(crate) fn from(&self, ordinal: u64, states: States) -> impl Iterator<Item = (u64, Bytes)> {
        let first = self
            .leaves
            .range(..=ordinal)
            .next_back()
            .map_or(ordinal, |(key, _)| *key);
        self.leaves
            .range(first..)
            .filter(move |(_, leaf)| states.contains_any(leaf.states))
            .flat_map(|(_, leaf)| leaf.machines())
            .filter(move |(at, state, _)| *at >= ordinal && states.contains(*state))
            .map(|(at, _, encoded)| (at, encoded))
    }

    fn edit(&mut self, ordinal: u64, machine: Option<(State, &[u8])>) {
        // Before the first leaf, that one: else machines put in backwards would each get a leaf of their own.
        let leaf = self.leaves.range(..=ordinal).next_back();
        let key = leaf
            .or_else(|| self.leaves.first_key_value())
            .map_or(ordinal, |(key, _)| *key);
        let edited = self.leaves.remove(&key).unwrap_or_default().edited(ordinal, machine);
        if edited.is_too_big() {
            self.insert(edited.machines().collect());
        } else if let Some(first) = edited.entries.first() {
            self.leaves.insert(first.ordinal, edited);
        }
    }

    /// Adds machines that no leaf holds, cutting them where they are too many or too big for one.
    fn insert(&mut self, mut machines: Vec<(u64, State, Bytes)>) {
        let leaf = Leaf::from_machines(&machines);
        if leaf.is_too_big() {
            let rest = machines.split_off(machines.len() / 2);
            self.insert(machines);
            self.insert(rest);
        } else if let Some(first) = leaf.entries.first() {
            self.leaves.insert(first.ordinal, leaf);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Model = BTreeMap<u64, (State, Bytes)>;

    fn assert_same(listing: &Listing, model: &Model) {
        for states in [States::ALL, States::of(&[3]), States::of(&[1, 8]), States::of(&[99])] {
            let wanted: Vec<_> = model.iter().filter(|(_, (state, _))| states.contains(*state)).collect();
            let bytes: Vec<u8> = wanted.iter().flat_map(|(_, (_, encoded))| encoded.to_vec()).collect();
            assert_eq!(listing.runs(states).concat(), bytes);
            for from in [0, 5, 40] {
                let found: Vec<_> = listing.from(from, states).collect();
                let expected: Vec<_> = wanted
                    .iter()
                    .filter(|(at, _)| **at >= from)
                    .map(|(at, (_, encoded))| (**at, encoded.clone()))
                    .collect();
                assert_eq!(found, expected);
            }
        }
        for (ordinal, machine) in model {
            assert_eq!(listing.machine(*ordinal).as_ref(), Some(machine));
        }
    }

    #[test]
    fn no_states_mean_all_and_unknown_ones_none() {
        assert_eq!(States::of(&[]), States::ALL);
        assert!(
            !State::ALL
                .into_iter()
                .any(|state| States::of(&[0, 9, -3]).contains(state))
        );
    }

    #[test]
    fn what_was_handed_out_stays_as_it_was() {
        let mut listing = Listing::default();
        listing.put(1, State::Idle, b"old");
        let before = listing.runs(States::ALL);
        listing.put(1, State::Failed, b"new");
        assert_eq!(before.concat(), b"old");
        assert_eq!(listing.runs(States::ALL).concat(), b"new");
    }

    #[test]
    fn machines_put_in_backwards_share_leaves() {
        let mut listing = Listing::default();
        for ordinal in (0..160).rev() {
            listing.put(ordinal, State::Idle, b"x");
        }
        assert!(listing.leaves.len() <= 20, "{}", listing.leaves.len());
    }

    #[test]
    fn heavy_machines_get_leaves_of_their_own() {
        let mut listing = Listing::default();
        for ordinal in 0..8 {
            listing.put(ordinal, State::Idle, &[0; LEAF_BYTES]);
        }
        assert_eq!(listing.leaves.len(), 8);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn a_listing_is_a_sorted_map(edits in prop::collection::vec((0..120_u64, 0..9_i32, 0..3_usize), 0..300)) {
            let (mut listing, mut model) = (Listing::default(), Model::new());
            for (ordinal, state, size) in edits {
                if let Some(state) = State::from_number(state) {
                    let encoded = Bytes::from(format!("<{ordinal}{}>", "x".repeat(size * 30_000)));
                    listing.put(ordinal, state, &encoded);
                    model.insert(ordinal, (state, encoded));
                } else {
                    listing.remove(ordinal);
                    model.remove(&ordinal);
                }
            }
            assert_same(&listing, &model);
        }

        #[test]
        fn filling_equals_putting_one_by_one(count in 0..200_u64) {
            let machines = |n: u64| (n * 2, State::Idle, Bytes::from(n.to_string()));
            let (mut filled, mut put) = (Listing::default(), Listing::default());
            filled.fill((0..count).map(machines));
            for (ordinal, state, encoded) in (0..count).map(machines) {
                put.put(ordinal, state, &encoded);
            }
            prop_assert_eq!(filled.runs(States::ALL).concat(), put.runs(States::ALL).concat());
        }
    }
}
