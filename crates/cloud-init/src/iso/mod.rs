//! An ISO 9660 image of one flat directory, with Joliet and Rock Ridge.
//!
//! Written after ECMA-119, the Joliet specification, SUSP 1.10 and RRIP 1.10, with what Linux, isoinfo and xorriso make of
//! them as the judge.

mod directory;
mod field;
mod name;
mod rock_ridge;
mod volume;

use std::{
    collections::HashSet,
    fmt,
    io::{self, Write},
};

use bytes::Bytes;

pub use self::name::FileName;
use self::{
    directory::{Directory, Entry, Tree},
    volume::{Descriptor, Place},
};
use crate::Error;

/// Bytes of one logical sector; every part of an image begins on one.
pub const SECTOR: usize = 2048;

/// More files than a seed will ever have, few enough that every size below fits its field.
const MAX_FILES: usize = 512;

const PRIMARY: u32 = 16;
const ROCK_RIDGE_ID: u32 = 23;
const FIRST_DIRECTORY: u32 = 24;

/// Sectors of the smallest image, 128 KiB. Busybox, which finds the seed of a small guest by its label, gives up on a disk
/// that ends within the 68 KiB where it looks for other file systems.
const SMALLEST: u32 = 64;

/// A finished image: label `cidata`, every file root's own with mode 0600, no date but 2000-01-01.
///
/// File contents are shared, not copied, until they are written somewhere.
#[derive(Clone)]
pub struct Image {
    head: Bytes,
    contents: Vec<Bytes>,
    tail: Bytes,
}

impl Image {
    /// Lays `files` out. The same files in the same order give the same bytes.
    ///
    /// # Errors
    /// A name that occurs twice, more than 512 files, or an image of 4 GiB or more.
    pub fn new(files: Vec<(FileName, Bytes)>) -> Result<Self, Error> {
        check(&files)?;
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        // The size of a directory does not depend on where the files lie: first the one, then the other.
        let blank: Vec<Entry<'_>> = names.iter().map(|name| Entry::new(name, 0, 0)).collect();
        let primary_size = Directory::new(Tree::Primary, &blank).size();
        let joliet_size = Directory::new(Tree::Joliet, &blank).size();
        let primary_root = Place::new(FIRST_DIRECTORY, primary_size);
        let joliet_root = Place::new(primary_root.end(), joliet_size);

        let mut next = joliet_root.end();
        let mut entries = Vec::with_capacity(files.len());
        for (name, content) in &files {
            let place = Place::new(next, content.len());
            entries.push(Entry::new(
                name.as_str(),
                if content.is_empty() { 0 } else { next },
                place.size,
            ));
            next = place.end();
        }

        let unused = SMALLEST.saturating_sub(next);
        next += unused;

        let mut head = vec![0; PRIMARY as usize * SECTOR];
        head.extend(Descriptor::primary(next, primary_root).bytes());
        head.extend(Descriptor::joliet(next, joliet_root).bytes());
        head.extend(volume::terminator());
        for root in [primary_root, joliet_root] {
            head.extend(volume::path_table(root.sector.to_le_bytes(), 1_u16.to_le_bytes()));
            head.extend(volume::path_table(root.sector.to_be_bytes(), 1_u16.to_be_bytes()));
        }
        head.extend(field::sector(&rock_ridge::identification()));
        head.extend(Directory::new(Tree::Primary, &entries).bytes(primary_root));
        head.extend(Directory::new(Tree::Joliet, &entries).bytes(joliet_root));

        Ok(Self {
            head: head.into(),
            contents: files.into_iter().map(|(_, content)| content).collect(),
            tail: vec![0; unused as usize * SECTOR].into(),
        })
    }

    /// Size in bytes, always a multiple of [`SECTOR`].
    #[must_use]
    pub fn size(&self) -> u64 {
        self.chunks().map(|chunk| chunk.len() as u64).sum()
    }

    /// The image in order, in pieces that share memory with the files' contents: what an upload reads from.
    pub fn chunks(&self) -> impl Iterator<Item = Bytes> + Send + '_ {
        let files = self
            .contents
            .iter()
            .flat_map(|content| [content.clone(), padding(content.len())]);
        std::iter::once(self.head.clone())
            .chain(files)
            .chain([self.tail.clone()])
            .filter(|chunk| !chunk.is_empty())
    }

    /// The image in one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let pieces: Vec<Bytes> = self.chunks().collect();
        pieces.concat()
    }

    /// Writes the image to `out`, which is not flushed.
    ///
    /// # Errors
    /// What `out` answers.
    pub fn write_to(&self, mut out: impl Write) -> io::Result<()> {
        self.chunks().try_for_each(|chunk| out.write_all(&chunk))
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image(<{} bytes>)", self.size())
    }
}

fn check(files: &[(FileName, Bytes)]) -> Result<(), Error> {
    if files.len() > MAX_FILES {
        return Err(Error::TooManyFiles {
            count: files.len(),
            limit: MAX_FILES,
        });
    }
    let mut names = HashSet::new();
    if let Some((name, _)) = files.iter().find(|(name, _)| !names.insert(name)) {
        return Err(Error::DuplicateFile { name: name.to_string() });
    }
    // The directories of 512 files stay far below the mebibyte left for them.
    let room = u64::from(u32::MAX) - (1 << 20);
    let size: u64 = files
        .iter()
        .map(|(_, content)| content.len().next_multiple_of(SECTOR) as u64)
        .sum();
    if size > room {
        return Err(Error::SeedTooLarge { size, limit: room });
    }
    Ok(())
}

fn padding(len: usize) -> Bytes {
    static ZEROS: [u8; SECTOR] = [0; SECTOR];
    Bytes::from_static(&ZEROS).slice(..len.next_multiple_of(SECTOR) - len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, size: usize) -> (FileName, Bytes) {
        (FileName::new(name).unwrap(), vec![b'x'; size].into())
    }

    #[test]
    fn an_image_is_a_whole_number_of_sectors() {
        for size in [0, 1, SECTOR - 1, SECTOR, SECTOR + 1] {
            let image = Image::new(vec![file("a", size), file("b", 3)]).unwrap();
            assert_eq!(image.size() % SECTOR as u64, 0);
            assert!(image.size() >= 128 << 10);
            assert_eq!(image.to_vec().len() as u64, image.size());
        }
    }

    #[test]
    fn contents_are_not_copied() {
        let payload = file("bootstrap", 5 * SECTOR);
        let at = payload.1.as_ptr();
        let image = Image::new(vec![payload]).unwrap();
        assert!(image.chunks().any(|chunk| chunk.as_ptr() == at));
    }

    #[test]
    fn the_same_name_twice_is_refused() {
        let error = Image::new(vec![file("a", 1), file("b", 1), file("a", 2)]).unwrap_err();
        assert!(matches!(error, Error::DuplicateFile { name } if name == "a"));
    }

    #[test]
    fn what_an_image_cannot_hold_is_refused() {
        let many = (0..=MAX_FILES).map(|n| file(&format!("f{n}"), 1)).collect();
        assert!(matches!(Image::new(many).unwrap_err(), Error::TooManyFiles { .. }));
        let big = Bytes::from(vec![0; 1 << 26]);
        let large = (0..64)
            .map(|n| (FileName::new(&format!("f{n}")).unwrap(), big.clone()))
            .collect();
        assert!(matches!(Image::new(large).unwrap_err(), Error::SeedTooLarge { .. }));
    }
}
