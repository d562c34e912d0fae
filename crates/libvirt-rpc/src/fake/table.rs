//! Things with a name, found fast however many there are.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a table holds: it has a name, and something else that no other has.
pub(super) trait Entry {
    type Id: Hash + Eq;

    fn name(&self) -> &str;
    fn id(&self) -> Self::Id;
}

/// Entries in the order in which they came. Neither name nor id of one may change while it is in.
#[derive(Debug)]
pub(super) struct Table<T: Entry> {
    entries: BTreeMap<u64, T>,
    names: HashMap<String, u64>,
    ids: HashMap<T::Id, u64>,
    next: u64,
}

impl<T: Entry> Default for Table<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            names: HashMap::new(),
            ids: HashMap::new(),
            next: 0,
        }
    }
}

impl<T: Entry> Table<T> {
    pub(super) fn push(&mut self, entry: T) {
        let at = self.next;
        self.next += 1;
        self.names.insert(entry.name().to_owned(), at);
        self.ids.insert(entry.id(), at);
        self.entries.insert(at, entry);
    }

    pub(super) fn find(&self, id: &T::Id) -> Option<&T> {
        self.entries.get(self.ids.get(id)?)
    }

    pub(super) fn find_mut(&mut self, id: &T::Id) -> Option<&mut T> {
        self.entries.get_mut(self.ids.get(id)?)
    }

    pub(super) fn named(&self, name: &str) -> Option<&T> {
        self.entries.get(self.names.get(name)?)
    }

    pub(super) fn named_mut(&mut self, name: &str) -> Option<&mut T> {
        self.entries.get_mut(self.names.get(name)?)
    }

    pub(super) fn remove(&mut self, id: &T::Id) -> Option<T> {
        let at = self.ids.remove(id)?;
        let entry = self.entries.remove(&at)?;
        self.names.remove(entry.name());
        Some(entry)
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        let gone: Vec<T::Id> = self.iter().filter(|entry| !keep(entry)).map(T::id).collect();
        for id in gone {
            self.remove(&id);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.values_mut()
    }
}

impl<T: Entry> FromIterator<T> for Table<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut table = Self::default();
        for entry in entries {
            table.push(entry);
        }
        table
    }
}

impl<T: Entry + Serialize> Serialize for Table<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de, T: Entry + Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from_iter)
    }
}
