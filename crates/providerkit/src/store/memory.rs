//! A store that forgets with its last handle.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use providerkit_backend::{MachineId, ShardId};

use super::{Boot, Change, Error, Mark, Record, Snapshot, Store};

/// For a provider without `--state`, and for tests: clones share what they keep, so one outlives an engine.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    records: BTreeMap<u64, Arc<Record>>,
    marks: BTreeMap<(MachineId, ShardId), (u64, Mark)>,
    touched: u64,
    boots: Vec<Boot>,
    head: u64,
    next_ordinal: u64,
}

impl Memory {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        // A panic elsewhere cannot leave a change half made: each is one insert or remove.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Memory {
    fn load(&mut self) -> Result<Snapshot, Error> {
        let kept = self.kept();
        let mut marks: Vec<_> = kept.marks.iter().collect();
        marks.sort_by_key(|(_, (touched, _))| *touched);
        Ok(Snapshot {
            records: kept.records.values().map(|record| Record::clone(record)).collect(),
            marks: marks
                .into_iter()
                .map(|((machine, shard), (_, mark))| (machine.clone(), shard.clone(), *mark))
                .collect(),
            boots: kept.boots.clone(),
            head: kept.head,
            next_ordinal: kept.next_ordinal,
        })
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), Error> {
        let mut kept = self.kept();
        for change in changes {
            match change {
                Change::Put(record) => {
                    let mut record = Record::clone(record);
                    record.marks = Default::default();
                    kept.records.insert(record.ordinal, Arc::new(record));
                }
                Change::Remove { ordinal } => {
                    kept.records.remove(ordinal);
                }
                Change::Mark { machine, shard, mark } => {
                    kept.touched += 1;
                    let touched = kept.touched;
                    kept.marks.insert((machine.clone(), shard.clone()), (touched, *mark));
                }
                Change::ForgetMark { machine, shard } => {
                    kept.marks.remove(&(machine.clone(), shard.clone()));
                }
                Change::Shape(_) | Change::ForgetShape { .. } => {}
                Change::Boot(boot) => kept.boots.push(*boot),
                Change::Counters { head, next_ordinal } => (kept.head, kept.next_ordinal) = (*head, *next_ordinal),
            }
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}
