//! Fields as ISO 9660 writes them.

use super::SECTOR;

/// 16 bits, little-endian and then big-endian (ECMA-119 7.2.3).
pub(super) fn both16(value: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (value.to_le_bytes(), value.to_be_bytes());
    [a, b, c, d]
}

/// 32 bits, little-endian and then big-endian (ECMA-119 7.3.3).
pub(super) fn both32(value: u32) -> [u8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (value.to_le_bytes(), value.to_be_bytes());
    [a, b, c, d, e, f, g, h]
}

/// The one date there is, 2000-01-01 00:00:00 UTC, in a directory record.
pub(super) const DATE: [u8; 7] = [100, 1, 1, 0, 0, 0, 0];

/// The same date in a volume descriptor.
pub(super) const LONG_DATE: &[u8; 17] = b"2000010100000000\0";

/// No date, in a volume descriptor.
pub(super) const NO_DATE: &[u8; 17] = b"0000000000000000\0";

/// `text` as big-endian UCS-2. Only ASCII comes here.
pub(super) fn ucs2(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

/// `bytes` and zeros up to the next sector.
pub(super) fn sector(bytes: &[u8]) -> Vec<u8> {
    let mut sector = bytes.to_vec();
    sector.resize(bytes.len().next_multiple_of(SECTOR), 0);
    sector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_both_orders() {
        assert_eq!(both16(0x1234), [0x34, 0x12, 0x12, 0x34]);
        assert_eq!(both32(0x1234_5678), [0x78, 0x56, 0x34, 0x12, 0x12, 0x34, 0x56, 0x78]);
    }
}
