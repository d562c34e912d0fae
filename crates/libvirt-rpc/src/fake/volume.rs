//! Calls about storage volumes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    call::{Call, Refusal},
    files::Files,
    hardware::Source,
    pool::{NO_SPACE, Pool},
    saved,
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
    #[serde(with = "saved::bytes")]
    pub(super) content: Arc<Vec<u8>>,
    /// What the guest that has it as its disk keeps there.
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
        let size = self.content.get(24..32).and_then(|bytes| bytes.try_into().ok());
        match size.map(u64::from_be_bytes) {
            Some(size) if self.content.starts_with(b"QFI\xfb") => {
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
    pub(super) fn volume(&mut self, wanted: &StorageVolRef) -> Result<&mut Volume, Refusal> {
        let pool = self.pool_of(wanted)?;
        let found = pool.volumes.named_mut(&wanted.name.to_string_lossy());
        found.ok_or_else(|| absent(&wanted.name))
    }

    pub(super) fn pool_of(&mut self, wanted: &StorageVolRef) -> Result<&mut Pool, Refusal> {
        let found = self.pools.named_mut(&wanted.pool.to_string_lossy());
        found.ok_or_else(|| super::pool::absent(&wanted.pool))?.if_active()
    }

    fn volume_at(&self, path: &str) -> Result<StorageVolRef, Refusal> {
        let path = path.to_owned();
        let find = |pool: &Pool| pool.volumes.find(&path).map(|v| pool.volume_ref(v));
        let active = self.pools.iter().filter(|pool| pool.active);
        active.into_iter().find_map(find).ok_or_else(|| absent(&path))
    }

    fn disk(&mut self, source: &Source) -> Option<&mut Volume> {
        match source {
            Source::Path(path) => self.pools.iter_mut().find_map(|pool| pool.volumes.find_mut(path)),
            Source::Volume { pool, volume } => self.pools.named_mut(pool)?.volumes.named_mut(volume),
        }
    }

    /// The files of a domain's guest, out of where they are kept; they have to be put back.
    pub(super) fn take_files(&mut self, uuid: Uuid) -> Files {
        let root = self.domains.find(&uuid).and_then(|d| d.hardware.root().cloned());
        let on_disk = root.and_then(|root| self.disk(&root).map(|disk| std::mem::take(&mut disk.files)));
        on_disk.unwrap_or_else(|| {
            let domain = self.domains.find_mut(&uuid);
            domain.map(|d| std::mem::take(&mut d.guest.files)).unwrap_or_default()
        })
    }

    pub(super) fn put_files(&mut self, uuid: Uuid, files: Files) {
        let root = self.domains.find(&uuid).and_then(|d| d.hardware.root().cloned());
        if let Some(disk) = root.and_then(|root| self.disk(&root)) {
            disk.files = files;
        } else if let Some(domain) = self.domains.find_mut(&uuid) {
            domain.guest.files = files;
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
                (Arc::clone(&source.content), source.files.clone(), source.capacity)
            }
            None => (Arc::default(), Files::default(), 0),
        };
        let mut capacity = description.size(&["capacity"], 1).unwrap_or(0).max(least);
        if let Some(backing) = &backing {
            let Some(lower) = self.disk(&Source::Path(backing.path.clone())) else {
                let path = &backing.path;
                let message = format!("Cannot access backing store '{path}': No such file or directory");
                return Err(Refusal::system(2, message));
            };
            files = lower.files.clone();
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
        let pool = self.active_pool(pool)?;
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
        let volume = self.volume(wanted)?;
        (volume.capacity, volume.reserved) = (capacity, reserved);
        Ok(())
    }

    fn wipe_volume(&mut self, wanted: &StorageVolRef) -> Result<(), Refusal> {
        let volume = self.volume(wanted)?;
        volume.content = Arc::new(vec![0; volume.content.len()]);
        volume.files = Files::default();
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
        if let Some(gone) = pool.volumes.remove(&path) {
            pool.charged = pool.charged.saturating_sub(gone.allocation());
        }
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
