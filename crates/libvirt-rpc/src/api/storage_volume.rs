//! Storage volumes.

use super::calls;
use crate::wire::{
    constant::storage::{
        StorageVolCreateFlags, StorageVolDeleteFlags, StorageVolResizeFlags, StorageVolType, StorageVolWipeAlgorithm,
    },
    remote::{
        record::{StoragePoolRef, StorageVolRef},
        storage_vol::{
            StorageVolCreateXml, StorageVolCreateXmlArgs, StorageVolCreateXmlFrom, StorageVolCreateXmlFromArgs,
            StorageVolDelete, StorageVolDeleteArgs, StorageVolGetInfo, StorageVolGetInfoArgs, StorageVolGetPath,
            StorageVolGetPathArgs, StorageVolGetXmlDesc, StorageVolGetXmlDescArgs, StorageVolLookupByKey,
            StorageVolLookupByKeyArgs, StorageVolLookupByName, StorageVolLookupByNameArgs, StorageVolLookupByPath,
            StorageVolLookupByPathArgs, StorageVolResize, StorageVolResizeArgs, StorageVolWipePattern,
            StorageVolWipePatternArgs,
        },
    },
};

/// A volume in numbers; sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VolumeInfo {
    /// What it is: a file, a block device, a directory.
    pub kind: StorageVolType,
    /// The size a guest sees.
    pub capacity: u64,
    /// The space it takes.
    pub allocation: u64,
}

calls! {
    /// The volume of a name in a pool.
    volume_lookup_by_name(pool: &StoragePoolRef, name: &str) -> StorageVolRef
        = StorageVolLookupByName (StorageVolLookupByNameArgs { pool: pool.clone(), name: name.into() }) => |r| r.vol;
    /// The volume of a key, which is unique on the host.
    volume_lookup_by_key(key: &str) -> StorageVolRef
        = StorageVolLookupByKey (StorageVolLookupByKeyArgs { key: key.into() }) => |r| r.vol;
    /// The volume at a path.
    volume_lookup_by_path(path: &str) -> StorageVolRef
        = StorageVolLookupByPath (StorageVolLookupByPathArgs { path: path.into() }) => |r| r.vol;
    /// Makes a volume.
    volume_create(pool: &StoragePoolRef, xml: &str, flags: StorageVolCreateFlags) -> StorageVolRef
        = StorageVolCreateXml (StorageVolCreateXmlArgs { pool: pool.clone(), xml: xml.into(), flags: flags.bits() })
        => |r| r.vol;
    /// Makes a volume with the content of another. May take minutes: give it a deadline and a connection of its own.
    volume_clone(pool: &StoragePoolRef, xml: &str, source: &StorageVolRef, flags: StorageVolCreateFlags) -> StorageVolRef
        = StorageVolCreateXmlFrom (StorageVolCreateXmlFromArgs {
            pool: pool.clone(),
            xml: xml.into(),
            clonevol: source.clone(),
            flags: flags.bits(),
        }) => |r| r.vol;
    /// Deletes a volume.
    volume_delete(volume: &StorageVolRef, flags: StorageVolDeleteFlags)
        = StorageVolDelete (StorageVolDeleteArgs { vol: volume.clone(), flags: flags.bits() });
    /// Overwrites a volume. May take minutes.
    volume_wipe(volume: &StorageVolRef, algorithm: StorageVolWipeAlgorithm)
        = StorageVolWipePattern (StorageVolWipePatternArgs {
            vol: volume.clone(),
            algorithm: algorithm.0.cast_unsigned(),
            flags: 0,
        });
    /// Changes the size, in bytes.
    volume_resize(volume: &StorageVolRef, capacity: u64, flags: StorageVolResizeFlags)
        = StorageVolResize (StorageVolResizeArgs { vol: volume.clone(), capacity, flags: flags.bits() });
    /// A volume in numbers.
    volume_info(volume: &StorageVolRef) -> VolumeInfo
        = StorageVolGetInfo (StorageVolGetInfoArgs { vol: volume.clone() })
        => |r| VolumeInfo {
            kind: StorageVolType(r.kind.into()),
            capacity: r.capacity,
            allocation: r.allocation,
        };
    /// The description.
    volume_xml(volume: &StorageVolRef) -> String
        = StorageVolGetXmlDesc (StorageVolGetXmlDescArgs { vol: volume.clone(), flags: 0 })
        => |r| r.xml.into_string_lossy();
    /// Where it is on the host.
    volume_path(volume: &StorageVolRef) -> String
        = StorageVolGetPath (StorageVolGetPathArgs { vol: volume.clone() }) => |r| r.name.into_string_lossy();
}
