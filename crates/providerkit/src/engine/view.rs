//! What is true now, for all who read: committed and published.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    num::NonZeroUsize,
    sync::Arc,
};

use bytes::Bytes;
use lru::LruCache;
use providerkit_backend::{CapacityType, MachineId, Profile, ShardId, State};

use crate::{
    convert,
    engine::{
        listing::Listing,
        record::{Record, Shape},
    },
    fence::Mark,
    revision::History,
    store::Snapshot,
};

/// How many machines share a state, zone and capacity type.
pub(crate) type Tally = HashMap<(State, Arc<str>, CapacityType), usize>;

/// Fence marks of machines that do not exist, the least recently advanced first to go (contract §4, memory).
pub(crate) type Ghosts = LruCache<(MachineId, ShardId), Mark>;

/// A record as it is now, with its list form.
pub(crate) type Published = (Arc<Record>, Bytes);

/// What one commit changed, to be published after it.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// `None` for a machine that is gone.
    pub(crate) machines: Vec<(MachineId, Option<Published>)>,
    pub(crate) ghosts: Vec<(MachineId, ShardId, Mark)>,
    pub(crate) adopted_ghosts: Vec<(MachineId, ShardId)>,
    pub(crate) shards: HashSet<ShardId>,
    pub(crate) shapes: Vec<Arc<Shape>>,
    pub(crate) forgotten_shapes: Vec<u64>,
    pub(crate) head: u64,
    pub(crate) next_ordinal: u64,
}

#[derive(Debug)]
pub(crate) struct View {
    pub(crate) machines: HashMap<MachineId, Arc<Record>>,
    /// Those with a transition under way.
    pub(crate) under_way: HashMap<MachineId, Arc<Record>>,
    pub(crate) listing: Listing,
    /// Machines that no List shows, by ordinal.
    hidden: HashMap<u64, Hidden>,
    /// How many those are, by zone.
    pub(crate) withheld: HashMap<Arc<str>, usize>,
    /// Every machine's last change: the revision that deltas look at it under, to its ordinal.
    pub(crate) changes: BTreeMap<u64, u64>,
    pub(crate) head: u64,
    pub(crate) next_ordinal: u64,
    pub(crate) ghosts: Ghosts,
    pub(crate) history: History,
    pub(crate) tally: Tally,
    pub(crate) shapes: Shapes,
    pub(crate) shards: Shards,
}

#[derive(Debug)]
struct Hidden {
    /// When a Delete last ended on it, or 0.
    returned: u64,
    /// In list form.
    encoded: Bytes,
}

/// Names of shards that marks share. Few shards mark many machines; callers may invent more, which are not shared.
#[derive(Debug, Default)]
pub(crate) struct Shards(HashSet<ShardId>);

impl Shards {
    const SHARED: usize = 1024;

    pub(crate) fn share(&self, shard: &ShardId) -> ShardId {
        self.0.get(shard).unwrap_or(shard).clone()
    }

    fn learn(&mut self, shard: &ShardId) {
        if self.0.len() < Self::SHARED && !self.0.contains(shard) {
            self.0.insert(shard.clone());
        }
    }
}

/// The profiles in use.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    by_number: BTreeMap<u64, Arc<Shape>>,
    /// The numbers, by what tells one profile from another.
    by_body: HashMap<String, u64>,
}

impl Shapes {
    /// What tells one profile from another. Profiles hold floats, so they are compared as text.
    pub(crate) fn body(profile: &Profile) -> String {
        format!("{profile:?}")
    }

    pub(crate) fn find(&self, body: &str) -> Option<&Arc<Shape>> {
        self.by_number.get(self.by_body.get(body)?)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Shape>> {
        self.by_number.values()
    }

    /// The highest number in use.
    pub(crate) fn last(&self) -> u64 {
        self.by_number.last_key_value().map_or(0, |(number, _)| *number)
    }

    pub(crate) fn insert(&mut self, shape: &Arc<Shape>) {
        if !self.by_number.contains_key(&shape.number) {
            self.by_body.insert(Self::body(&shape.profile), shape.number);
            self.by_number.insert(shape.number, Arc::clone(shape));
        }
    }

    fn forget(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.by_number.remove(number);
        }
        if !numbers.is_empty() {
            self.by_body.retain(|_, number| self.by_number.contains_key(number));
        }
    }

    /// The numbers of profiles that nothing refers to but this table.
    pub(crate) fn unused(&self) -> Vec<u64> {
        let unused = self.by_number.values().filter(|shape| Arc::strong_count(shape) == 1);
        unused.map(|shape| shape.number).collect()
    }
}

