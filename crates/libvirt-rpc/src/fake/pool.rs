//! Calls about storage pools.

use serde::{Deserialize, Serialize};

use super::{
    call::{Call, Refusal},
    event, saved,
    table::{Entry, Table},
    volume::Volume,
    world::World,
    xml::{Description, normalised},
};
use crate::wire::{
    constant::{
        error::ErrorNumber,
        storage::{ConnectListAllStoragePoolsFlags as Flags, StoragePoolEventLifecycleType as Event, StoragePoolState},
    },
    remote::{
        connect::{ConnectListAllStoragePools, ConnectListAllStoragePoolsRet},
        record::{StoragePoolRef, StorageVolRef},
        storage_pool::{
            StoragePoolBuild, StoragePoolCreate, StoragePoolCreateXml, StoragePoolCreateXmlRet, StoragePoolDefineXml,
            StoragePoolDefineXmlRet, StoragePoolDelete, StoragePoolDestroy, StoragePoolGetAutostart,
            StoragePoolGetAutostartRet, StoragePoolGetInfo, StoragePoolGetInfoRet, StoragePoolGetXmlDesc,
            StoragePoolGetXmlDescRet, StoragePoolIsActive, StoragePoolIsActiveRet, StoragePoolIsPersistent,
            StoragePoolIsPersistentRet, StoragePoolListAllVolumes, StoragePoolListAllVolumesRet,
            StoragePoolLookupByName, StoragePoolLookupByNameRet, StoragePoolLookupByUuid, StoragePoolLookupByUuidRet,
            StoragePoolLookupByVolume, StoragePoolLookupByVolumeRet, StoragePoolRefresh, StoragePoolSetAutostart,
            StoragePoolUndefine,
        },
    },
    xdr::Uuid,
};

/// 1 TiB, of a pool whose description gives no capacity.
const CAPACITY: u64 = 1 << 40;
/// `ENOSPC`.
pub(super) const NO_SPACE: i32 = 28;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Pool {
    pub(super) name: String,
    #[serde(with = "saved::text")]
    pub(super) uuid: Uuid,
    pub(super) xml: String,
    pub(super) path: String,
    pub(super) capacity: u64,
    /// Taken by what is no volume.
    pub(super) others: u64,
    /// Taken by volumes; [`charge`](Self::charge) keeps it.
    pub(super) charged: u64,
    pub(super) active: bool,
    pub(super) persistent: bool,
    pub(super) autostart: bool,
    #[serde(skip)]
    pub(super) volumes: Table<Volume>,
}

impl Entry for Pool {
    type Id = Uuid;

    fn name(&self) -> &str {
        &self.name
    }

    fn id(&self) -> Uuid {
        self.uuid
    }
}

impl Pool {
    pub(super) fn to_ref(&self) -> StoragePoolRef {
        StoragePoolRef {
            name: self.name.as_str().into(),
            uuid: self.uuid,
        }
    }

    pub(super) fn allocation(&self) -> u64 {
        self.others + self.charged
    }

    pub(super) fn available(&self) -> u64 {
        self.capacity.saturating_sub(self.allocation())
    }

    /// Whether a path is that of a file right in the pool's folder.
    pub(super) fn holds(&self, path: &str) -> bool {
        let name = path.strip_prefix(&self.path).and_then(|rest| rest.strip_prefix('/'));
        name.is_some_and(|name| !name.contains('/'))
    }

    /// Takes space away or gives it back; `None` when there is not enough.
    pub(super) fn charge(&mut self, before: u64, after: u64) -> Option<()> {
        if after.saturating_sub(before) > self.available() {
            return None;
        }
        self.charged = (self.charged + after).saturating_sub(before);
        Some(())
    }

    pub(super) fn volume_ref(&self, volume: &Volume) -> StorageVolRef {
        StorageVolRef {
            pool: self.name.as_str().into(),
            name: volume.name.as_str().into(),
            key: volume.path.as_str().into(),
        }
    }

    fn description(&self) -> String {
        let sizes = format!(
            "<capacity unit='bytes'>{}</capacity><allocation unit='bytes'>{}</allocation>\
             <available unit='bytes'>{}</available>",
            self.capacity,
            self.allocation(),
            self.available()
        );
        let mut out = self.xml.clone();
        if let Ok(description) = Description::parse(&self.xml, "pool") {
            let given = description.element(&["capacity"]).map(|node| node.range());
            let after = description.element(&["uuid"]).map(|node| node.range().end);
            match (given, after) {
                (Some(range), _) => out.replace_range(range, &sizes),
                (None, Some(at)) => out.insert_str(at, &sizes),
                (None, None) => {}
            }
        }
        out
    }
}

