//! Arbitrary values out of arbitrary bytes, for tests over every type.

use super::xdr::{CharArray, Chars, Opaque, Text, Uuid};

/// Bytes that decide what a sample looks like; zeroes when they run out, so that samples end.
pub(crate) struct Source<'a> {
    rest: &'a [u8],
}

impl<'a> Source<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else {
            return 0;
        };
        self.rest = rest;
        *first
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    fn list<T>(&mut self, mut each: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let length = self.below(6);
        (0..length).map(|_| each(self)).collect()
    }
}

/// A type of which any value can be made.
pub(crate) trait Sample {
    fn sample(source: &mut Source<'_>) -> Self;
}

macro_rules! number {
    ($($ty:ty),*) => {$(
        impl Sample for $ty {
            fn sample(source: &mut Source<'_>) -> Self {
                Self::from_be_bytes(source.array())
            }
        }
    )*};
}

number!(i8, u8, i16, u16, i32, u32, i64, u64);

impl Sample for f64 {
    fn sample(source: &mut Source<'_>) -> Self {
        // NaN is not equal to itself.
        let number = Self::from_be_bytes(source.array());
        if number.is_nan() { 0.5 } else { number }
    }
}

impl Sample for Text {
    fn sample(source: &mut Source<'_>) -> Self {
        Self::from(source.list(|s| s.byte().max(1)))
    }
}

impl Sample for Uuid {
    fn sample(source: &mut Source<'_>) -> Self {
        Self(source.array())
    }
}

impl Sample for Opaque {
    fn sample(source: &mut Source<'_>) -> Self {
        Self(source.list(Source::byte))
    }
}

impl Sample for Chars {
    fn sample(source: &mut Source<'_>) -> Self {
        Self(source.list(Source::byte))
    }
}

impl<const N: usize> Sample for CharArray<N> {
    fn sample(source: &mut Source<'_>) -> Self {
        Self(source.array())
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(source: &mut Source<'_>) -> Self {
        (source.byte() & 1 == 1).then(|| T::sample(source))
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(source: &mut Source<'_>) -> Self {
        source.list(T::sample)
    }
}
