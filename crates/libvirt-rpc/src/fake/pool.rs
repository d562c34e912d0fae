//! Calls about storage pools.

use super::{
    call::{Call, Refusal},
    event,
    world::{Pool, World},
    xml::{Description, normalised},
};
use crate::wire::{
    constant::{
        error::ErrorNumber,
        storage::{StoragePoolEventLifecycleType as Event, StoragePoolState},
    },
    remote::{
        connect::{ConnectListAllStoragePools, ConnectListAllStoragePoolsRet},
        record::StoragePoolRef,
        storage_pool::{
            StoragePoolBuild, StoragePoolCreate, StoragePoolCreateXml, StoragePoolCreateXmlRet, StoragePoolDefineXml,
            StoragePoolDefineXmlRet, StoragePoolDelete, StoragePoolDestroy, StoragePoolGetAutostart,
            StoragePoolGetAutostartRet, StoragePoolGetInfo, StoragePoolGetInfoRet, StoragePoolGetXmlDesc,
            StoragePoolGetXmlDescRet, StoragePoolIsActive, StoragePoolIsActiveRet, StoragePoolListAllVolumes,
            StoragePoolListAllVolumesRet, StoragePoolLookupByName, StoragePoolLookupByNameRet, StoragePoolLookupByUuid,
            StoragePoolLookupByUuidRet, StoragePoolLookupByVolume, StoragePoolLookupByVolumeRet, StoragePoolRefresh,
            StoragePoolSetAutostart, StoragePoolUndefine,
        },
    },
    xdr::Uuid,
};

/// 1 TiB, of a pool whose description gives no capacity.
const CAPACITY: u64 = 1 << 40;

impl World {
    pub(super) fn pool(&mut self, wanted: &StoragePoolRef) -> Result<&mut Pool, Refusal> {
        self.pool_by(|p| p.uuid == wanted.uuid, &wanted.name.to_string_lossy())
    }

    pub(super) fn pool_by(&mut self, is: impl Fn(&Pool) -> bool, name: &str) -> Result<&mut Pool, Refusal> {
        let found = self.pools.iter_mut().find(|p| is(p));
        let message = || format!("Storage pool not found: no storage pool with matching name '{name}'");
        found.ok_or_else(|| Refusal::new(ErrorNumber::ERR_NO_STORAGE_POOL, message()))
    }

    /// A pool that must be started.
    pub(super) fn active_pool(&mut self, wanted: &StoragePoolRef) -> Result<&mut Pool, Refusal> {
        let pool = self.pool(wanted)?;
        if pool.active {
            return Ok(pool);
        }
        Err(Refusal::invalid(format!(
            "Requested operation is not valid: storage pool '{}' is not active",
            pool.name
        )))
    }

    pub(super) fn define_pool(&mut self, xml: &str, persistent: bool) -> Result<Uuid, Refusal> {
        let description = Description::parse(xml, "pool")?;
        let name = description.name()?;
        let given = description.uuid()?;
        if let Some(known) = self.pools.iter_mut().find(|p| p.name == name) {
            known.xml = normalised(xml, "pool", known.uuid);
            known.persistent |= persistent;
            return Ok(known.uuid);
        }
        let uuid = given.unwrap_or_else(|| self.next_uuid());
        let path = description
            .text(&["target", "path"])
            .unwrap_or("/fake")
            .trim_end_matches('/')
            .to_owned();
        self.pools.push(Pool {
            capacity: description.size(&["capacity"], 1).unwrap_or(CAPACITY),
            xml: normalised(xml, "pool", uuid),
            name,
            uuid,
            path,
            active: false,
            persistent,
            autostart: false,
            volumes: Vec::new(),
        });
        self.tell_pool(uuid, Event::DEFINED);
        Ok(uuid)
    }

    fn set_pool(&mut self, uuid: Uuid, active: bool) -> Result<StoragePoolRef, Refusal> {
        let pool = self.pool_by(|p| p.uuid == uuid, "")?;
        if pool.active == active {
            let state = if active { "already" } else { "not" };
            let name = &pool.name;
            return Err(Refusal::invalid(format!(
                "Requested operation is not valid: storage pool '{name}' is {state} active"
            )));
        }
        pool.active = active;
        let of = pool.to_ref();
        self.tell_pool(uuid, if active { Event::STARTED } else { Event::STOPPED });
        self.pools.retain(|p| p.persistent || p.active);
        Ok(of)
    }

    fn tell_pool(&self, uuid: Uuid, what: Event) {
        if let Some(pool) = self.pools.iter().find(|p| p.uuid == uuid) {
            event::pool(self, &pool.to_ref(), what.0);
        }
    }
}

