//! A guest's files.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use super::saved;

/// The files of a guest, by path. They are on the domain's first disk and go with it; `/run` and `/tmp` go with each
/// boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Files(BTreeMap<String, File>);

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

impl Files {
    /// The content of a file.
    #[must_use]
    pub fn read(&self, path: &str) -> Option<&[u8]> {
        self.0.get(path).map(|file| file.content.as_slice())
    }

    /// The content of a file that is text.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        std::str::from_utf8(self.read(path)?).ok()
    }

    /// The permissions of a file.
    #[must_use]
    pub fn mode(&self, path: &str) -> Option<u32> {
        self.0.get(path).map(|file| file.mode)
    }

    /// Makes or replaces a file; one that exists keeps its permissions.
    pub fn write(&mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) {
        self.file(path.into(), 0o644).content = Arc::new(content.into());
    }

    /// Sets the permissions of a file, if there is one.
    pub fn set_mode(&mut self, path: &str, mode: u32) {
        if let Some(file) = self.0.get_mut(path) {
            file.mode = mode;
        }
    }

    /// Removes a file.
    pub fn remove(&mut self, path: &str) -> Option<File> {
        self.0.remove(path)
    }

    /// Moves a file, over one that is there.
    pub fn rename(&mut self, from: &str, to: impl Into<String>) -> bool {
        let file = self.0.remove(from);
        let moved = file.is_some();
        self.0.extend(file.map(|file| (to.into(), file)));
        moved
    }

    /// The paths below a folder, in order.
    pub fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .keys()
            .map(String::as_str)
            .filter(move |path| path.starts_with(folder))
    }

    /// The file of a path, made if there is none.
    pub(super) fn file(&mut self, path: String, mode: u32) -> &mut File {
        self.0.entry(path).or_insert_with(|| File {
            content: Arc::default(),
            mode,
        })
    }

    pub(super) fn find_mut(&mut self, path: &str) -> Option<&mut File> {
        self.0.get_mut(path)
    }

    pub(super) fn forget_volatile(&mut self) {
        self.0
            .retain(|path, _| !VOLATILE.iter().any(|folder| path.starts_with(folder)));
    }
}
