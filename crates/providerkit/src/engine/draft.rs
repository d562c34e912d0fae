//! What a group of commands is about to change: seen by the commands after it in the group, by nobody else until it is
//! committed, and by nobody at all if the commit fails.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use providerkit_backend::{Adopted, Machine, MachineId, Profile, ShardId, Slot, State};

use crate::{
    binding, convert,
    engine::{
        record::{Record, Shape},
        view::{Effects, Shapes, View},
    },
    fence::Mark,
    store::Change,
};

/// Profiles that are recognized without comparing them.
const RECENT_SHAPES: usize = 16;

#[derive(Debug)]
pub(crate) struct Draft<'view> {
    view: &'view View,
    /// By id; `None` for a machine that is gone.
    machines: BTreeMap<MachineId, Option<Arc<Record>>>,
    /// Marks that advanced, of known machines too.
    marks: HashMap<(MachineId, ShardId), Mark>,
    adopted_ghosts: Vec<(MachineId, ShardId)>,
    /// The machines that only have marks; collected when first asked for.
    ghost_machines: OnceCell<HashSet<MachineId>>,
    shapes: Shapes,
    recent_shapes: Vec<(Arc<Profile>, Arc<Shape>)>,
    forgotten_shapes: Vec<u64>,
    head: u64,
    next_ordinal: u64,
}

impl<'view> Draft<'view> {
    pub(crate) fn new(view: &'view View) -> Self {
        Self {
            view,
            machines: BTreeMap::new(),
            marks: HashMap::new(),
            adopted_ghosts: Vec::new(),
            ghost_machines: OnceCell::new(),
            shapes: Shapes::default(),
            recent_shapes: Vec::new(),
            forgotten_shapes: Vec::new(),
            head: view.head,
            next_ordinal: view.next_ordinal,
        }
    }

    /// The machine as it is with the group's changes so far.
    pub(crate) fn machine(&self, id: &MachineId) -> Option<&Arc<Record>> {
        match self.machines.get(id) {
            Some(drafted) => drafted.as_ref(),
            None => self.view.machines.get(id),
        }
    }

    /// Puts a record in place. It gets a fresh revision if List shows any difference, other than that it shows it no
    /// more: a delta cannot say that, and must not show what is hidden.
    pub(crate) fn put(&mut self, mut record: Record) -> Arc<Record> {
        let hidden = record.is_hidden();
        let (differs, came_back) = match self.machine(&record.machine.id) {
            None => (!hidden, false),
            Some(old) => {
                let moved = old.machine.state != record.machine.state;
                let shown = !hidden && (old.is_hidden() || !old.looks_like(&record));
                (shown || moved, moved && record.machine.state == State::Speculative)
            }
        };
        if differs {
            self.head += 1;
            record.revision = self.head;
        }
        if came_back {
            record.returned = self.head;
        }
        let record = Arc::new(record);
        self.machines
            .insert(record.machine.id.clone(), Some(Arc::clone(&record)));
        record
    }

    /// The mark of a shard on a machine, known or not.
    pub(crate) fn mark(&self, machine: &MachineId, shard: &ShardId) -> Option<Mark> {
        let key = (machine.clone(), shard.clone());
        if let Some(mark) = self.marks.get(&key) {
            return Some(*mark);
        }
        match self.machine(machine) {
            Some(record) => record.marks.of(shard),
            None => self.view.ghosts.peek(&key).copied(),
        }
    }

    pub(crate) fn advance(&mut self, machine: &MachineId, shard: &ShardId, mark: Mark) {
        let shard = self.view.shards.share(shard);
        if let Some(record) = self.machine(machine) {
            let mut record = Record::clone(record);
            record.marks.advance(&shard, mark);
            self.put(record);
        }
        self.marks.insert((machine.clone(), shard), mark);
    }

