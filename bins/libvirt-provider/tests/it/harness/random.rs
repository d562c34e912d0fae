//! Numbers that a seed repeats.

/// SplitMix64: the whole state is the seed, so that a failure is repeated by the number it prints.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A stream of its own for a part of the test.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// Within 0..bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// Within low..=high.
    pub(crate) fn within(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.next() % (high - low + 1).unsigned_abs()).unwrap()
    }

    /// True once in so many times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Text with everything protobuf allows in it: NUL, controls, letters, the astral planes.
    pub(crate) fn text(&mut self, chars: usize) -> String {
        (0..chars)
            .map(|_| match self.below(6) {
                0 => char::from_u32(self.next() as u32 % 0x20).unwrap(),
                1 => char::from_u32(0x80 + self.next() as u32 % 0x20).unwrap(),
                2 => char::from_u32(0x370 + self.next() as u32 % 0x60).unwrap(),
                3 => char::from_u32(0x1_f600 + self.next() as u32 % 0x40).unwrap(),
                _ => char::from_u32(0x20 + self.next() as u32 % 0x5f).unwrap(),
            })
            .collect()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}
