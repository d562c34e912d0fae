//! Bytes to values.

use crate::wire::Error;

/// A value that can be read from its XDR form.
pub trait Decode: Sized {
    /// The fewest bytes any such value takes; bounds what a declared count may allocate.
    const MIN: usize;

    /// Reads the value from the front.
    ///
    /// # Errors
    /// When the bytes are no such value. Bytes after it are not looked at: newer peers may append.
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Error>;
}

/// Reads from the front of a buffer.
#[derive(Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Reads `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next word.
    ///
    /// # Errors
    /// When fewer than four bytes are left.
    pub fn word(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let Some((head, rest)) = self.rest.split_first_chunk() else {
            return Err(self.missing(N));
        };
        self.rest = rest;
        Ok(*head)
    }

    /// The next `length` bytes without the padding after them.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn padded(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let whole = length.checked_next_multiple_of(4).ok_or_else(|| self.missing(length))?;
        let Some((head, rest)) = self.rest.split_at_checked(whole) else {
            return Err(self.missing(whole));
        };
        self.rest = rest;
        Ok(head.get(..length).unwrap_or(head))
    }

    /// The length word of what comes next, each element taking at least `each` bytes.
    ///
    /// # Errors
    /// When so many elements cannot be there.
    pub fn length(&mut self, each: usize) -> Result<usize, Error> {
        let length = usize::try_from(self.word()?).unwrap_or(usize::MAX);
        if length > self.rest.len() / each.max(1) {
            return Err(self.missing(length.saturating_mul(each)));
        }
        Ok(length)
    }

    /// Checks the length word of a field without reading it.
    ///
    /// # Errors
    /// When it exceeds `max`.
    pub fn limit(&self, field: &'static str, max: u32) -> Result<(), Error> {
        let length = Decoder { rest: self.rest }.word()?;
        if length > max {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            return Err(Error::TooLong { field, length, max });
        }
        Ok(())
    }

    fn missing(&self, wanted: usize) -> Error {
        Error::Truncated {
            missing: wanted.saturating_sub(self.rest.len()),
        }
    }
}

macro_rules! word {
    ($($ty:ty),*) => {$(
        impl Decode for $ty {
            const MIN: usize = 4;

            fn decode(from: &mut Decoder<'_>) -> Result<Self, Error> {
                // The upper bytes of a narrow type carry nothing.
                from.word().map(|word| word as Self)
            }
        }
    )*};
}

word!(i8, u8, i16, u16, i32, u32);

macro_rules! double_word {
    ($($ty:ty),*) => {$(
        impl Decode for $ty {
            const MIN: usize = 8;

            fn decode(from: &mut Decoder<'_>) -> Result<Self, Error> {
                from.array().map(Self::from_be_bytes)
            }
        }
    )*};
}

double_word!(i64, u64, f64);

impl Decode for () {
    const MIN: usize = 0;

    fn decode(_: &mut Decoder<'_>) -> Result<Self, Error> {
        Ok(())
    }
}

impl<T: Decode> Decode for Option<T> {
    const MIN: usize = 4;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Error> {
        match from.word()? {
            0 => Ok(None),
            1 => T::decode(from).map(Some),
            word => Err(Error::NotOptional { word }),
        }
    }
}

impl<T: Decode> Decode for Vec<T> {
    const MIN: usize = 4;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Error> {
        let length = from.length(T::MIN)?;
        let mut out = Self::with_capacity(length);
        for _ in 0..length {
            out.push(T::decode(from)?);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declared_count_allocates_nothing_that_is_not_there() {
        let bytes = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1];
        assert!(matches!(
            Vec::<u32>::decode(&mut Decoder::new(&bytes)),
            Err(Error::Truncated { .. })
        ));
    }

    #[test]
    fn absent_is_not_empty_and_nothing_else_is_either() {
        let read = |bytes: &[u8]| Option::<u32>::decode(&mut Decoder::new(bytes));
        assert_eq!(read(&[0; 4]), Ok(None));
        assert_eq!(read(&[0, 0, 0, 1, 0, 0, 0, 0]), Ok(Some(0)));
        assert_eq!(read(&[0, 0, 0, 2, 0, 0, 0, 0]), Err(Error::NotOptional { word: 2 }));
    }

    #[test]
    fn padding_is_skipped_and_must_be_there() {
        let mut from = Decoder::new(b"abcdeXXXrest");
        assert_eq!(from.padded(5), Ok(&b"abcde"[..]));
        assert_eq!(from.rest(), b"rest");
        assert_eq!(from.padded(5), Err(Error::Truncated { missing: 4 }));
    }
}
