//! Calls about storage volumes.

use serde::{Deserialize, Serialize};

use super::{
    call::{Call, Refusal},
    content::Content,
    files::Files,
    hardware::Source,
    pool::{NO_SPACE, Pool},
    table::Entry,
    world::World,
    xml::{Description, escaped},
};
use crate::wire::{
    constant::{error::ErrorNumber, storage::StorageVolResizeFlags},
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
    xdr::Uuid,
};

/// What an empty qcow2 takes.
const QCOW2: u64 = 200_704;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) format: String,
    pub(super) capacity: u64,
    /// What was set aside for it; it takes at least as much as it holds.
    pub(super) reserved: u64,
    pub(super) backing: Option<Backing>,
    #[serde(skip)]
    pub(super) content: Content,
    /// What the guest that has it as its disk keeps there.
    #[serde(skip)]
    pub(super) files: Files,
}

/// What a volume is an overlay of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Backing {
    path: String,
    format: Option<String>,
}

impl Entry for Volume {
    type Id = String;

    fn name(&self) -> &str {
        &self.name
    }

    fn id(&self) -> String {
        self.path.clone()
    }
}

impl Volume {
    pub(super) fn allocation(&self) -> u64 {
        self.reserved.max(self.content.len() as u64)
    }

    /// Reads from the content what it is and how large it looks from within.
    pub(super) fn probe(&mut self) {
        let head = self.content.read(0, 32);
        match head.last_chunk().copied().map(u64::from_be_bytes) {
            Some(size) if head.starts_with(b"QFI\xfb") && head.len() == 32 => {
                self.format = "qcow2".to_owned();
                self.capacity = size;
            }
            _ => self.capacity = self.capacity.max(self.content.len() as u64),
        }
    }

    fn description(&self) -> String {
        let (name, path) = (escaped(&self.name), escaped(&self.path));
        let backing = self.backing.as_ref().map_or_else(String::new, |backing| {
            let format = backing
                .format
                .as_ref()
                .map_or_else(String::new, |f| format!("<format type='{f}'/>"));
            format!(
                "<backingStore><path>{}</path>{format}</backingStore>",
                escaped(&backing.path)
            )
        });
        format!(
            "<volume type='file'><name>{name}</name><key>{path}</key><capacity unit='bytes'>{}</capacity>\
             <allocation unit='bytes'>{1}</allocation><physical unit='bytes'>{1}</physical>\
             <target><path>{path}</path><format type='{2}'/><permissions><mode>0600</mode><owner>0</owner>\
             <group>0</group></permissions></target>{backing}</volume>",
            self.capacity,
            self.allocation(),
            self.format,
        )
    }
}

/// A volume that is not there.
pub(super) fn absent(name: impl std::fmt::Display) -> Refusal {
    let message = format!("Storage volume not found: no storage vol with matching name '{name}'");
    Refusal::new(ErrorNumber::ERR_NO_STORAGE_VOL, message)
}

impl World {
    /// A volume, and the pool it is in.
    pub(super) fn volume(&self, wanted: &StorageVolRef) -> Result<&Volume, Refusal> {
        let found = self.pools.named(&wanted.pool.to_string_lossy());
        let pool = found.ok_or_else(|| super::pool::absent(&wanted.pool))?;
        pool.check_active()?;
        let found = pool.volumes.named(&wanted.name.to_string_lossy());
        found.ok_or_else(|| absent(&wanted.name))
    }

    pub(super) fn volume_mut(&mut self, wanted: &StorageVolRef) -> Result<&mut Volume, Refusal> {
        let pool = self.pool_of(wanted)?;
        let found = pool.volumes.named_mut(&wanted.name.to_string_lossy());
        found.ok_or_else(|| absent(&wanted.name))
    }

    pub(super) fn pool_of(&mut self, wanted: &StorageVolRef) -> Result<&mut Pool, Refusal> {
        let found = self.pools.named_mut(&wanted.pool.to_string_lossy());
        let pool = found.ok_or_else(|| super::pool::absent(&wanted.pool))?;
        pool.check_active().map(|()| pool)
    }

    fn volume_at(&self, path: &str) -> Result<StorageVolRef, Refusal> {
        let path = path.to_owned();
        let find = |pool: &Pool| pool.volumes.find(&path).map(|v| pool.volume_ref(v));
        let active = self.pools.iter().filter(|pool| pool.active);
        active.into_iter().find_map(find).ok_or_else(|| absent(&path))
    }

