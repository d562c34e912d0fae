//! Numbers that a seed repeats.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// SplitMix64. Everything a check makes up comes from here, so that a failure is repeated by the seed it prints.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
    drawn: Arc<AtomicU64>,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            state: seed,
            drawn: Arc::default(),
        }
    }

    /// The stream of one behaviour: the same for a seed, whatever else runs.
    pub(crate) fn of(seed: u64, id: &str) -> Self {
        // FNV-1a.
        let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash)
    }

    /// A number that stands for everything drawn so far, here and from forks.
    pub(crate) fn digest(&self) -> u64 {
        self.drawn.load(Ordering::Relaxed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // Commutes, because forks may be drawn from in any order.
        self.drawn.fetch_add(mixed, Ordering::Relaxed);
        mixed
    }

    /// A stream of its own for a part of the check.
    pub(crate) fn fork(&mut self) -> Self {
        Self {
            state: self.next(),
            drawn: Arc::clone(&self.drawn),
        }
    }

    /// Within 0..bound; 0 where the bound is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }

    /// Within low..=high.
    pub(crate) fn within(&mut self, low: i64, high: i64) -> i64 {
        let span = high.abs_diff(low).saturating_add(1);
        low.wrapping_add_unsigned(self.next() % span)
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// Text with everything protobuf allows in it: NUL, controls, letters, the astral planes.
    pub(crate) fn text(&mut self, chars: usize) -> String {
        let mut within = |low: u32, count: usize| {
            let offset = u32::try_from(self.below(count)).unwrap_or(0);
            char::from_u32(low + offset).unwrap_or('?')
        };
        (0..chars)
            .map(|_| match within(0, 6) as u32 {
                0 => within(0, 0x20),
                1 => within(0x80, 0x20),
                2 => within(0x370, 0x60),
                3 => within(0x1_f600, 0x40),
                _ => within(0x20, 0x5f),
            })
            .collect()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_another_does_not() {
        let draw = |seed, id| {
            let mut random = Random::of(seed, id);
            let text = random.fork().text(20);
            (text, random.within(-5, 5), random.digest())
        };
        assert_eq!(draw(7, "B1201"), draw(7, "B1201"));
        assert_ne!(draw(7, "B1201"), draw(8, "B1201"));
        assert_ne!(draw(7, "B1201"), draw(7, "B1204"));
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let mut random = Random::new(1);
        for _ in 0..1000 {
            assert!((-3..=4).contains(&random.within(-3, 4)));
            assert!(random.below(3) < 3);
        }
        random.within(i64::MIN, i64::MAX);
    }
}
