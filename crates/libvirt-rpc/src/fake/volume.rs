//! Calls about volumes.

use super::{
    call::{Call, Refusal},
    world::{Pool, Volume, World},
    xml::Description,
};
use crate::wire::{
    constant::error::ErrorNumber,
    remote::{
        record::{StoragePoolRef, StorageVolRef},
        storage_vol::{
            StorageVolCreateXml, StorageVolCreateXmlFrom, StorageVolCreateXmlFromRet, StorageVolCreateXmlRet,
            StorageVolDelete, StorageVolGetInfo, StorageVolGetInfoRet, StorageVolGetPath, StorageVolGetPathRet,
            StorageVolGetXmlDesc, StorageVolGetXmlDescRet, StorageVolLookupByKey, StorageVolLookupByKeyRet,
            StorageVolLookupByName, StorageVolLookupByNameRet, StorageVolLookupByPath, StorageVolLookupByPathRet,
            StorageVolResize, StorageVolWipe, StorageVolWipePattern,
        },
    },
};

fn missing(name: impl std::fmt::Display) -> Refusal {
    let message = format!("Storage volume not found: no storage vol with matching name '{name}'");
    Refusal::new(ErrorNumber::ERR_NO_STORAGE_VOL, message)
}

impl World {
    pub(super) fn volume(&mut self, wanted: &StorageVolRef) -> Result<&mut Volume, Refusal> {
        let volumes = self
            .pools
            .iter_mut()
            .filter(|p| wanted.pool == *p.name)
            .flat_map(|p| &mut p.volumes);
        volumes
            .into_iter()
            .find(|v| wanted.name == *v.name)
            .ok_or_else(|| missing(&wanted.name))
    }

    fn volume_at(&self, path: &str) -> Result<StorageVolRef, Refusal> {
        let find = |pool: &Pool| pool.volumes.iter().find(|v| v.path == path).map(|v| pool.volume_ref(v));
        self.pools.iter().find_map(find).ok_or_else(|| missing(path))
    }

    fn create_volume(&mut self, pool: &StoragePoolRef, xml: &str, content: Vec<u8>) -> Result<StorageVolRef, Refusal> {
        let description = Description::parse(xml, "volume")?;
        let name = description.name()?;
        let capacity = description.size(&["capacity"], 1).unwrap_or(content.len() as u64);
        let pool = self.active_pool(pool)?;
        if pool.volumes.iter().any(|v| v.name == name) {
            let message = format!("storage volume name '{name}' already in use.");
            return Err(Refusal::new(ErrorNumber::ERR_STORAGE_VOL_EXIST, message));
        }
        let path = format!("{}/{name}", pool.path);
        let volume = Volume {
            name,
            path,
            xml: xml.to_owned(),
            capacity,
            content,
        };
        let found = pool.volume_ref(&volume);
        pool.volumes.push(volume);
        Ok(found)
    }
}

pub(super) fn answer(call: &mut Call<'_>) {
    call.on::<StorageVolLookupByName>(|world, args| {
        let pool = world.active_pool(&args.pool)?;
        let found = pool
            .volumes
            .iter()
            .find(|v| args.name == *v.name)
            .map(|v| pool.volume_ref(v));
        Ok(StorageVolLookupByNameRet {
            vol: found.ok_or_else(|| missing(&args.name))?,
        })
    });
    call.on::<StorageVolLookupByKey>(|world, args| {
        world
            .volume_at(&args.key.to_string_lossy())
            .map(|vol| StorageVolLookupByKeyRet { vol })
    });
    call.on::<StorageVolLookupByPath>(|world, args| {
        world
            .volume_at(&args.path.to_string_lossy())
            .map(|vol| StorageVolLookupByPathRet { vol })
    });
    call.on::<StorageVolCreateXml>(|world, args| {
        let vol = world.create_volume(&args.pool, &args.xml.to_string_lossy(), Vec::new())?;
        Ok(StorageVolCreateXmlRet { vol })
    });
    call.on::<StorageVolCreateXmlFrom>(|world, args| {
        let content = world.volume(&args.clonevol)?.content.clone();
        let vol = world.create_volume(&args.pool, &args.xml.to_string_lossy(), content)?;
        Ok(StorageVolCreateXmlFromRet { vol })
    });
    call.on::<StorageVolDelete>(|world, args| {
        world.volume(&args.vol)?;
        for pool in world.pools.iter_mut().filter(|p| args.vol.pool == *p.name) {
            pool.volumes.retain(|v| args.vol.name != *v.name);
        }
        Ok(())
    });
    call.on::<StorageVolWipe>(|world, args| world.volume(&args.vol).map(|v| v.content.fill(0)));
    call.on::<StorageVolWipePattern>(|world, args| world.volume(&args.vol).map(|v| v.content.fill(0)));
    call.on::<StorageVolResize>(|world, args| world.volume(&args.vol).map(|v| v.capacity = args.capacity));
    call.on::<StorageVolGetInfo>(|world, args| {
        world.volume(&args.vol).map(|v| StorageVolGetInfoRet {
            kind: 0,
            capacity: v.capacity,
            allocation: v.content.len() as u64,
        })
    });
    call.on::<StorageVolGetXmlDesc>(|world, args| {
        world.volume(&args.vol).map(|v| StorageVolGetXmlDescRet {
            xml: v.xml.as_str().into(),
        })
    });
    call.on::<StorageVolGetPath>(|world, args| {
        world.volume(&args.vol).map(|v| StorageVolGetPathRet {
            name: v.path.as_str().into(),
        })
    });
}
