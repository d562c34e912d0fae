//! A guest's files.

use std::{
    collections::{BTreeMap, HashMap},
    ops::{Bound, Range},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::saved;

/// The files of a guest, by path. They are on the domain's first disk and go with it; `/run` and `/tmp` go with each
/// boot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Files {
    files: BTreeMap<String, File>,
    /// Which bytes changed, by path; up to where there were any before or are now.
    #[serde(skip)]
    touched: HashMap<String, Range<usize>>,
}

/// A file of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct File {
    /// What is in it.
    #[serde(with = "saved::bytes")]
    pub content: Arc<Vec<u8>>,
    /// Its permissions.
    pub mode: u32,
}

/// What is gone after a boot.
const VOLATILE: [&str; 2] = ["/run/", "/tmp/"];

impl PartialEq for Files {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files
    }
}

impl Eq for Files {}

impl Files {
    /// The content of a file.
    #[must_use]
    pub fn read(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(|file| file.content.as_slice())
    }

    /// The content of a file that is text.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        std::str::from_utf8(self.read(path)?).ok()
    }

    /// The permissions of a file.
    #[must_use]
    pub fn mode(&self, path: &str) -> Option<u32> {
        self.files.get(path).map(|file| file.mode)
    }

    /// Makes or replaces a file; one that exists keeps its permissions.
    pub fn write(&mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) {
        self.put(path.into(), 0o644, content.into());
    }

    /// Sets the permissions of a file, if there is one.
    pub fn set_mode(&mut self, path: &str, mode: u32) {
        if let Some(file) = self.files.get_mut(path) {
            file.mode = mode;
            self.touch(path, 0..1);
        }
    }

    /// Removes a file.
    pub fn remove(&mut self, path: &str) -> Option<File> {
        let file = self.files.remove(path)?;
        self.touch(path, 0..file.content.len());
        Some(file)
    }

    /// Moves a file, over one that is there.
    pub fn rename(&mut self, from: &str, to: impl Into<String>) -> bool {
        let Some(file) = self.remove(from) else {
            return false;
        };
        let to = to.into();
        let before = self.read(&to).map_or(0, <[u8]>::len);
        self.touch(&to, 0..before.max(file.content.len()));
        self.files.insert(to, file);
        true
    }

    /// The paths below a folder, in order.
    pub fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        let from = self.files.range::<str, _>((Bound::Included(folder), Bound::Unbounded));
        from.map(|(path, _)| path.as_str())
            .take_while(move |path| path.starts_with(folder))
    }

    /// Makes a file with these permissions, or gives one that is there another content.
    pub(super) fn put(&mut self, path: String, mode: u32, content: Vec<u8>) {
        let before = self.read(&path).map_or(0, <[u8]>::len);
        self.touch(&path, 0..before.max(content.len()));
        let file = self.files.entry(path).or_insert_with(|| File {
            content: Arc::default(),
            mode,
        });
        file.content = Arc::new(content);
    }

    /// Writes into a file that is there, and grows it for that.
    pub(super) fn write_at(&mut self, path: &str, at: usize, data: &[u8]) -> bool {
        let Some(file) = self.files.get_mut(path) else {
            return false;
        };
        let content = Arc::make_mut(&mut file.content);
        let (from, to) = (at.min(content.len()), at + data.len());
        if content.len() < to {
            content.resize(to, 0);
        }
        if let Some(room) = content.get_mut(at..to) {
            room.copy_from_slice(data);
        }
        self.touch(path, from..to);
        true
    }

    pub(super) fn forget_volatile(&mut self) {
        let gone = VOLATILE.iter().flat_map(|folder| self.below(folder));
        let gone: Vec<String> = gone.map(str::to_owned).collect();
        for path in gone {
            self.remove(&path);
        }
    }

    /// Takes over other files in the place of all there are.
    pub(super) fn replace(&mut self, other: &Self) {
        let gone: Vec<String> = self.files.keys().cloned().collect();
        for path in gone {
            self.remove(&path);
        }
        for (path, file) in &other.files {
            self.put_back(path.clone(), file.clone());
            self.touch(path, 0..file.content.len());
        }
    }

    /// The same files on another disk.
    pub(super) fn copied(&self) -> Self {
        let mut copy = Self::default();
        copy.replace(self);
        copy
    }

    /// Puts a file where it was in another life.
    pub(super) fn put_back(&mut self, path: String, file: File) {
        self.files.insert(path, file);
    }

    pub(super) fn get(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    pub(super) fn get_mut(&mut self, path: &str) -> Option<&mut File> {
        self.files.get_mut(path)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &String> {
        self.files.keys()
    }

    fn touch(&mut self, path: &str, bytes: Range<usize>) {
        match self.touched.get_mut(path) {
            Some(known) => *known = known.start.min(bytes.start)..known.end.max(bytes.end),
            None => drop(self.touched.insert(path.to_owned(), bytes)),
        }
    }

    pub(super) fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// The bytes that changed since this was last asked, by path.
    pub(super) fn take_touched(&mut self) -> HashMap<String, Range<usize>> {
        std::mem::take(&mut self.touched)
    }
}