/// A pool that is not there.
pub(super) fn absent(name: impl std::fmt::Display) -> Refusal {
    let message = format!("Storage pool not found: no storage pool with matching name '{name}'");
    Refusal::new(ErrorNumber::ERR_NO_STORAGE_POOL, message)
}

impl World {
    pub(super) fn pool(&self, wanted: &StoragePoolRef) -> Result<&Pool, Refusal> {
        let found = self.pools.find(&wanted.uuid);
        found.ok_or_else(|| absent(&wanted.name))
    }

    fn pool_mut(&mut self, wanted: &StoragePoolRef) -> Result<&mut Pool, Refusal> {
        let found = self.pools.find_mut(&wanted.uuid);
        found.ok_or_else(|| absent(&wanted.name))
    }

    /// A pool that must be started.
    pub(super) fn active_pool(&self, wanted: &StoragePoolRef) -> Result<&Pool, Refusal> {
        let pool = self.pool(wanted)?;
        pool.check_active().map(|()| pool)
    }

    /// The same, to change it.
    pub(super) fn active_pool_mut(&mut self, wanted: &StoragePoolRef) -> Result<&mut Pool, Refusal> {
        let pool = self.pool_mut(wanted)?;
        pool.check_active().map(|()| pool)
    }

    pub(super) fn define_pool(&mut self, xml: &str, persistent: bool) -> Result<StoragePoolRef, Refusal> {
        let description = Description::parse(xml, "pool")?;
        let name = description.name()?;
        let given = description.uuid()?;
        if let Some(known) = self.pools.named_mut(&name) {
            if given.is_some_and(|given| given != known.uuid) {
                let message = format!("pool '{name}' already exists with uuid {}", known.uuid);
                return Err(Refusal::new(
                    ErrorNumber::ERR_OPERATION_FAILED,
                    format!("operation failed: {message}"),
                ));
            }
            known.xml = normalised(xml, known.uuid);
            known.persistent |= persistent;
            return Ok(known.to_ref());
        }
        let uuid = given.unwrap_or_else(|| self.next_uuid());
        let path = description.text(&["target", "path"]).unwrap_or("/fake");
        let pool = Pool {
            capacity: description.size(&["capacity"], 1).unwrap_or(CAPACITY),
            xml: normalised(xml, uuid),
            path: path.trim_end_matches('/').to_owned(),
            name,
            uuid,
            others: 0,
            charged: 0,
            active: false,
            persistent,
            autostart: false,
            volumes: Table::default(),
        };
        let of = pool.to_ref();
        self.pools.push(pool);
        if persistent {
            event::pool(self, &of, Event::DEFINED.0);
        }
        Ok(of)
    }

    fn set_pool(&mut self, of: &StoragePoolRef, active: bool) -> Result<(), Refusal> {
        let pool = self.pool_mut(of)?;
        if pool.active == active {
            let state = if active { "already" } else { "not" };
            let name = &pool.name;
            return Err(Refusal::invalid(format!(
                "Requested operation is not valid: storage pool '{name}' is {state} active"
            )));
        }
        pool.active = active;
        let persistent = pool.persistent;
        event::pool(self, of, if active { Event::STARTED.0 } else { Event::STOPPED.0 });
        if !active && !persistent {
            self.pools.forget(&of.uuid);
        }
        Ok(())
    }
}

impl Pool {
    pub(super) fn check_active(&self) -> Result<(), Refusal> {
        if self.active {
            return Ok(());
        }
        let name = &self.name;
        Err(Refusal::invalid(format!(
            "Requested operation is not valid: storage pool '{name}' is not active"
        )))
    }

    fn check_inactive(&self) -> Result<(), Refusal> {
        if !self.active {
            return Ok(());
        }
        let name = &self.name;
        Err(Refusal::invalid(format!(
            "Requested operation is not valid: storage pool '{name}' is still active"
        )))
    }
}

pub(super) fn answer(call: &mut Call<'_>) {
    find(call);
    change(call);
    look(call);
}

