//! SHA-256, in the alphabets that names allow.

use ring::digest::{SHA256, digest};

/// SHA-256 in lower-case base 32 with the digits `0-9a-v`, 52 of them, all usable in a DNS label.
pub(crate) fn base32(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let mut text = String::with_capacity(52);
    let (mut buffer, mut bits) = (0_u16, 0);
    for byte in digest(&SHA256, bytes).as_ref() {
        buffer = buffer << 8 | u16::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            let digit = usize::from(buffer >> bits & 31);
            text.extend(DIGITS.get(digit).map(|digit| char::from(*digit)));
        }
    }
    let rest = usize::from(buffer << (5 - bits) & 31);
    text.extend(DIGITS.get(rest).map(|digit| char::from(*digit)));
    text
}

/// The first bytes of SHA-256.
pub(crate) fn three_bytes(bytes: &[u8]) -> [u8; 3] {
    digest(&SHA256, bytes)
        .as_ref()
        .first_chunk()
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_are_those_of_the_hash() {
        // SHA-256 of nothing begins with e3b0c442 98fc: 11100 01110 11000 01100 01000 10000 10100 ...
        let text = base32(b"");
        assert_eq!(text.len(), 52);
        assert!(text.starts_with("seoc8gk"), "{text}");
    }
}
