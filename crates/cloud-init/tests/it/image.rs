//! What goes into an image comes out of it.

use std::collections::BTreeMap;

use bytes::Bytes;
use cloud_init::{FileName, Hostname, Image, InstanceId, MacAddress, MetaData, NetworkConfig, Nic, Seed, UserData};
use proptest::prelude::*;

use crate::reader;

/// Sets of files with names and sizes around every limit.
pub(crate) fn files() -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
    let name = "[A-Za-z0-9_][A-Za-z0-9._-]{0,63}";
    let content = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        (2040_usize..2060, any::<u8>()).prop_map(|(size, byte)| vec![byte; size]),
    ];
    prop::collection::btree_map(name, content, 1..40)
}

pub(crate) fn image(files: &BTreeMap<String, Vec<u8>>) -> Image {
    let files = files
        .iter()
        .map(|(name, content)| (FileName::new(name).unwrap(), Bytes::from(content.clone())));
    Image::new(files.collect()).unwrap()
}

proptest! {
    #[test]
    fn every_file_is_read_back_from_each_tree(files in files()) {
        let image = image(&files);
        let bytes = image.to_vec();
        let volume = reader::read(&bytes);
        prop_assert_eq!(volume.label, "cidata");
        prop_assert_eq!(u64::from(volume.sectors) * 2048, image.size());
        prop_assert_eq!(volume.plain.len(), files.len());
        for tree in [&volume.rock_ridge, &volume.joliet] {
            let read: BTreeMap<_, _> = tree.iter().map(|(name, file)| (name.clone(), file.content.clone())).collect();
            prop_assert_eq!(&read, &files);
        }
        prop_assert!(volume.rock_ridge.values().all(|file| file.posix == Some([0o100_600, 1, 0, 0])));
    }

    #[test]
    fn the_same_files_give_the_same_bytes(files in files()) {
        prop_assert_eq!(image(&files).to_vec(), image(&files).to_vec());
    }
}

#[test]
fn a_seed_is_what_it_was_made_of() {
    let meta = MetaData::new(InstanceId::new("m1-1").unwrap(), Hostname::new("m1").unwrap());
    let network = NetworkConfig::new(vec![Nic::dhcp(MacAddress::derive("m1"))]).unwrap();
    let payload = Bytes::from(vec![7; 64 << 20]);
    let seed = Seed::new(meta.clone(), UserData::new("#!/bin/sh\n").unwrap())
        .network_config(network.clone())
        .file(FileName::new("bootstrap").unwrap(), payload.clone());
    let mut bytes = Vec::new();
    seed.image().unwrap().write_to(&mut bytes).unwrap();
    let files = reader::read(&bytes).rock_ridge;
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        ["bootstrap", "meta-data", "network-config", "user-data"]
    );
    assert_eq!(files["meta-data"].content, meta.to_yaml().into_bytes());
    assert_eq!(files["user-data"].content, b"#!/bin/sh\n");
    assert_eq!(files["network-config"].content, network.to_yaml().into_bytes());
    assert!(files["bootstrap"].content == payload);
}

#[test]
fn an_extra_file_cannot_take_the_place_of_a_document() {
    let meta = MetaData::new(InstanceId::new("m1-1").unwrap(), Hostname::new("m1").unwrap());
    let seed = Seed::new(meta, UserData::none()).file(FileName::new("user-data").unwrap(), "#!/bin/sh\n");
    assert!(
        seed.image()
            .unwrap_err()
            .to_string()
            .contains("\"user-data\" occurs twice")
    );
}
