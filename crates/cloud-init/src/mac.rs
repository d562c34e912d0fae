//! MAC addresses.

use std::{fmt, str::FromStr};

use crate::{Error, hash};

/// The address of one network card: neither all zero nor a group's. Shown in lower case with colons.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress([u8; 6]);

impl MacAddress {
    /// Checks an address.
    ///
    /// # Errors
    /// [`Error::MacAddress`].
    pub fn new(bytes: [u8; 6]) -> Result<Self, Error> {
        let address = Self(bytes);
        let group = bytes.first().is_some_and(|first| first & 1 == 1);
        if group || bytes == [0; 6] {
            Err(Error::MacAddress {
                text: address.to_string(),
            })
        } else {
            Ok(address)
        }
    }

    /// The same address for the same text, of QEMU's range `52:54:00`: 24 bits of SHA-256 tell them apart.
    ///
    /// In 1,000 machines of one network two have the same address with a chance of 3 %; a caller that has them all in
    /// sight tries another text then.
    #[must_use]
    pub fn derive(identity: &str) -> Self {
        let [a, b, c] = hash::three_bytes(identity.as_bytes());
        Self([0x52, 0x54, 0x00, a, b, c])
    }

    /// The six bytes.
    #[must_use]
    pub fn bytes(self) -> [u8; 6] {
        self.0
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MacAddress({self})")
    }
}

impl FromStr for MacAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::MacAddress { text: text.to_owned() };
        let byte = |part: &str| {
            let is_hex = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_hex.then(|| u8::from_str_radix(part, 16).ok()).flatten()
        };
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        let bytes: [u8; 6] = bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(bad)?;
        Self::new(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_is_one_cards() {
        assert_eq!(
            "52:54:00:AB:cd:01".parse::<MacAddress>().unwrap().to_string(),
            "52:54:00:ab:cd:01"
        );
        for text in [
            "",
            "52:54:00:ab:cd",
            "52:54:00:ab:cd:01:02",
            "52-54-00-ab-cd-01",
            "5:54:00:ab:cd:01",
            "+2:54:00:ab:cd:01",
            "01:00:5e:00:00:01",
            "ff:ff:ff:ff:ff:ff",
            "00:00:00:00:00:00",
        ] {
            assert!(text.parse::<MacAddress>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_derived_address_is_valid_and_stable(identity in any::<String>()) {
            let address = MacAddress::derive(&identity);
            prop_assert_eq!(MacAddress::new(address.bytes()).unwrap(), address);
            prop_assert_eq!(MacAddress::derive(&identity), address);
            prop_assert_eq!(address.to_string().parse::<MacAddress>().unwrap(), address);
        }
    }
}
