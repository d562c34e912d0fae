//! UUIDs: 16 raw bytes, no length.

use std::{fmt, str::FromStr};

use super::{Decode, Decoder, Encode, Encoder};
use crate::wire::Error;

/// The UUID of a domain, network, pool or secret.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

/// A text that is no UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a UUID: 32 hexadecimal digits are expected, with or without dashes")]
pub struct UuidError;

impl Encode for Uuid {
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), Error> {
        out.padded(&self.0);
        Ok(())
    }
}

impl Decode for Uuid {
    const MIN: usize = 16;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Error> {
        from.array().map(Self)
    }
}

impl FromStr for Uuid {
    type Err = UuidError;

    fn from_str(text: &str) -> Result<Self, UuidError> {
        let mut digits = text.chars().filter(|c| *c != '-');
        let mut digit = || digits.next().and_then(|c| c.to_digit(16)).ok_or(UuidError);
        let mut out = [0; 16];
        for byte in &mut out {
            *byte = u8::try_from(digit()? << 4 | digit()?).map_err(|_| UuidError)?;
        }
        digits.next().map_or(Ok(Self(out)), |_| Err(UuidError))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.0.iter().enumerate() {
            let dash = if matches!(position, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_read() {
        let text = "6695eb01-f6a4-8304-79aa-97f2502e193f";
        let uuid: Uuid = text.parse().unwrap();
        assert_eq!(uuid.to_string(), text);
        assert_eq!(text.replace('-', "").parse(), Ok(uuid));
        assert_eq!("6695".parse::<Uuid>(), Err(UuidError));
        assert_eq!(format!("{text}0").parse::<Uuid>(), Err(UuidError));
        assert_eq!("é".repeat(32).parse::<Uuid>(), Err(UuidError));
    }
}
