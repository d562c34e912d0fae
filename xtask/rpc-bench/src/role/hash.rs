//! Bytes that differ from run to run, and their hash.

use std::io::Read;

use anyhow::Result;
use ring::digest::{Context, SHA256};

/// So many bytes that follow from the seed (SplitMix64).
pub(super) fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut all = Vec::with_capacity(bytes + 8);
    while all.len() < bytes {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        all.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    all.truncate(bytes);
    all
}

/// The SHA-256 of everything there is to read.
pub(crate) fn of(mut source: impl Read) -> Result<String> {
    let mut context = Context::new(&SHA256);
    let mut block = vec![0; 1 << 20];
    loop {
        let got = source.read(&mut block)?;
        if got == 0 {
            break;
        }
        context.update(block.get(..got).unwrap_or_default());
    }
    Ok(context
        .finish()
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_standard() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of(&b"abc"[..]).unwrap(), expected);
    }

    #[test]
    fn another_seed_gives_other_bytes() {
        assert_eq!(pattern(1001, 1).len(), 1001);
        assert_ne!(pattern(1001, 1), pattern(1001, 2));
    }
}