fn find(call: &mut Call<'_>) {
    call.on::<ConnectListAllStoragePools>(|world, args| {
        let flags = Flags(args.flags);
        let pair = |yes: Flags, no: Flags, is: bool| {
            (!flags.contains(yes) && !flags.contains(no)) || flags.contains(if is { yes } else { no })
        };
        let fits = |p: &&Pool| {
            pair(Flags::ACTIVE, Flags::INACTIVE, p.active)
                && pair(Flags::PERSISTENT, Flags::TRANSIENT, p.persistent)
                && pair(Flags::AUTOSTART, Flags::NO_AUTOSTART, p.autostart)
        };
        let pools: Vec<_> = world.pools.iter().filter(fits).map(Pool::to_ref).collect();
        Ok(ConnectListAllStoragePoolsRet {
            ret: u32::try_from(pools.len()).unwrap_or(u32::MAX),
            pools,
        })
    });
    call.on::<StoragePoolLookupByName>(|world, args| {
        let found = world.pools.named(&args.name.to_string_lossy());
        let found = found.map(|p| StoragePoolLookupByNameRet { pool: p.to_ref() });
        found.ok_or_else(|| absent(&args.name))
    });
    call.on::<StoragePoolLookupByUuid>(|world, args| {
        let found = world.pools.find(&args.uuid);
        let found = found.map(|p| StoragePoolLookupByUuidRet { pool: p.to_ref() });
        found.ok_or_else(|| absent(args.uuid))
    });
    call.on::<StoragePoolLookupByVolume>(|world, args| {
        let found = world.pools.named(&args.vol.pool.to_string_lossy());
        let found = found.map(|p| StoragePoolLookupByVolumeRet { pool: p.to_ref() });
        found.ok_or_else(|| absent(&args.vol.pool))
    });
}

fn change(call: &mut Call<'_>) {
    call.on::<StoragePoolDefineXml>(|world, args| {
        let pool = world.define_pool(&args.xml.to_string_lossy(), true)?;
        Ok(StoragePoolDefineXmlRet { pool })
    });
    call.on::<StoragePoolCreateXml>(|world, args| {
        let pool = world.define_pool(&args.xml.to_string_lossy(), false)?;
        world.set_pool(&pool, true)?;
        Ok(StoragePoolCreateXmlRet { pool })
    });
    call.on::<StoragePoolCreate>(|world, args| world.set_pool(&args.pool, true));
    call.on::<StoragePoolDestroy>(|world, args| world.set_pool(&args.pool, false));
    call.on::<StoragePoolBuild>(|world, args| world.pool(&args.pool)?.check_inactive());
    call.on::<StoragePoolDelete>(|world, args| {
        let pool = world.pool_mut(&args.pool)?;
        pool.check_inactive()?;
        pool.volumes.retain(|_| false);
        pool.charged = 0;
        Ok(())
    });
    call.on::<StoragePoolRefresh>(|world, args| {
        world.active_pool(&args.pool)?;
        event::pool_refreshed(world, &args.pool);
        Ok(())
    });
    call.on::<StoragePoolUndefine>(|world, args| {
        world.pool(&args.pool)?.check_inactive()?;
        event::pool(world, &args.pool, Event::UNDEFINED.0);
        world.pools.forget(&args.pool.uuid);
        Ok(())
    });
}

fn look(call: &mut Call<'_>) {
    call.on::<StoragePoolGetInfo>(|world, args| {
        let pool = world.pool(&args.pool)?;
        let state = if pool.active {
            StoragePoolState::RUNNING
        } else {
            StoragePoolState::INACTIVE
        };
        Ok(StoragePoolGetInfoRet {
            state: u8::try_from(state.0).unwrap_or(0),
            capacity: pool.capacity,
            allocation: pool.allocation(),
            available: pool.available(),
        })
    });
    call.on::<StoragePoolGetXmlDesc>(|world, args| {
        world.pool(&args.pool).map(|p| StoragePoolGetXmlDescRet {
            xml: p.description().into(),
        })
    });
    call.on::<StoragePoolGetAutostart>(|world, args| {
        world.pool(&args.pool).map(|p| StoragePoolGetAutostartRet {
            autostart: p.autostart.into(),
        })
    });
    call.on::<StoragePoolSetAutostart>(|world, args| {
        world.pool_mut(&args.pool).map(|p| p.autostart = args.autostart != 0)
    });
    call.on::<StoragePoolIsActive>(|world, args| {
        world.pool(&args.pool).map(|p| StoragePoolIsActiveRet {
            active: p.active.into(),
        })
    });
    call.on::<StoragePoolIsPersistent>(|world, args| {
        world.pool(&args.pool).map(|p| StoragePoolIsPersistentRet {
            persistent: p.persistent.into(),
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
