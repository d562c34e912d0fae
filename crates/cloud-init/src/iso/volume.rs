//! Volume descriptors and path tables.

use super::{
    SECTOR,
    directory::root_record,
    field::{LONG_DATE, NO_DATE, both16, both32, sector, ucs2},
};

/// By this label NoCloud finds its seed.
const LABEL: &str = "cidata";
const APPLICATION: &str = "CLOUD-INIT NOCLOUD SEED";

/// A path table of the root alone.
const PATH_TABLE_SIZE: u32 = 10;

/// UCS-2 level 3: what makes a supplementary descriptor Joliet's.
const JOLIET_ESCAPE: &[u8; 3] = b"%/E";

/// A run of sectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) sector: u32,
    pub(super) size: u32,
}

impl Place {
    /// `size` bytes from `sector` on.
    pub(super) fn new(sector: u32, size: usize) -> Self {
        // Checked before anything is laid out: a whole image is shorter than 4 GiB.
        Self {
            sector,
            size: size as u32,
        }
    }

    /// The first sector after it.
    pub(super) fn end(self) -> u32 {
        self.sector + self.size.div_ceil(SECTOR as u32)
    }
}

/// What differs between the primary descriptor and Joliet's.
#[derive(Debug)]
pub(super) struct Descriptor {
    kind: u8,
    escape: &'static [u8],
    text: fn(&str, usize) -> Vec<u8>,
    sectors: u32,
    path_tables: u32,
    root: Place,
}

impl Descriptor {
    /// Of the tree of plain names.
    pub(super) fn primary(sectors: u32, root: Place) -> Self {
        Self {
            kind: 1,
            escape: b"",
            text: ascii,
            sectors,
            path_tables: 19,
            root,
        }
    }

    /// Of Joliet's tree.
    pub(super) fn joliet(sectors: u32, root: Place) -> Self {
        Self {
            kind: 2,
            escape: JOLIET_ESCAPE,
            text: wide,
            sectors,
            path_tables: 21,
            root,
        }
    }

    /// One sector (ECMA-119 8.4 and 8.5).
    pub(super) fn bytes(&self) -> Vec<u8> {
        let text = self.text;
        let mut bytes = vec![self.kind];
        bytes.extend(b"CD001\x01\0");
        bytes.extend(text("", 32));
        bytes.extend(text(LABEL, 32));
        bytes.extend([0; 8]);
        bytes.extend(both32(self.sectors));
        bytes.extend(self.escape);
        bytes.resize(120, 0);
        bytes.extend(both16(1));
        bytes.extend(both16(1));
        bytes.extend(both16(SECTOR as u16));
        bytes.extend(both32(PATH_TABLE_SIZE));
        bytes.extend(self.path_tables.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend((self.path_tables + 1).to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(root_record(self.root));
        for (value, width) in [
            ("", 128),
            ("", 128),
            ("", 128),
            (APPLICATION, 128),
            ("", 37),
            ("", 37),
            ("", 37),
        ] {
            bytes.extend(text(value, width));
        }
        for date in [LONG_DATE, LONG_DATE, NO_DATE, NO_DATE] {
            bytes.extend(date);
        }
        bytes.push(1);
        sector(&bytes)
    }
}

/// The descriptor that ends the list of them.
pub(super) fn terminator() -> Vec<u8> {
    sector(b"\xffCD001\x01")
}

/// A path table of the root alone, in the byte order of its arguments (ECMA-119 9.4).
pub(super) fn path_table(root: [u8; 4], parent: [u8; 2]) -> Vec<u8> {
    sector(&[&[1, 0], &root[..], &parent, &[0, 0]].concat())
}

fn ascii(text: &str, width: usize) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(width, b' ');
    bytes
}

/// Padded with spaces of two bytes; where the width is odd, a zero stands last.
fn wide(text: &str, width: usize) -> Vec<u8> {
    let mut bytes = ucs2(text);
    while bytes.len() + 1 < width {
        bytes.extend([0, b' ']);
    }
    bytes.resize(width, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_standard_puts_them() {
        for (descriptor, kind) in [
            (Descriptor::primary(300, Place::new(24, SECTOR)), 1),
            (Descriptor::joliet(300, Place::new(25, SECTOR)), 2),
        ] {
            let bytes = descriptor.bytes();
            assert_eq!(bytes.len(), SECTOR);
            assert_eq!(bytes[..6], [kind, b'C', b'D', b'0', b'0', b'1']);
            assert_eq!(bytes[80..88], both32(300));
            assert_eq!(bytes[128..132], both16(2048));
            assert_eq!(bytes[156], 34);
            assert_eq!(bytes[813..830], *LONG_DATE);
            assert_eq!(bytes[881], 1);
        }
    }

    #[test]
    fn path_tables_are_as_long_as_they_say() {
        let table = path_table(24_u32.to_le_bytes(), 1_u16.to_le_bytes());
        assert_eq!(table[..PATH_TABLE_SIZE as usize], [1, 0, 24, 0, 0, 0, 1, 0, 0, 0]);
    }
}