    /// The shared form of a profile.
    pub(crate) fn shape(&mut self, profile: &Arc<Profile>) -> Arc<Shape> {
        // Slots usually share a few profiles: most are told by where they are, without looking at what they are.
        if let Some((_, shape)) = self.recent_shapes.iter().find(|(known, _)| Arc::ptr_eq(known, profile)) {
            return Arc::clone(shape);
        }
        let body = Shapes::body(profile);
        let shape = match self.view.shapes.find(&body).or_else(|| self.shapes.find(&body)) {
            Some(shape) => Arc::clone(shape),
            None => {
                let number = self.view.shapes.last().max(self.shapes.last()) + 1;
                let shape = Arc::new(Shape::new(number, Arc::clone(profile)));
                self.shapes.insert(&shape);
                shape
            }
        };
        // Somebody may want it again before it was forgotten.
        self.forgotten_shapes.retain(|number| *number != shape.number);
        self.recent_shapes.truncate(RECENT_SHAPES - 1);
        self.recent_shapes.insert(0, (Arc::clone(profile), Arc::clone(&shape)));
        shape
    }

    /// Drops profiles that no machine has any more.
    pub(crate) fn forget_unused_shapes(&mut self) {
        self.forgotten_shapes = self.view.shapes.unused();
    }

    /// Adds a machine for a slot, under the slot's own name or, where that is taken, a fresh one.
    pub(crate) fn add(&mut self, slot: Slot, after: u32) -> Option<Arc<Record>> {
        let (generation, id) = self.fresh_id(&slot.name, after)?;
        let mut machine = Machine::new(id, Arc::clone(&slot.profile));
        machine.metadata = binding::unbound();
        machine.host.clone_from(&slot.host);
        if machine.host.is_some() {
            machine.state = State::Idle;
        }
        Some(self.begin(slot, generation, machine))
    }

    /// Adds a machine that the substrate has already, under the id it has there; `None` if that is taken.
    pub(crate) fn adopt(&mut self, slot: Slot, adopted: Adopted) -> Option<Arc<Record>> {
        if self.is_taken(&adopted.machine) {
            return None;
        }
        let generation = generation(&slot.name, adopted.machine.as_str());
        let mut machine = Machine::new(adopted.machine, Arc::clone(&slot.profile));
        machine.host = Some(adopted.host);
        if adopted.cluster.is_some() {
            machine.state = State::Configured;
            machine.metadata = Arc::new(adopted.metadata);
        } else {
            machine.state = State::Idle;
            machine.metadata = binding::unbound();
        }
        machine.cluster = adopted.cluster;
        Some(self.begin(slot, generation, machine))
    }

    fn begin(&mut self, slot: Slot, generation: u32, mut machine: Machine) -> Arc<Record> {
        let shape = self.shape(&slot.profile);
        machine.profile = Arc::clone(&shape.profile);
        let mut record = Record::added(self.next_ordinal, slot.name, generation, machine, shape);
        record.hosted = slot.host.is_some();
        record.withheld = slot.withheld;
        self.next_ordinal += 1;
        if self.ghost_machines().contains(&record.machine.id) {
            let ghosts = self
                .view
                .ghosts
                .iter()
                .filter(|((machine, _), _)| *machine == record.machine.id);
            for (key, mark) in ghosts {
                record.marks.advance(&key.1, *mark);
                self.adopted_ghosts.push(key.clone());
            }
        }
        self.put(record)
    }

    /// Takes a machine out and brings its slot back under a fresh id (contract §11.4), withheld if the slot is: nobody has
    /// heard of that id, so nobody waits for it. The old one's marks live on as ghosts.
    pub(crate) fn retire(&mut self, id: &MachineId, slot: Slot) -> Option<Arc<Record>> {
        let old = Arc::clone(self.machine(id)?);
        self.machines.insert(id.clone(), None);
        for (shard, mark) in old.marks.iter() {
            self.marks.insert((id.clone(), shard.clone()), *mark);
        }
        self.add(slot, old.generation)
    }

    fn ghost_machines(&self) -> &HashSet<MachineId> {
        self.ghost_machines.get_or_init(|| {
            self.view
                .ghosts
                .iter()
                .map(|((machine, _), _)| machine.clone())
                .collect()
        })
    }

