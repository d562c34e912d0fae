//! Storage pools.

use super::calls;
use crate::wire::{
    constant::storage::{
        StoragePoolBuildFlags, StoragePoolCreateFlags, StoragePoolDeleteFlags, StoragePoolState, StorageXMLFlags,
    },
    remote::{
        record::{StoragePoolRef, StorageVolRef},
        storage_pool::{
            StoragePoolBuild, StoragePoolBuildArgs, StoragePoolCreate, StoragePoolCreateArgs, StoragePoolCreateXml,
            StoragePoolCreateXmlArgs, StoragePoolDefineXml, StoragePoolDefineXmlArgs, StoragePoolDelete,
            StoragePoolDeleteArgs, StoragePoolDestroy, StoragePoolDestroyArgs, StoragePoolGetAutostart,
            StoragePoolGetAutostartArgs, StoragePoolGetInfo, StoragePoolGetInfoArgs, StoragePoolGetXmlDesc,
            StoragePoolGetXmlDescArgs, StoragePoolIsActive, StoragePoolIsActiveArgs, StoragePoolLookupByName,
            StoragePoolLookupByNameArgs, StoragePoolLookupByUuid, StoragePoolLookupByUuidArgs,
            StoragePoolLookupByVolume, StoragePoolLookupByVolumeArgs, StoragePoolRefresh, StoragePoolRefreshArgs,
            StoragePoolSetAutostart, StoragePoolSetAutostartArgs, StoragePoolUndefine, StoragePoolUndefineArgs,
        },
    },
    xdr::Uuid,
};

/// A storage pool in numbers; sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolInfo {
    /// The state.
    pub state: StoragePoolState,
    /// All of it.
    pub capacity: u64,
    /// What volumes use.
    pub allocation: u64,
    /// What is left.
    pub available: u64,
}

calls! {
    /// The pool of a name.
    storage_pool_lookup_by_name(name: &str) -> StoragePoolRef
        = StoragePoolLookupByName (StoragePoolLookupByNameArgs { name: name.into() }) => |r| r.pool;
    /// The pool of a UUID.
    storage_pool_lookup_by_uuid(uuid: Uuid) -> StoragePoolRef
        = StoragePoolLookupByUuid (StoragePoolLookupByUuidArgs { uuid }) => |r| r.pool;
    /// The pool that holds a volume.
    storage_pool_lookup_by_volume(volume: &StorageVolRef) -> StoragePoolRef
        = StoragePoolLookupByVolume (StoragePoolLookupByVolumeArgs { vol: volume.clone() }) => |r| r.pool;
    /// Defines a pool.
    storage_pool_define(xml: &str) -> StoragePoolRef
        = StoragePoolDefineXml (StoragePoolDefineXmlArgs { xml: xml.into(), flags: 0 }) => |r| r.pool;
    /// Starts a pool that is gone when it stops.
    storage_pool_create_xml(xml: &str, flags: StoragePoolCreateFlags) -> StoragePoolRef
        = StoragePoolCreateXml (StoragePoolCreateXmlArgs { xml: xml.into(), flags: flags.bits() }) => |r| r.pool;
    /// Starts a pool.
    storage_pool_create(pool: &StoragePoolRef, flags: StoragePoolCreateFlags)
        = StoragePoolCreate (StoragePoolCreateArgs { pool: pool.clone(), flags: flags.bits() });
    /// Makes what a pool is kept in: a directory, a file system, a volume group.
    storage_pool_build(pool: &StoragePoolRef, flags: StoragePoolBuildFlags)
        = StoragePoolBuild (StoragePoolBuildArgs { pool: pool.clone(), flags: flags.bits() });
    /// Stops a pool; its content stays.
    storage_pool_destroy(pool: &StoragePoolRef) = StoragePoolDestroy (StoragePoolDestroyArgs { pool: pool.clone() });
    /// Removes what a stopped pool is kept in.
    storage_pool_delete(pool: &StoragePoolRef, flags: StoragePoolDeleteFlags)
        = StoragePoolDelete (StoragePoolDeleteArgs { pool: pool.clone(), flags: flags.bits() });
    /// Forgets a stopped pool.
    storage_pool_undefine(pool: &StoragePoolRef) = StoragePoolUndefine (StoragePoolUndefineArgs { pool: pool.clone() });
    /// Looks for volumes that came or went behind the daemon's back.
    storage_pool_refresh(pool: &StoragePoolRef)
        = StoragePoolRefresh (StoragePoolRefreshArgs { pool: pool.clone(), flags: 0 });
    /// A pool in numbers.
    storage_pool_info(pool: &StoragePoolRef) -> PoolInfo
        = StoragePoolGetInfo (StoragePoolGetInfoArgs { pool: pool.clone() })
        => |r| PoolInfo {
            state: StoragePoolState(r.state.into()),
            capacity: r.capacity,
            allocation: r.allocation,
            available: r.available,
        };
    /// The description.
    storage_pool_xml(pool: &StoragePoolRef, flags: StorageXMLFlags) -> String
        = StoragePoolGetXmlDesc (StoragePoolGetXmlDescArgs { pool: pool.clone(), flags: flags.bits() })
        => |r| r.xml.into_string_lossy();
    /// Whether it starts with the host.
    storage_pool_autostart(pool: &StoragePoolRef) -> bool
        = StoragePoolGetAutostart (StoragePoolGetAutostartArgs { pool: pool.clone() }) => |r| r.autostart != 0;
    /// Says whether it starts with the host.
    storage_pool_set_autostart(pool: &StoragePoolRef, autostart: bool)
        = StoragePoolSetAutostart (StoragePoolSetAutostartArgs { pool: pool.clone(), autostart: autostart.into() });
    /// Whether it is started.
    storage_pool_is_active(pool: &StoragePoolRef) -> bool
        = StoragePoolIsActive (StoragePoolIsActiveArgs { pool: pool.clone() }) => |r| r.active != 0;
}
