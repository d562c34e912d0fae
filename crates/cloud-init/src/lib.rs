//! NoCloud seeds for cloud-init: the documents, checked, and the disk that carries them, as bytes.
//!
//! A machine that boots a cloud image looks for a disk labelled `cidata` and reads from it who it is (`meta-data`), what its
//! operator wants (`user-data`), what its provider wants (`vendor-data`) and how it reaches the network
//! (`network-config`). This crate makes that disk:
//!
//! - **Checked before it is used.** What cloud-init would ignore without a word, and what would keep a node from
//!   registering, is an [`Error`] that says what to do: a host name of more than 63 characters, user-data without a known
//!   first line, YAML that is no map, a network card matched by name.
//! - **The operator's user-data is the operator's.** It is carried byte for byte. What is ours goes into
//!   [`VendorData`], which cloud-init puts below it; where it must go into user-data, it is a MIME part that yields.
//! - **Deterministic.** The same input gives the same bytes: no clock, no randomness. A provider that writes a seed twice
//!   writes the same seed.
//! - **Readable everywhere.** ISO 9660 with Joliet and Rock Ridge; on a mount, every file is root's with mode 0600.
//!
//! It is no cloud-init, reads no seeds, knows no hypervisor, and does no I/O: the caller takes an [`Image`] in pieces that
//! share memory with what went in.
//!
//! ```
//! use cloud_init::{Hostname, InstanceId, MacAddress, MetaData, NetworkConfig, Nic, Part, Seed, UserData, VendorData};
//!
//! let machine = "rack1/machine-17";
//! let meta = MetaData::new(InstanceId::new("machine-17-1")?, Hostname::derive("machine-17", machine));
//! let user = UserData::new("#cloud-config\npackages: [jq]\n")?;
//! assert!(user.secrets().is_empty());
//! let vendor = VendorData::new(vec![Part::new("10-hello", "#!/bin/sh\necho hello\n")?]);
//! let network = NetworkConfig::new(vec![Nic::dhcp(MacAddress::derive(machine))])?;
//!
//! let image = Seed::new(meta, user).vendor_data(vendor).network_config(network).image()?;
//! let mut disk = Vec::new();
//! image.write_to(&mut disk)?;
//! assert_eq!(disk.len() as u64, image.size());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where to start reading: [`Seed`], then [`UserData`].

mod error;
mod hash;
mod hostname;
mod iso;
mod mac;
mod meta;
mod mime;
mod network;
mod part;
mod secret;
mod seed;
mod user_data;
mod yaml;

pub use crate::{
    error::Error,
    hostname::Hostname,
    iso::{FileName, Image, SECTOR},
    mac::MacAddress,
    meta::{InstanceId, MetaData},
    network::{Cidr, NetworkConfig, Nic},
    part::{Part, VendorData},
    secret::{Secret, SecretKind},
    seed::Seed,
    user_data::{Format, UserData},
};
