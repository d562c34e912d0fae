//! What the daemon remembers, in pieces that change one by one.

use std::{ops::Range, sync::Arc};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    files::{File, Files},
    host::Host,
    lease::Lease,
    pool::Pool,
    saved::{self, RestoreError, State},
    table::{Entry, Table},
    volume::Volume,
};
use crate::wire::xdr::Uuid;

/// A piece of what a [`Daemon`](super::Daemon) and its host remember, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which piece it is. Text without meaning to whoever keeps it; no two pieces have the same.
    pub key: String,
    /// What it is: JSON, or bytes of a volume or of a guest's file. None: it is gone.
    pub value: Option<Vec<u8>>,
}

/// Bytes of a guest's file in one record.
const PIECE: usize = 64 << 10;
/// What stands before the first piece of a file: its permissions.
const MODE: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Key {
    Host,
    Counter,
    Domain(Id),
    Pool(Id),
    /// Pool and path.
    Volume(Id, String),
    /// Pool, path and number.
    Block(Id, String, usize),
    /// Pool, path, path in the guest and number.
    File(Id, String, String, usize),
    Network(Id),
    /// Network and hardware address.
    Lease(Id, String),
    Secret(Id),
    Device(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Id(#[serde(with = "saved::text")] Uuid);

/// Collects records, unless nobody wants them.
struct Sheet(Option<Vec<Record>>);

impl Sheet {
    fn put(&mut self, key: &Key, value: impl FnOnce() -> Option<Vec<u8>>) {
        if let Some(records) = &mut self.0 {
            // invariant: a key is text and numbers.
            let key = serde_json::to_string(key).unwrap_or_default();
            records.push(Record { key, value: value() });
        }
    }

    fn json(&mut self, key: &Key, value: &impl Serialize) {
        // invariant: all keys of maps are text and no type refuses to be written.
        self.put(key, || Some(serde_json::to_vec(value).unwrap_or_default()));
    }

    fn entries<T: Entry + Serialize>(
        &mut self,
        table: &Table<T>,
        ids: impl IntoIterator<Item = T::Id>,
        key: impl Fn(T::Id) -> Key,
    ) {
        for id in ids {
            match table.find(&id).zip(table.place(&id)) {
                Some((entry, place)) => self.json(&key(id), &(place, entry)),
                None => self.put(&key(id), || None),
            }
        }
    }

    fn volume(&mut self, pool: Id, place: u64, volume: &Volume) {
        let key = Key::Volume(pool, volume.path.clone());
        self.json(&key, &(place, volume.content.len(), volume));
    }

    fn block(&mut self, pool: Id, volume: &str, number: usize, block: Option<&Arc<[u8]>>) {
        let key = Key::Block(pool, volume.to_owned(), number);
        self.put(&key, || block.map(|block| block.to_vec()));
    }

    /// The pieces of a file that these bytes are in; those behind its end are gone.
    fn file(&mut self, (pool, volume): (Id, &str), path: &str, file: Option<&File>, bytes: &Range<usize>) {
        for number in bytes.start / PIECE..=bytes.end.saturating_sub(1) / PIECE {
            let key = Key::File(pool, volume.to_owned(), path.to_owned(), number);
            let piece = |file: &File| {
                let start = number * PIECE;
                let end = file.content.len().min(start + PIECE);
                let bytes = file
                    .content
                    .get(start..end)
                    .filter(|piece| number == 0 || !piece.is_empty())?;
                let mode = file.mode.to_be_bytes();
                Some([if number == 0 { &mode[..] } else { &[] }, bytes].concat())
            };
            self.put(&key, || file.and_then(piece));
        }
    }

    fn files(&mut self, at: (Id, &str), files: &Files) {
        for path in files.paths() {
            let file = files.get(path);
            self.file(at, path, file, &(0..file.map_or(0, |file| file.content.len())));
        }
    }

    fn whole_volume(&mut self, pool: Id, place: u64, volume: &Volume) {
        self.volume(pool, place, volume);
        for (number, block) in volume.content.blocks() {
            self.block(pool, &volume.path, number, Some(block));
        }
        self.files((pool, &volume.path), &volume.files);
    }

    fn gone_volume(&mut self, pool: Id, volume: &Volume) {
        let Some(records) = &mut self.0 else { return };
        let mut all = Self(Some(Vec::new()));
        all.whole_volume(pool, 0, volume);
        let gone = all.0.into_iter().flatten();
        records.extend(gone.map(|record| Record { value: None, ..record }));
    }
}

impl State {
    /// All of it.
    pub(super) fn records(&self) -> Vec<Record> {
        let mut sheet = Sheet(Some(Vec::new()));
        sheet.json(&Key::Host, &self.host);
        sheet.json(&Key::Counter, &self.counter);
        sheet.entries(&self.domains, self.domains.iter().map(Entry::id), |id| {
            Key::Domain(Id(id))
        });
        sheet.entries(&self.pools, self.pools.iter().map(Entry::id), |id| Key::Pool(Id(id)));
        sheet.entries(&self.networks, self.networks.iter().map(Entry::id), |id| {
            Key::Network(Id(id))
        });
        sheet.entries(&self.secrets, self.secrets.iter().map(Entry::id), |id| {
            Key::Secret(Id(id))
        });
        sheet.entries(&self.devices, self.devices.iter().map(Entry::id), Key::Device);
        for pool in self.pools.iter() {
            for volume in pool.volumes.iter() {
                let place = pool.volumes.place(&volume.path).unwrap_or_default();
                sheet.whole_volume(Id(pool.uuid), place, volume);
            }
        }
        for network in self.networks.iter() {
            for lease in network.leases.iter() {
                sheet.json(&Key::Lease(Id(network.uuid), lease.mac.clone()), lease);
            }
        }
        sheet.0.unwrap_or_default()
    }

    /// What changed since this was last asked; nothing is told unless somebody wants it.
    pub(super) fn take_changes(&mut self, wanted: bool) -> Vec<Record> {
        let mut sheet = Sheet(wanted.then(Vec::new));
        if self.kept.as_ref() != Some(&self.host) {
            sheet.json(&Key::Host, &self.host);
            self.kept = Some(self.host.clone());
        }
        if self.kept_counter != self.counter {
            sheet.json(&Key::Counter, &self.counter);
            self.kept_counter = self.counter;
        }
        for pool in self.pools.take_gone() {
            for volume in pool.volumes.iter() {
                sheet.gone_volume(Id(pool.uuid), volume);
            }
        }
        for network in self.networks.take_gone() {
            for lease in network.leases.iter() {
                sheet.put(&Key::Lease(Id(network.uuid), lease.mac.clone()), || None);
            }
        }
        let pools = self.pools.take_touched();
        for id in &pools {
            if let Some(pool) = self.pools.peek_mut(id) {
                sheet.changed_pool(pool);
            }
        }
        sheet.entries(&self.pools, pools, |id| Key::Pool(Id(id)));
        let networks = self.networks.take_touched();
        for id in &networks {
            if let Some(network) = self.networks.peek_mut(id) {
                for mac in network.leases.take_touched() {
                    let key = Key::Lease(Id(*id), mac.clone());
                    match network.leases.find(&mac) {
                        Some(lease) => sheet.json(&key, lease),
                        None => sheet.put(&key, || None),
                    }
                }
            }
        }
        sheet.entries(&self.networks, networks, |id| Key::Network(Id(id)));
        let (domains, secrets, devices) = (
            self.domains.take_touched(),
            self.secrets.take_touched(),
            self.devices.take_touched(),
        );
        sheet.entries(&self.domains, domains, |id| Key::Domain(Id(id)));
        sheet.entries(&self.secrets, secrets, |id| Key::Secret(Id(id)));
        sheet.entries(&self.devices, devices, Key::Device);
        drop(self.domains.take_gone());
        sheet.0.unwrap_or_default()
    }
}

impl Sheet {
    fn changed_pool(&mut self, pool: &mut Pool) {
        let id = Id(pool.uuid);
        for volume in pool.volumes.take_gone() {
            self.gone_volume(id, &volume);
        }
        for path in pool.volumes.take_touched() {
            let place = pool.volumes.place(&path).unwrap_or_default();
            let Some(volume) = pool.volumes.peek_mut(&path) else {
                continue;
            };
            self.volume(id, place, volume);
            for (number, block) in volume.content.take_touched() {
                self.block(id, &path, number, block.as_ref());
            }
            for (file, bytes) in volume.files.take_touched() {
                self.file((id, &path), &file, volume.files.get(&file), &bytes);
            }
        }
    }
}

/// Puts a state together again.
pub(super) fn assemble(records: impl IntoIterator<Item = Record>) -> Result<State, RestoreError> {
    let mut sorted: Vec<(Key, Vec<u8>)> = Vec::new();
    for record in records {
        if let Some(value) = record.value {
            sorted.push((serde_json::from_str(&record.key)?, value));
        }
    }
    // Pools come before their volumes, those before their blocks and files, and pieces of files in their order.
    sorted.sort();
    let mut state = State::default();
    let mut has_host = false;
    for (key, value) in sorted {
        match key {
            Key::Host => {
                state.host = read::<Host>(&value)?;
                state.kept = Some(state.host.clone());
                has_host = true;
            }
            Key::Counter => {
                state.counter = read(&value)?;
                state.kept_counter = state.counter;
            }
            Key::Domain(_) => entry(&mut state.domains, &value)?,
            Key::Pool(_) => entry(&mut state.pools, &value)?,
            Key::Network(_) => entry(&mut state.networks, &value)?,
            Key::Secret(_) => entry(&mut state.secrets, &value)?,
            Key::Device(_) => entry(&mut state.devices, &value)?,
            Key::Volume(Id(pool), _) => {
                let (place, length, mut volume): (u64, usize, Volume) = read(&value)?;
                volume.content.set_len(length);
                let pool = state
                    .pools
                    .peek_mut(&pool)
                    .ok_or(RestoreError::parts("a volume without its pool"))?;
                pool.volumes.put_back(place, volume);
            }
            Key::Block(Id(pool), path, number) => volume(&mut state, pool, &path)?.content.put_back(number, &value),
            Key::File(Id(pool), path, file, number) => {
                piece(&mut volume(&mut state, pool, &path)?.files, file, number, &value)?;
            }
            Key::Lease(Id(network), _) => {
                let network = state.networks.peek_mut(&network);
                let network = network.ok_or(RestoreError::parts("a lease without its network"))?;
                network.leases.put_back(read::<Lease>(&value)?);
            }
        }
    }
    if !has_host {
        return Err(RestoreError::parts("no host"));
    }
    Ok(state)
}

fn read<T: DeserializeOwned>(value: &[u8]) -> Result<T, RestoreError> {
    Ok(serde_json::from_slice(value)?)
}

fn entry<T: Entry + DeserializeOwned>(table: &mut Table<T>, value: &[u8]) -> Result<(), RestoreError> {
    let (place, entry) = read(value)?;
    table.put_back(place, entry);
    Ok(())
}

fn volume<'a>(state: &'a mut State, pool: Uuid, path: &String) -> Result<&'a mut Volume, RestoreError> {
    let pool = state.pools.peek_mut(&pool);
    let found = pool.and_then(|pool| pool.volumes.peek_mut(path));
    found.ok_or(RestoreError::parts("bytes without their volume"))
}

fn piece(files: &mut Files, path: String, number: usize, value: &[u8]) -> Result<(), RestoreError> {
    let lost = RestoreError::parts("a file without its beginning");
    if number > 0 {
        let file = files.get_mut(&path).ok_or(lost)?;
        Arc::make_mut(&mut file.content).extend_from_slice(value);
        return Ok(());
    }
    let (mode, bytes) = value.split_first_chunk::<MODE>().ok_or(lost)?;
    let file = File {
        content: Arc::new(bytes.to_vec()),
        mode: u32::from_be_bytes(*mode),
    };
    files.put_back(path, file);
    Ok(())
}
