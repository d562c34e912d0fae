//! The bytes of a volume. What is all zeros takes no room, as in a sparse file, and what many volumes have is there once:
//! of thousands of seeds, little differs.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

/// Bytes in a block, as in a sector of a seed; a block is there or all zeros.
const BLOCK: usize = 2048;

/// The blocks of all volumes of this process.
static SHARED: LazyLock<Mutex<Shared>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Shared {
    blocks: HashSet<Arc<[u8]>>,
    /// With so many, those that no volume has any more are let go.
    limit: usize,
}

/// The one block with these bytes.
fn shared(bytes: &[u8]) -> Arc<[u8]> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = shared.blocks.get(bytes) {
        return Arc::clone(known);
    }
    if shared.blocks.len() >= shared.limit {
        shared.blocks.retain(|block| Arc::strong_count(block) > 1);
        shared.limit = (2 * shared.blocks.len()).max(1024);
    }
    let block: Arc<[u8]> = bytes.into();
    shared.blocks.insert(Arc::clone(&block));
    block
}

/// Bytes by blocks.
#[derive(Debug, Default)]
pub(super) struct Content {
    length: usize,
    blocks: BTreeMap<usize, Arc<[u8]>>,
    touched: BTreeSet<usize>,
}

impl Content {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// The same bytes for another volume, in the same room.
    pub(super) fn copied(&self) -> Self {
        Self {
            length: self.length,
            blocks: self.blocks.clone(),
            touched: self.blocks.keys().copied().collect(),
        }
    }

    /// Writes data, or zeros where there is none, and grows for it.
    pub(super) fn write(&mut self, from: usize, to: usize, data: Option<&[u8]>) {
        self.length = self.length.max(to);
        let mut at = from;
        while at < to {
            let number = at / BLOCK;
            let (start, end) = (at % BLOCK, (to - number * BLOCK).min(BLOCK));
            let piece = data.and_then(|data| data.get(at - from..at - from + (end - start)));
            let mut block = self
                .blocks
                .get(&number)
                .map_or_else(|| vec![0; BLOCK], |block| block.to_vec());
            if let Some(room) = block.get_mut(start..end) {
                match piece {
                    Some(piece) => room.copy_from_slice(piece),
                    None => room.fill(0),
                }
            }
            self.set(number, &block);
            at = number * BLOCK + end;
        }
    }

    /// Makes all of it zeros.
    pub(super) fn wipe(&mut self) {
        self.touched.extend(self.blocks.keys());
        self.blocks.clear();
    }

    fn set(&mut self, number: usize, block: &[u8]) {
        self.touched.insert(number);
        if block.iter().all(|byte| *byte == 0) {
            self.blocks.remove(&number);
        } else {
            self.blocks.insert(number, shared(block));
        }
    }

    /// The bytes from one place to another, as far as there are any.
    pub(super) fn read(&self, from: usize, to: usize) -> Vec<u8> {
        let to = to.min(self.length);
        let from = from.min(to);
        let mut out = vec![0; to - from];
        for (number, block) in self.blocks.range(from / BLOCK..to.div_ceil(BLOCK)) {
            let start = number * BLOCK;
            let (low, high) = (from.max(start), to.min(start + BLOCK));
            if let (Some(room), Some(bytes)) = (
                out.get_mut(low - from..high - from),
                block.get(low - start..high - start),
            ) {
                room.copy_from_slice(bytes);
            }
        }
        out
    }

    /// The blocks that changed since this was last asked; `None` for one that is all zeros now.
    pub(super) fn take_touched(&mut self) -> Vec<(usize, Option<Arc<[u8]>>)> {
        let touched = std::mem::take(&mut self.touched);
        touched
            .into_iter()
            .map(|number| (number, self.blocks.get(&number).cloned()))
            .collect()
    }

    /// All blocks there are.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (usize, &Arc<[u8]>)> {
        self.blocks.iter().map(|(number, block)| (*number, block))
    }

    /// Puts a block where it was in another life.
    pub(super) fn put_back(&mut self, number: usize, block: &[u8]) {
        self.blocks.insert(number, shared(block));
    }

    pub(super) fn set_len(&mut self, length: usize) {
        self.length = length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_whatever_blocks_it_crosses() {
        let mut content = Content::default();
        let data: Vec<u8> = (0..3 * BLOCK).map(|n| (n % 251) as u8 + 1).collect();
        content.write(100, 100 + data.len(), Some(&data));
        assert_eq!(content.len(), 100 + data.len());
        assert_eq!(content.read(100, usize::MAX), data);
        assert_eq!(content.read(0, 100), [0; 100]);
        content.write(BLOCK, 2 * BLOCK, None);
        assert_eq!(content.read(BLOCK, 2 * BLOCK), vec![0; BLOCK]);
        assert_eq!(content.read(BLOCK - 1, BLOCK)[0], data[BLOCK - 101]);
    }

    #[test]
    fn zeros_take_no_room_and_changes_are_told_once() {
        let mut content = Content::default();
        content.write(0, 100 * BLOCK, None);
        content.write(50 * BLOCK, 50 * BLOCK + 1, Some(b"x"));
        assert_eq!((content.len(), content.blocks().count()), (100 * BLOCK, 1));
        let told = content.take_touched();
        assert_eq!(told.iter().filter(|(_, block)| block.is_some()).count(), 1);
        assert!(content.take_touched().is_empty());
        let twin = content.copied();
        let (one, other) = (content.blocks().next().unwrap().1, twin.blocks().next().unwrap().1);
        assert!(Arc::ptr_eq(one, other));
        let mut third = Content::default();
        third.write(0, 1, Some(b"x"));
        assert!(
            Arc::ptr_eq(one, third.blocks().next().unwrap().1),
            "the same bytes are there once"
        );
        content.wipe();
        assert_eq!(content.take_touched(), [(50, None)]);
        assert_eq!(content.len(), 100 * BLOCK);
    }
}
