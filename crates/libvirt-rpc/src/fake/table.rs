//! Things with a name, found fast however many there are, and known by when they last changed.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::Hash,
};

/// What a table holds: it has a name, and something else that no other has.
pub(super) trait Entry {
    type Id: Clone + Hash + Eq;

    fn name(&self) -> &str;
    fn id(&self) -> Self::Id;
}

/// Entries in the order in which they came. Neither name nor id of one may change while it is in.
///
/// Whoever gets an entry to change is taken to have changed it: [`take_touched`](Self::take_touched).
#[derive(Debug)]
pub(super) struct Table<T: Entry> {
    entries: BTreeMap<u64, T>,
    names: HashMap<String, u64>,
    ids: HashMap<T::Id, u64>,
    next: u64,
    touched: HashSet<T::Id>,
    gone: Vec<T>,
}

impl<T: Entry> Default for Table<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            names: HashMap::new(),
            ids: HashMap::new(),
            next: 0,
            touched: HashSet::new(),
            gone: Vec::new(),
        }
    }
}

impl<T: Entry> Table<T> {
    pub(super) fn push(&mut self, entry: T) {
        self.touch(entry.id());
        self.put_back(self.next, entry);
    }

    /// Puts an entry where it was in another life; entries come in their order.
    pub(super) fn put_back(&mut self, at: u64, entry: T) {
        self.next = self.next.max(at + 1);
        self.names.insert(entry.name().to_owned(), at);
        self.ids.insert(entry.id(), at);
        self.entries.insert(at, entry);
    }

    /// The place of an entry in the order.
    pub(super) fn place(&self, id: &T::Id) -> Option<u64> {
        self.ids.get(id).copied()
    }

    pub(super) fn find(&self, id: &T::Id) -> Option<&T> {
        self.entries.get(self.ids.get(id)?)
    }

    pub(super) fn find_mut(&mut self, id: &T::Id) -> Option<&mut T> {
        self.touch(id.clone());
        self.peek_mut(id)
    }

    /// An entry to change something in that is not kept, or that says itself that it has changed.
    pub(super) fn peek_mut(&mut self, id: &T::Id) -> Option<&mut T> {
        self.entries.get_mut(self.ids.get(id)?)
    }

    pub(super) fn named(&self, name: &str) -> Option<&T> {
        self.entries.get(self.names.get(name)?)
    }

    pub(super) fn named_mut(&mut self, name: &str) -> Option<&mut T> {
        let entry = self.entries.get_mut(self.names.get(name)?)?;
        self.touched.insert(entry.id());
        Some(entry)
    }

    pub(super) fn remove(&mut self, id: &T::Id) -> Option<T> {
        let at = self.ids.remove(id)?;
        let entry = self.entries.remove(&at)?;
        self.names.remove(entry.name());
        self.touch(id.clone());
        Some(entry)
    }

    /// Removes an entry that consists of more than one record; says whether it was there.
    pub(super) fn forget(&mut self, id: &T::Id) -> bool {
        let gone = self.remove(id);
        let was_there = gone.is_some();
        self.gone.extend(gone);
        was_there
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        let gone: Vec<T::Id> = self.iter().filter(|entry| !keep(entry)).map(T::id).collect();
        for id in gone {
            self.forget(&id);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.touched.extend(self.ids.keys().cloned());
        self.entries.values_mut()
    }

    pub(super) fn touch(&mut self, id: T::Id) {
        self.touched.insert(id);
    }

    /// Those that came, changed or went since this was last asked.
    pub(super) fn take_touched(&mut self) -> HashSet<T::Id> {
        std::mem::take(&mut self.touched)
    }

    /// Those that were forgotten since this was last asked.
    pub(super) fn take_gone(&mut self) -> Vec<T> {
        std::mem::take(&mut self.gone)
    }
}