    /// Whether a machine has this id, or had it before this group's changes.
    fn is_taken(&self, id: &MachineId) -> bool {
        self.machine(id).is_some() || self.machines.contains_key(id)
    }

    fn fresh_id(&self, slot: &Arc<str>, after: u32) -> Option<(u32, MachineId)> {
        let mut generation = after;
        loop {
            generation = generation.checked_add(1)?;
            let name = if generation == 1 {
                Arc::clone(slot)
            } else {
                format!("{slot}-r{generation}").into()
            };
            let id = MachineId::new(name).ok()?;
            if !self.is_taken(&id) {
                return Some((generation, id));
            }
        }
    }

    /// Whether nothing changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.machines.is_empty() && self.marks.is_empty() && self.forgotten_shapes.is_empty()
    }

    /// What the store is to write and, once it has, the view to publish.
    pub(crate) fn finish(self) -> (Vec<Change>, Effects) {
        let mut changes = vec![Change::Counters {
            head: self.head,
            next_ordinal: self.next_ordinal,
        }];
        changes.extend(self.shapes.all().cloned().map(Change::Shape));
        changes.extend(
            self.forgotten_shapes
                .iter()
                .map(|number| Change::ForgetShape { number: *number }),
        );
        let mut effects = Effects {
            adopted_ghosts: self.adopted_ghosts,
            shapes: self.shapes.all().cloned().collect(),
            forgotten_shapes: self.forgotten_shapes,
            head: self.head,
            next_ordinal: self.next_ordinal,
            ..Effects::default()
        };
        for ((machine, shard), mark) in self.marks {
            if !effects.shards.contains(&shard) {
                effects.shards.insert(shard.clone());
            }
            changes.push(Change::Mark {
                machine: machine.clone(),
                shard: shard.clone(),
                mark,
            });
            let known = match self.machines.get(&machine) {
                Some(drafted) => drafted.is_some(),
                None => self.view.machines.contains_key(&machine),
            };
            if !known {
                effects.ghosts.push((machine, shard, mark));
            }
        }
        for (id, drafted) in self.machines {
            let old = self.view.machines.get(&id);
            if let Some(record) = &drafted {
                // A record whose marks alone advanced is all in the marks' table.
                if old.is_none_or(|old| !stored_alike(old, record)) {
                    changes.push(Change::Put(Arc::clone(record)));
                }
            } else if let Some(old) = old {
                changes.push(Change::Remove { ordinal: old.ordinal });
            }
            let encoded = drafted.map(|record| {
                let encoded = convert::encode(&record);
                (record, encoded)
            });
            effects.machines.push((id, encoded));
        }
        (changes, effects)
    }
}

/// Which of the slot's ids this is, by the way [`Draft::fresh_id`] makes them: what comes after it was not used before.
fn generation(slot: &str, id: &str) -> u32 {
    let number = id.strip_prefix(slot).and_then(|rest| rest.strip_prefix("-r"));
    number
        .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|number| number.parse().ok())
        // None may come after the last.
        .filter(|number| (1..u32::MAX).contains(number))
        .unwrap_or(1)
}

fn stored_alike(old: &Record, new: &Record) -> bool {
    old.revision == new.revision
        && old.withheld == new.withheld
        && old.operations == new.operations
        && old.running == new.running
        && old.failure == new.failure
        && old.shape.number == new.shape.number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generation_of_an_adopted_id_is_read_from_it() {
        for (id, expected) in [
            ("s", 1),
            ("s-r2", 2),
            ("s-r17", 17),
            ("s-r0", 1),
            ("s-r+3", 1),
            ("s-r", 1),
            ("s-r2-r3", 1),
            ("s-r4294967295", 1),
            ("s-r99999999999", 1),
            ("t-r5", 1),
            ("other", 1),
        ] {
            assert_eq!(generation("s", id), expected, "{id}");
        }
        assert_eq!(generation("s-r2", "s-r2-r3"), 3);
    }
}