pub(super) fn answer(call: &mut Call<'_>) {
    call.on::<ConnectListAllStoragePools>(|world, _| {
        let pools: Vec<_> = world.pools.iter().map(Pool::to_ref).collect();
        Ok(ConnectListAllStoragePoolsRet {
            ret: u32::try_from(pools.len()).unwrap_or(u32::MAX),
            pools,
        })
    });
    call.on::<StoragePoolLookupByName>(|world, args| {
        let name = args.name.to_string_lossy();
        world
            .pool_by(|p| p.name == name, &name)
            .map(|p| StoragePoolLookupByNameRet { pool: p.to_ref() })
    });
    call.on::<StoragePoolLookupByUuid>(|world, args| {
        let name = args.uuid.to_string();
        world
            .pool_by(|p| p.uuid == args.uuid, &name)
            .map(|p| StoragePoolLookupByUuidRet { pool: p.to_ref() })
    });
    call.on::<StoragePoolLookupByVolume>(|world, args| {
        let name = args.vol.pool.to_string_lossy();
        world
            .pool_by(|p| p.name == name, &name)
            .map(|p| StoragePoolLookupByVolumeRet { pool: p.to_ref() })
    });
    call.on::<StoragePoolDefineXml>(|world, args| {
        let uuid = world.define_pool(&args.xml.to_string_lossy(), true)?;
        world
            .pool_by(|p| p.uuid == uuid, "")
            .map(|p| StoragePoolDefineXmlRet { pool: p.to_ref() })
    });
    call.on::<StoragePoolCreateXml>(|world, args| {
        let uuid = world.define_pool(&args.xml.to_string_lossy(), false)?;
        world.set_pool(uuid, true).map(|pool| StoragePoolCreateXmlRet { pool })
    });
    call.on::<StoragePoolCreate>(|world, args| {
        world.pool(&args.pool)?;
        world.set_pool(args.pool.uuid, true).map(drop)
    });
    call.on::<StoragePoolDestroy>(|world, args| {
        world.pool(&args.pool)?;
        world.set_pool(args.pool.uuid, false).map(drop)
    });
    call.on::<StoragePoolBuild>(|world, args| world.pool(&args.pool).map(drop));
    call.on::<StoragePoolDelete>(|world, args| world.pool(&args.pool).map(|p| p.volumes.clear()));
    call.on::<StoragePoolRefresh>(|world, args| world.active_pool(&args.pool).map(drop));
    call.on::<StoragePoolUndefine>(|world, args| {
        let pool = world.pool(&args.pool)?;
        if pool.active {
            return Err(Refusal::invalid(format!(
                "Requested operation is not valid: storage pool '{}' is still active",
                pool.name
            )));
        }
        world.tell_pool(args.pool.uuid, Event::UNDEFINED);
        world.pools.retain(|p| p.uuid != args.pool.uuid);
        Ok(())
    });
    call.on::<StoragePoolGetInfo>(|world, args| {
        let pool = world.pool(&args.pool)?;
        let state = if pool.active {
            StoragePoolState::RUNNING
        } else {
            StoragePoolState::INACTIVE
        };
        let allocation = pool.allocation();
        Ok(StoragePoolGetInfoRet {
            state: u8::try_from(state.0).unwrap_or(0),
            capacity: pool.capacity,
            allocation,
            available: pool.capacity.saturating_sub(allocation),
        })
    });
    call.on::<StoragePoolGetXmlDesc>(|world, args| {
        world.pool(&args.pool).map(|p| StoragePoolGetXmlDescRet {
            xml: p.xml.as_str().into(),
        })
    });
    call.on::<StoragePoolGetAutostart>(|world, args| {
        world.pool(&args.pool).map(|p| StoragePoolGetAutostartRet {
            autostart: p.autostart.into(),
        })
    });
    call.on::<StoragePoolSetAutostart>(|world, args| world.pool(&args.pool).map(|p| p.autostart = args.autostart != 0));
    call.on::<StoragePoolIsActive>(|world, args| {
        world.pool(&args.pool).map(|p| StoragePoolIsActiveRet {
            active: p.active.into(),
        })
    });
    call.on::<StoragePoolListAllVolumes>(|world, args| {
        let pool = world.active_pool(&args.pool)?;
        let vols: Vec<_> = pool.volumes.iter().map(|v| pool.volume_ref(v)).collect();
        Ok(StoragePoolListAllVolumesRet {
            ret: u32::try_from(vols.len()).unwrap_or(u32::MAX),
            vols,
        })
    });
}