impl View {
    /// The view of what was committed before. Marks of known machines move into their records.
    pub(crate) fn load(snapshot: Snapshot, ghost_marks: NonZeroUsize) -> Self {
        let mut records = snapshot.records;
        let mut ghosts = Ghosts::new(ghost_marks);
        let places: HashMap<MachineId, usize> = records
            .iter()
            .enumerate()
            .map(|(at, record)| (record.machine.id.clone(), at))
            .collect();
        let mut shards = Shards::default();
        for (machine, shard, mark) in snapshot.marks {
            shards.learn(&shard);
            let shard = shards.share(&shard);
            match places.get(&machine).and_then(|at| records.get_mut(*at)) {
                Some(record) => record.marks.advance(&shard, mark),
                None => {
                    ghosts.put((machine, shard), mark);
                }
            }
        }
        drop(places);
        let mut view = Self {
            machines: HashMap::with_capacity(records.len()),
            under_way: HashMap::new(),
            listing: Listing::default(),
            hidden: HashMap::new(),
            withheld: HashMap::new(),
            changes: records
                .iter()
                .filter_map(|record| Some((record.changed()?, record.ordinal)))
                .collect(),
            head: snapshot.head,
            next_ordinal: snapshot.next_ordinal,
            ghosts,
            history: History::new(snapshot.boots),
            tally: Tally::new(),
            shapes: Shapes::default(),
            shards,
        };
        let (hidden, shown): (Vec<_>, Vec<_>) = records.iter().partition(|record| record.is_hidden());
        view.hidden.extend(hidden.into_iter().map(|record| {
            let (returned, encoded) = (record.returned, convert::encode(record));
            (record.ordinal, Hidden { returned, encoded })
        }));
        view.listing.fill(
            shown
                .into_iter()
                .map(|record| (record.ordinal, record.machine.state, convert::encode(record))),
        );
        for record in records {
            view.count(&record, true);
            view.shapes.insert(&record.shape);
            let record = Arc::new(record);
            view.follow(&record.machine.id, Some(&record));
            view.machines.insert(record.machine.id.clone(), record);
        }
        view
    }

    /// Makes a commit's effects visible; gives back the ghost marks that had to make room.
    pub(crate) fn publish(&mut self, effects: Effects) -> Vec<(MachineId, ShardId)> {
        self.head = effects.head;
        self.next_ordinal = effects.next_ordinal;
        for shard in &effects.shards {
            self.shards.learn(shard);
        }
        for shape in &effects.shapes {
            self.shapes.insert(shape);
        }
        for (id, now) in effects.machines {
            self.follow(&id, now.as_ref().map(|(record, _)| record));
            let old = match &now {
                Some((record, _)) => self.machines.insert(id, Arc::clone(record)),
                None => self.machines.remove(&id),
            };
            if let Some(old) = &old {
                if let Some(revision) = old.changed() {
                    self.changes.remove(&revision);
                }
                self.count(old, false);
            }
            if let Some((record, _)) = &now {
                if let Some(revision) = record.changed() {
                    self.changes.insert(revision, record.ordinal);
                }
                self.count(record, true);
            }
            self.place(old.as_deref(), now);
        }
        for key in effects.adopted_ghosts {
            self.ghosts.pop(&key);
        }
        self.shapes.forget(&effects.forgotten_shapes);
        let ghosts = effects.ghosts.into_iter();
        ghosts
            .filter_map(|(machine, shard, mark)| {
                let key = (machine, shard);
                let evicted = self.ghosts.push(key.clone(), mark)?;
                (evicted.0 != key).then_some(evicted.0)
            })
            .collect()
    }

    /// A machine in list form, hidden or not.
    pub(crate) fn encoded(&self, ordinal: u64) -> Option<(State, Bytes)> {
        let shown = self.listing.machine(ordinal);
        shown.or_else(|| Some((State::Speculative, self.hidden.get(&ordinal)?.encoded.clone())))
    }

    /// A hidden machine in list form, if a Delete of it ended after this revision.
    pub(crate) fn hidden_since(&self, ordinal: u64, revision: u64) -> Option<(State, Bytes)> {
        let hidden = self.hidden.get(&ordinal).filter(|hidden| hidden.returned > revision)?;
        Some((State::Speculative, hidden.encoded.clone()))
    }

    /// Keeps a machine's list form where it belongs now: what is hidden is not in the listing, so that a List need not
    /// look for it.
    fn place(&mut self, old: Option<&Record>, now: Option<Published>) {
        let (was_hidden, ordinal) = old.map_or((false, None), |old| (old.is_hidden(), Some(old.ordinal)));
        match (now, ordinal) {
            (Some((record, encoded)), _) if record.is_hidden() => {
                if old.is_some() && !was_hidden {
                    self.listing.remove(record.ordinal);
                }
                let returned = record.returned;
                self.hidden.insert(record.ordinal, Hidden { returned, encoded });
            }
            (Some((record, encoded)), _) => {
                if was_hidden {
                    self.hidden.remove(&record.ordinal);
                }
                if old.is_none_or(|old| old.revision != record.revision) {
                    self.listing.put(record.ordinal, record.machine.state, &encoded);
                }
            }
            (None, Some(ordinal)) if was_hidden => drop(self.hidden.remove(&ordinal)),
            (None, Some(ordinal)) => self.listing.remove(ordinal),
            (None, None) => {}
        }
    }

    fn follow(&mut self, id: &MachineId, now: Option<&Arc<Record>>) {
        match now.filter(|record| record.running.is_some()) {
            Some(record) => drop(self.under_way.insert(id.clone(), Arc::clone(record))),
            None => drop(self.under_way.remove(id)),
        }
    }

    fn count(&mut self, record: &Record, more: bool) {
        let key = (
            record.machine.state,
            Arc::clone(&record.shape.zone),
            record.shape.profile.capacity_type,
        );
        let step = |count: &mut usize| *count = if more { *count + 1 } else { count.saturating_sub(1) };
        if record.is_hidden() {
            step(self.withheld.entry(Arc::clone(&record.shape.zone)).or_default());
        }
        step(self.tally.entry(key).or_default());
    }
}