    /// The pool and the path of a disk that is a volume.
    fn disk(&self, source: &Source) -> Option<(Uuid, String)> {
        match source {
            Source::Path(path) => {
                let pool = self.pools.iter().find(|pool| pool.volumes.find(path).is_some())?;
                Some((pool.uuid, path.clone()))
            }
            Source::Volume { pool, volume } => {
                let pool = self.pools.named(pool)?;
                Some((pool.uuid, pool.volumes.named(volume)?.path.clone()))
            }
        }
    }

    /// The files of a domain's guest, where they are kept; where a change of them is noted.
    fn files_of(&mut self, uuid: Uuid, changed: bool) -> Option<&mut Files> {
        let root = self.domains.find(&uuid)?.hardware.root().cloned();
        if let Some((pool, path)) = root.and_then(|root| self.disk(&root)) {
            if changed {
                self.pools.touch(pool);
            }
            let volumes = &mut self.pools.peek_mut(&pool)?.volumes;
            if changed {
                volumes.touch(path.clone());
            }
            return volumes.peek_mut(&path).map(|volume| &mut volume.files);
        }
        if changed {
            self.domains.touch(uuid);
        }
        self.domains.peek_mut(&uuid).map(|domain| &mut domain.guest.files)
    }

    /// The files of a domain's guest, out of where they are kept; they have to be put back.
    pub(super) fn take_files(&mut self, uuid: Uuid) -> Files {
        self.files_of(uuid, false).map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn put_files(&mut self, uuid: Uuid, files: Files) {
        let changed = files.is_touched();
        if let Some(place) = self.files_of(uuid, changed) {
            *place = files;
        }
    }

    /// Makes a volume, of another if there is one.
    fn create_volume(
        &mut self,
        pool: &StoragePoolRef,
        xml: &str,
        source: Option<&StorageVolRef>,
    ) -> Result<StorageVolRef, Refusal> {
        let description = Description::parse(xml, "volume")?;
        let name = description.name()?;
        if name.contains('/') {
            let message = format!("XML error: name {name} cannot contain '/'");
            return Err(Refusal::new(ErrorNumber::ERR_XML_ERROR, message));
        }
        let format = description
            .element(&["target", "format"])
            .and_then(|f| f.attribute("type"));
        let format = format.unwrap_or("raw").to_owned();
        let backing = description.text(&["backingStore", "path"]).map(|path| {
            let format = description
                .element(&["backingStore", "format"])
                .and_then(|f| f.attribute("type"));
            Backing {
                path: path.to_owned(),
                format: format.map(str::to_owned),
            }
        });
        let (content, mut files, least) = match source {
            Some(source) => {
                let source = self.volume(source)?;
                (source.content.copied(), source.files.copied(), source.capacity)
            }
            None => (Content::default(), Files::default(), 0),
        };
        let mut capacity = description.size(&["capacity"], 1).unwrap_or(0).max(least);
        if let Some(backing) = &backing {
            let lower = self.pools.iter().find_map(|pool| pool.volumes.find(&backing.path));
            let Some(lower) = lower else {
                let path = &backing.path;
                let message = format!("Cannot access backing store '{path}': No such file or directory");
                return Err(Refusal::system(2, message));
            };
            files = lower.files.copied();
            if capacity == 0 {
                capacity = lower.capacity;
            }
        }
        let wanted = description.size(&["allocation"], 1);
        let reserved = match format.as_str() {
            "raw" => wanted.unwrap_or(capacity).min(capacity),
            _ => wanted.filter(|wanted| *wanted >= capacity).unwrap_or(0).max(QCOW2),
        };
        // A clone of a sparse file is as sparse.
        let reserved = if source.is_some() && wanted.is_none() {
            QCOW2
        } else {
            reserved
        };
        let pool = self.active_pool_mut(pool)?;
        if pool.volumes.named(&name).is_some() {
            let message = format!("storage volume '{name}' exists already");
            return Err(Refusal::new(ErrorNumber::ERR_STORAGE_VOL_EXIST, message));
        }
        let path = format!("{}/{name}", pool.path);
        let volume = Volume {
            name,
            path,
            format,
            capacity,
            reserved,
            backing,
            content,
            files,
        };
        if pool.charge(0, volume.allocation()).is_none() {
            let (size, path) = (volume.allocation(), &volume.path);
            let message = format!("cannot allocate {size} bytes in file '{path}': No space left on device");
            return Err(Refusal::system(NO_SPACE, message));
        }
        let found = pool.volume_ref(&volume);
        pool.volumes.push(volume);
        Ok(found)
    }

    fn resize_volume(&mut self, wanted: &StorageVolRef, capacity: u64, flags: u32) -> Result<(), Refusal> {
        let flags = StorageVolResizeFlags(flags);
        let volume = self.volume(wanted)?;
        let capacity = if flags.contains(StorageVolResizeFlags::DELTA) {
            if flags.contains(StorageVolResizeFlags::SHRINK) {
                volume.capacity.saturating_sub(capacity)
            } else {
                volume.capacity.saturating_add(capacity)
            }
        } else {
            capacity
        };
        if capacity < volume.capacity && !flags.contains(StorageVolResizeFlags::SHRINK) {
            let message = "Can't shrink capacity below current capacity unless shrink flag explicitly specified";
            return Err(Refusal::argument(message));
        }
        let before = volume.allocation();
        let reserved = if flags.contains(StorageVolResizeFlags::ALLOCATE) {
            capacity
        } else {
            volume.reserved
        };
        let after = before.max(reserved);
        if self.pool_of(wanted)?.charge(before, after).is_none() {
            let message = "cannot resize volume: No space left on device";
            return Err(Refusal::system(NO_SPACE, message));
        }
        let volume = self.volume_mut(wanted)?;
        (volume.capacity, volume.reserved) = (capacity, reserved);
        Ok(())
    }

    fn wipe_volume(&mut self, wanted: &StorageVolRef) -> Result<(), Refusal> {
        let volume = self.volume_mut(wanted)?;
        volume.content.wipe();
        volume.files.replace(&Files::default());
        Ok(())
    }
}

pub(super) fn answer(call: &mut Call<'_>) {
    find(call);
    call.on::<StorageVolCreateXml>(|world, args| {
        let vol = world.create_volume(&args.pool, &args.xml.to_string_lossy(), None)?;
        Ok(StorageVolCreateXmlRet { vol })
    });
    call.on::<StorageVolCreateXmlFrom>(|world, args| {
        let vol = world.create_volume(&args.pool, &args.xml.to_string_lossy(), Some(&args.clonevol))?;
        Ok(StorageVolCreateXmlFromRet { vol })
    });
    call.on::<StorageVolDelete>(|world, args| {
        let path = world.volume(&args.vol)?.path.clone();
        let pool = world.pool_of(&args.vol)?;
        let taken = pool.volumes.find(&path).map_or(0, Volume::allocation);
        pool.charged = pool.charged.saturating_sub(taken);
        pool.volumes.forget(&path);
        Ok(())
    });
    call.on::<StorageVolWipe>(|world, args| world.wipe_volume(&args.vol));
    call.on::<StorageVolWipePattern>(|world, args| world.wipe_volume(&args.vol));
    call.on::<StorageVolResize>(|world, args| world.resize_volume(&args.vol, args.capacity, args.flags));
    call.on::<StorageVolGetInfo>(|world, args| {
        world.volume(&args.vol).map(|v| StorageVolGetInfoRet {
            kind: 0,
            capacity: v.capacity,
            allocation: v.allocation(),
        })
    });
    call.on::<StorageVolGetXmlDesc>(|world, args| {
        world.volume(&args.vol).map(|v| StorageVolGetXmlDescRet {
            xml: v.description().into(),
        })
    });
    call.on::<StorageVolGetPath>(|world, args| {
        world.volume(&args.vol).map(|v| StorageVolGetPathRet {
            name: v.path.as_str().into(),
        })
    });
}

fn find(call: &mut Call<'_>) {
    call.on::<StorageVolLookupByName>(|world, args| {
        let pool = world.active_pool(&args.pool)?;
        let found = pool.volumes.named(&args.name.to_string_lossy());
        let found = found.map(|v| StorageVolLookupByNameRet {
            vol: pool.volume_ref(v),
        });
        found.ok_or_else(|| absent(&args.name))
    });
    call.on::<StorageVolLookupByKey>(|world, args| {
        let vol = world.volume_at(&args.key.to_string_lossy())?;
        Ok(StorageVolLookupByKeyRet { vol })
    });
    call.on::<StorageVolLookupByPath>(|world, args| {
        let vol = world.volume_at(&args.path.to_string_lossy())?;
        Ok(StorageVolLookupByPathRet { vol })
    });
}
