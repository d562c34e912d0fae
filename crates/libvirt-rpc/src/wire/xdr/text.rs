//! Strings of the protocol.

use std::{borrow::Cow, fmt, str::Utf8Error};

use super::{Count, Decode, Decoder, Encode, Encoder};
use crate::wire::{Error, net::MESSAGE_STRING_MAX};

/// A string: bytes that are nearly always UTF-8, but a volume name on an odd host need not be.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Vec<u8>);

impl Text {
    /// The bytes as they travel.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, if it is UTF-8.
    ///
    /// # Errors
    /// Says where it is not.
    pub fn as_str(&self) -> Result<&str, Utf8Error> {
        std::str::from_utf8(&self.0)
    }

    /// The text with `U+FFFD` for what is not UTF-8.
    #[must_use]
    pub fn to_string_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// The bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The text with `U+FFFD` for what is not UTF-8, without a copy when all of it is.
    #[must_use]
    pub fn into_string_lossy(self) -> String {
        String::from_utf8(self.0).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Whether there is no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Encode for Text {
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), Error> {
        if let Some(position) = self.0.iter().position(|b| *b == 0) {
            return Err(Error::Nul { position });
        }
        out.limit("string", self.0.len(), MESSAGE_STRING_MAX)?;
        out.length(self.0.len(), MESSAGE_STRING_MAX)?;
        out.padded(&self.0);
        Ok(())
    }
}

impl Decode for Text {
    const MIN: usize = 4;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Error> {
        from.limit("string", MESSAGE_STRING_MAX)?;
        let length = from.length(1)?;
        from.padded(length).map(|bytes| Self(bytes.to_vec()))
    }
}

impl Count for Text {
    fn count(&self) -> usize {
        self.0.len()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_string_lossy())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string_lossy(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_is_refused_before_a_daemon_cuts_there() {
        let mut out = Vec::new();
        let error = Text::from("a\0b").encode(&mut Encoder::new(&mut out)).unwrap_err();
        assert_eq!(error, Error::Nul { position: 1 });
    }

    #[test]
    fn bytes_that_are_no_utf8_survive() {
        let mut from = Decoder::new(&[0, 0, 0, 2, 0xff, b'a', 0, 0]);
        let text = Text::decode(&mut from).unwrap();
        assert_eq!(text.as_bytes(), [0xff, b'a']);
        assert!(text.as_str().is_err());
        assert_eq!(text.to_string(), "\u{fffd}a");
        assert_eq!(text.into_string_lossy(), "\u{fffd}a");
    }
}
