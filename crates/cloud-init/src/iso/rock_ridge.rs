//! System use entries: what Rock Ridge adds to a directory record, so that a mount shows names, modes and owners.

use super::{
    ROCK_RIDGE_ID,
    field::{DATE, both32},
};

/// A regular file of mode 0600: a seed is nobody's business but root's.
const FILE_MODE: u32 = 0o100_600;
const DIRECTORY_MODE: u32 = 0o040_700;

/// Flags of the `RR` entry: which of the entries follow.
const HAS_ATTRIBUTES: u8 = 1 << 0;
const HAS_NAME: u8 = 1 << 3;
const HAS_TIMES: u8 = 1 << 7;

/// Times that `TF` records: modification, access, change of attributes.
const TIMES: u8 = 0b1110;

/// The entries of the root's record of itself.
pub(super) fn of_root() -> Vec<u8> {
    // "SP" says that system use entries are spoken here.
    let mut entries = entry(b"SP", &[0xbe, 0xef, 0]);
    entries.extend(of_parent());
    let at = [both32(ROCK_RIDGE_ID), both32(0), both32(size(&identification()))];
    entries.extend(entry(b"CE", &at.concat()));
    entries
}

/// The entries of the root's record of its parent, which is itself.
pub(super) fn of_parent() -> Vec<u8> {
    let mut entries = entry(b"RR", &[HAS_ATTRIBUTES | HAS_TIMES]);
    entries.extend(attributes(DIRECTORY_MODE, 2));
    entries.extend(times());
    entries
}

/// The entries of a file.
pub(super) fn of_file(name: &str) -> Vec<u8> {
    let mut entries = entry(b"RR", &[HAS_ATTRIBUTES | HAS_NAME | HAS_TIMES]);
    entries.extend(entry(b"NM", &[&[0], name.as_bytes()].concat()));
    entries.extend(attributes(FILE_MODE, 1));
    entries.extend(times());
    entries
}

/// The entry that names Rock Ridge. Too long for a record: it has a sector of its own, where `CE` points.
pub(super) fn identification() -> Vec<u8> {
    const ID: &[u8] = b"RRIP_1991A";
    const DESCRIPTION: &[u8] = b"THE ROCK RIDGE INTERCHANGE PROTOCOL PROVIDES SUPPORT FOR POSIX FILE SYSTEM SEMANTICS";
    const SOURCE: &[u8] = b"PLEASE CONTACT DISC PUBLISHER FOR SPECIFICATION SOURCE.  SEE PUBLISHER IDENTIFIER IN \
        PRIMARY VOLUME DESCRIPTOR FOR CONTACT INFORMATION.";
    let lengths = [ID, DESCRIPTION, SOURCE].map(|text| text.len() as u8);
    entry(b"ER", &[&lengths[..], &[1], ID, DESCRIPTION, SOURCE].concat())
}

fn attributes(mode: u32, links: u32) -> Vec<u8> {
    let (owner, group) = (0, 0);
    entry(b"PX", &[mode, links, owner, group].map(both32).concat())
}

fn times() -> Vec<u8> {
    entry(b"TF", &[&[TIMES], &DATE[..], &DATE, &DATE].concat())
}

/// Signature, length of the whole, version, data (SUSP 4.1).
fn entry(signature: &[u8; 2], data: &[u8]) -> Vec<u8> {
    let head = 4;
    // Names end at 64 bytes, and the longest fixed entry is the 237 bytes of "ER".
    let size = (head + data.len()) as u8;
    [&signature[..], &[size, 1], data].concat()
}

fn size(bytes: &[u8]) -> u32 {
    bytes.len() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_say_their_length() {
        assert_eq!(size(&identification()), 237);
        assert_eq!(entry(b"NM", &[0, b'x']), b"NM\x06\x01\0x");
        for entries in [of_root(), of_parent(), of_file("meta-data"), of_file(&"n".repeat(64))] {
            let mut rest = &entries[..];
            while let [_, _, size, _, ..] = rest {
                rest = &rest[usize::from(*size)..];
            }
            assert!(rest.is_empty());
        }
    }
}
