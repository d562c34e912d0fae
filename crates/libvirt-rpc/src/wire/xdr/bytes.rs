//! Byte arrays: `opaque`, which is compact, and `char`, which spends a word on each byte.

use std::fmt;

use super::{Count, Decode, Decoder, Encode, Encoder};
use crate::wire::Error;

/// `opaque name<MAX>`: bytes as they are.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Opaque(pub Vec<u8>);

/// `char name<MAX>`: bytes, each of which travels as a word.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Chars(pub Vec<u8>);

/// `char name[N]`: a C buffer, each byte of which travels as a word.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CharArray<const N: usize>(pub [u8; N]);

impl<const N: usize> CharArray<N> {
    /// The bytes before the first NUL.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        self.0.split(|b| *b == 0).next().unwrap_or_default()
    }
}

impl<const N: usize> Default for CharArray<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl Encode for Opaque {
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), Error> {
        out.length(self.0.len(), u32::MAX)?;
        out.padded(&self.0);
        Ok(())
    }
}

impl Decode for Opaque {
    const MIN: usize = 4;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Error> {
        let length = from.length(1)?;
        from.padded(length).map(|bytes| Self(bytes.to_vec()))
    }
}

impl Encode for Chars {
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), Error> {
        out.length(self.0.len(), u32::MAX)?;
        self.0.iter().try_for_each(|byte| byte.cast_signed().encode(out))
    }
}

impl Decode for Chars {
    const MIN: usize = 4;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Error> {
        let length = from.length(4)?;
        (0..length)
            .map(|_| u8::decode(from))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl<const N: usize> Encode for CharArray<N> {
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), Error> {
        self.0.iter().try_for_each(|byte| byte.cast_signed().encode(out))
    }
}

impl<const N: usize> Decode for CharArray<N> {
    const MIN: usize = 4 * N;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Error> {
        let mut out = Self::default();
        for byte in &mut out.0 {
            *byte = u8::decode(from)?;
        }
        Ok(out)
    }
}

impl Count for Opaque {
    fn count(&self) -> usize {
        self.0.len()
    }
}

impl Count for Chars {
    fn count(&self) -> usize {
        self.0.len()
    }
}

impl From<Vec<u8>> for Opaque {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<Vec<u8>> for Chars {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

impl fmt::Debug for Chars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

impl<const N: usize> fmt::Debug for CharArray<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.text()), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_char_takes_a_word_and_is_signed() {
        let mut out = Vec::new();
        Chars(vec![b'a', 0x80]).encode(&mut Encoder::new(&mut out)).unwrap();
        assert_eq!(out, [0, 0, 0, 2, 0, 0, 0, b'a', 0xff, 0xff, 0xff, 0x80]);
        assert_eq!(Chars::decode(&mut Decoder::new(&out)), Ok(Chars(vec![b'a', 0x80])));
    }

    #[test]
    fn an_opaque_byte_takes_a_byte() {
        let mut out = Vec::new();
        Opaque(vec![1, 2]).encode(&mut Encoder::new(&mut out)).unwrap();
        assert_eq!(out, [0, 0, 0, 2, 1, 2, 0, 0]);
    }
}
