//! Reads an ISO 9660 image the way the standards say, and takes nothing for granted.

use std::collections::BTreeMap;

const SECTOR: usize = 2048;

/// Files of one tree by their names.
pub(crate) type Files = BTreeMap<String, File>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) content: Vec<u8>,
    /// Mode, links, owner and group of Rock Ridge.
    pub(crate) posix: Option<[u32; 4]>,
}

/// What an image says in its three ways.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) label: String,
    pub(crate) sectors: u32,
    pub(crate) plain: Files,
    pub(crate) rock_ridge: Files,
    pub(crate) joliet: Files,
}

pub(crate) fn read(image: &[u8]) -> Volume {
    assert!(
        image[..16 * SECTOR].iter().all(|byte| *byte == 0),
        "the system area is not ours"
    );
    let primary = sector(image, 16);
    let joliet = sector(image, 17);
    assert_eq!(primary[..7], *b"\x01CD001\x01");
    assert_eq!(joliet[..7], *b"\x02CD001\x01");
    assert_eq!(joliet[88..91], *b"%/E");
    assert_eq!(sector(image, 18)[..7], *b"\xffCD001\x01");
    for descriptor in [primary, joliet] {
        path_tables(image, descriptor);
    }
    let records = directory(image, primary);
    let mut plain = Files::new();
    let mut rock_ridge = Files::new();
    for record in &records {
        let name = String::from_utf8(record.name.clone()).unwrap();
        let (alternate, posix) = system_use(&record.system_use);
        let file = File {
            content: record.content(image),
            posix,
        };
        assert!(plain.insert(name, file.clone()).is_none());
        assert!(rock_ridge.insert(alternate.expect("a Rock Ridge name"), file).is_none());
    }
    let joliet_files = directory(image, joliet).into_iter().map(|record| {
        let (name, content) = (wide(&record.name), record.content(image));
        (name, File { content, posix: None })
    });
    Volume {
        label: String::from_utf8(primary[40..72].to_vec())
            .unwrap()
            .trim_end()
            .to_owned(),
        sectors: both32(&primary[80..88]),
        plain,
        rock_ridge,
        joliet: joliet_files.collect(),
    }
}

struct Record {
    sector: u32,
    size: u32,
    name: Vec<u8>,
    system_use: Vec<u8>,
}

impl Record {
    fn content(&self, image: &[u8]) -> Vec<u8> {
        let start = self.sector as usize * SECTOR;
        image[start..start + self.size as usize].to_vec()
    }
}

/// The files of a root directory. Checks the two records of the directory itself and the order of the rest.
fn directory(image: &[u8], descriptor: &[u8]) -> Vec<Record> {
    let root = record(&descriptor[156..190]);
    assert_eq!(both16(&descriptor[128..132]), 2048);
    assert_eq!(root.size as usize % SECTOR, 0);
    let bytes = root.content(image);
    let mut records = Vec::new();
    for sector in bytes.chunks(SECTOR) {
        let mut at = 0;
        while at < SECTOR && sector[at] > 0 {
            let length = usize::from(sector[at]);
            records.push(record(&sector[at..at + length]));
            at += length;
        }
        assert!(sector[at..].iter().all(|byte| *byte == 0));
    }
    let files = records.split_off(2);
    for (own, name) in records.iter().zip([[0], [1]]) {
        assert_eq!(
            (own.sector, own.size, &own.name[..]),
            (root.sector, root.size, &name[..])
        );
    }
    assert!(files.is_sorted_by(|one, next| sort_key(&one.name) < sort_key(&next.name)));
    files
}

/// Names are compared part by part, each as if padded with spaces (ECMA-119 9.3).
fn sort_key(name: &[u8]) -> Vec<Vec<u8>> {
    if !name.ends_with(b";1") {
        return vec![name.to_vec()];
    }
    name.split(|byte| b".;".contains(byte)).map(<[u8]>::to_vec).collect()
}

fn record(bytes: &[u8]) -> Record {
    assert_eq!(usize::from(bytes[0]), bytes.len());
    assert_eq!(bytes.len() % 2, 0);
    assert_eq!(both16(&bytes[28..32]), 1);
    let name_end = 33 + usize::from(bytes[32]);
    Record {
        sector: both32(&bytes[2..10]),
        size: both32(&bytes[10..18]),
        name: bytes[33..name_end].to_vec(),
        system_use: bytes[name_end + usize::from(bytes[32]).is_multiple_of(2) as usize..].to_vec(),
    }
}

/// Rock Ridge's name, and mode, links, owner and group.
fn system_use(mut entries: &[u8]) -> (Option<String>, Option<[u32; 4]>) {
    let (mut name, mut posix) = (None, None);
    while entries.len() >= 4 {
        let (entry, rest) = entries.split_at(usize::from(entries[2]));
        match &entry[..2] {
            b"NM" => name = Some(String::from_utf8(entry[5..].to_vec()).unwrap()),
            b"PX" => posix = Some([4, 12, 20, 28].map(|at| both32(&entry[at..at + 8]))),
            _ => {}
        }
        entries = rest;
    }
    (name, posix)
}

fn path_tables(image: &[u8], descriptor: &[u8]) {
    let root = record(&descriptor[156..190]).sector;
    assert_eq!(both32(&descriptor[132..140]), 10);
    let little = u32::from_le_bytes(descriptor[140..144].try_into().unwrap());
    let big = u32::from_be_bytes(descriptor[148..152].try_into().unwrap());
    let (little, big) = (sector(image, little), sector(image, big));
    assert_eq!(
        little[..10],
        *[&[1, 0][..], &root.to_le_bytes(), &[1, 0, 0, 0]].concat()
    );
    assert_eq!(big[..10], *[&[1, 0][..], &root.to_be_bytes(), &[0, 1, 0, 0]].concat());
}

fn sector(image: &[u8], number: u32) -> &[u8] {
    &image[number as usize * SECTOR..][..SECTOR]
}

fn both16(bytes: &[u8]) -> u16 {
    let value = u16::from_le_bytes(bytes[..2].try_into().unwrap());
    assert_eq!(value, u16::from_be_bytes(bytes[2..4].try_into().unwrap()));
    value
}

fn both32(bytes: &[u8]) -> u32 {
    let value = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    assert_eq!(value, u32::from_be_bytes(bytes[4..8].try_into().unwrap()));
    value
}

fn wide(bytes: &[u8]) -> String {
    let units: Vec<u16> = bytes
        .chunks(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
        .collect();
    String::from_utf16(&units).unwrap()
}
