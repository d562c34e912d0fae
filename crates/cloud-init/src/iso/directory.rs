//! The root directory, once for each of the two trees.

use super::{
    SECTOR,
    field::{DATE, both16, both32, ucs2},
    name::PlainName,
    rock_ridge,
    volume::Place,
};

const FILE: u8 = 0;
const DIRECTORY: u8 = 2;

/// Which names a directory shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tree {
    /// Plain names of ISO 9660, with Rock Ridge.
    Primary,
    /// Joliet's.
    Joliet,
}

/// One file, and where its content lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    name: &'a str,
    sector: u32,
    size: u32,
}

impl<'a> Entry<'a> {
    pub(super) fn new(name: &'a str, sector: u32, size: u32) -> Self {
        Self { name, sector, size }
    }
}

/// A directory whose own place is not known yet.
#[derive(Debug)]
pub(super) struct Directory {
    tree: Tree,
    files: Vec<Vec<u8>>,
}

impl Directory {
    pub(super) fn new(tree: Tree, entries: &[Entry<'_>]) -> Self {
        let files = match tree {
            Tree::Primary => primary(entries),
            Tree::Joliet => joliet(entries),
        };
        Self { tree, files }
    }

    /// Bytes it takes, a whole number of sectors.
    pub(super) fn size(&self) -> usize {
        self.bytes(Place::new(0, 0)).len()
    }

    /// The directory as it stands at `root`.
    pub(super) fn bytes(&self, root: Place) -> Vec<u8> {
        let (own, parent) = match self.tree {
            Tree::Primary => (rock_ridge::of_root(), rock_ridge::of_parent()),
            Tree::Joliet => (Vec::new(), Vec::new()),
        };
        let itself = record(root.sector, root.size, DIRECTORY, &[0], &own);
        let parent = record(root.sector, root.size, DIRECTORY, &[1], &parent);
        let mut bytes = Vec::new();
        for record in [&itself, &parent].into_iter().chain(&self.files) {
            // A record never crosses the end of a sector (ECMA-119 6.8.1.1).
            let left = SECTOR - bytes.len() % SECTOR;
            if record.len() > left {
                bytes.resize(bytes.len() + left, 0);
            }
            bytes.extend(record);
        }
        super::field::sector(&bytes)
    }
}

/// The record of a root directory, as volume descriptors hold it.
pub(super) fn root_record(root: Place) -> Vec<u8> {
    record(root.sector, root.size, DIRECTORY, &[0], &[])
}

fn primary(entries: &[Entry<'_>]) -> Vec<Vec<u8>> {
    let names: Vec<&str> = entries.iter().map(|entry| entry.name).collect();
    let mut files: Vec<(PlainName, &Entry<'_>)> = PlainName::all(&names).into_iter().zip(entries).collect();
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    let file = |(name, entry): &(PlainName, &Entry<'_>)| {
        let rock_ridge = rock_ridge::of_file(entry.name);
        record(
            entry.sector,
            entry.size,
            FILE,
            name.identifier().as_bytes(),
            &rock_ridge,
        )
    };
    files.iter().map(file).collect()
}

fn joliet(entries: &[Entry<'_>]) -> Vec<Vec<u8>> {
    let mut files: Vec<&Entry<'_>> = entries.iter().collect();
    files.sort_by_key(|entry| entry.name);
    // Without the version, as genisoimage and xorriso do: some readers would show it.
    let file = |entry: &&Entry<'_>| record(entry.sector, entry.size, FILE, &ucs2(entry.name), &[]);
    files.iter().map(file).collect()
}

/// One directory record (ECMA-119 9.1).
fn record(sector: u32, size: u32, flags: u8, identifier: &[u8], system_use: &[u8]) -> Vec<u8> {
    let mut record = vec![0, 0];
    record.extend(both32(sector));
    record.extend(both32(size));
    record.extend(DATE);
    record.extend([flags, 0, 0]);
    record.extend(both16(1));
    // Joliet's 64 characters are the longest, 128 bytes.
    record.push(identifier.len() as u8);
    record.extend(identifier);
    even(&mut record);
    record.extend(system_use);
    even(&mut record);
    let length = record.len() as u8;
    if let Some(first) = record.first_mut() {
        *first = length;
    }
    record
}

fn even(record: &mut Vec<u8>) {
    if record.len() % 2 == 1 {
        record.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_names_fit_a_record() {
        let name = "n".repeat(64);
        for tree in [Tree::Primary, Tree::Joliet] {
            let directory = Directory::new(tree, &[Entry::new(&name, 1, 1)]);
            assert!(directory.files[0].len() <= 255);
            assert_eq!(usize::from(directory.files[0][0]), directory.files[0].len());
        }
    }

    #[test]
    fn records_do_not_cross_sectors() {
        let names: Vec<String> = (0..40).map(|n| format!("{n:064}")).collect();
        let entries: Vec<Entry<'_>> = names.iter().map(|name| Entry::new(name, 1, 1)).collect();
        let bytes = Directory::new(Tree::Primary, &entries).bytes(Place::new(24, 0));
        for sector in bytes.chunks(SECTOR) {
            let mut at = 0;
            while at < SECTOR && sector[at] > 0 {
                at += usize::from(sector[at]);
            }
            assert!(at <= SECTOR);
        }
    }
}
