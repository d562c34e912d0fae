//! Values to bytes.

use crate::wire::Error;

/// A value with an XDR form.
pub trait Encode {
    /// Appends the value.
    ///
    /// # Errors
    /// When a length exceeds the protocol's limit or a string contains a NUL; part of the value may have been written.
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), Error>;
}

/// A value whose length the protocol limits.
pub trait Count {
    /// Number of elements or bytes.
    fn count(&self) -> usize;
}

/// Writes to the end of a buffer.
#[derive(Debug)]
pub struct Encoder<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Encoder<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Appends a word.
    pub fn word(&mut self, word: u32) {
        self.out.extend_from_slice(&word.to_be_bytes());
    }

    /// Appends a length, if `max` allows it.
    ///
    /// # Errors
    /// When it does not.
    pub fn length(&mut self, length: usize, max: u32) -> Result<(), Error> {
        self.limit("length", length, max)?;
        self.word(u32::try_from(length).unwrap_or(max));
        Ok(())
    }

    /// Checks the length of a field.
    ///
    /// # Errors
    /// When it exceeds `max`.
    pub fn limit(&self, field: &'static str, length: usize, max: u32) -> Result<(), Error> {
        if usize::try_from(max).is_ok_and(|max| length > max) {
            return Err(Error::TooLong { field, length, max });
        }
        Ok(())
    }

    /// Appends bytes as they are, filled up to a whole word.
    pub fn padded(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        let fill = bytes.len().wrapping_neg() & 3;
        self.out.extend(std::iter::repeat_n(0, fill));
    }
}

macro_rules! word {
    ($($ty:ty),*) => {$(
        impl Encode for $ty {
            fn encode(&self, out: &mut Encoder<'_>) -> Result<(), Error> {
                // Narrow types are sign- or zero-extended to a word, as C's promotion does.
                out.word(i64::from(*self) as u32);
                Ok(())
            }
        }
    )*};
}

word!(i8, u8, i16, u16, i32, u32);

macro_rules! double_word {
    ($($ty:ty),*) => {$(
        impl Encode for $ty {
            fn encode(&self, out: &mut Encoder<'_>) -> Result<(), Error> {
                out.out.extend_from_slice(&self.to_be_bytes());
                Ok(())
            }
        }
    )*};
}

double_word!(i64, u64, f64);

impl Encode for () {
    fn encode(&self, _: &mut Encoder<'_>) -> Result<(), Error> {
        Ok(())
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), Error> {
        (**self).encode(out)
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), Error> {
        out.word(u32::from(self.is_some()));
        self.as_ref().map_or(Ok(()), |value| value.encode(out))
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), Error> {
        out.length(self.len(), u32::MAX)?;
        self.iter().try_for_each(|value| value.encode(out))
    }
}

impl<T> Count for Vec<T> {
    fn count(&self) -> usize {
        self.len()
    }
}
