//! The pool of a host: the golden image, and each machine's disk and seed.

use libvirt_rpc::{
    api::PoolInfo,
    wire::{
        constant::{
            error::ErrorNumber,
            storage::{ConnectListAllStoragePoolsFlags, StorageVolCreateFlags, StorageVolDeleteFlags, StorageVolType},
        },
        remote::record::{StoragePoolRef, StorageVolRef},
    },
};

use crate::{
    failure::{Absent as _, Doing as _, Failure},
    host::Lanes,
    xml::{self, Backing, Description, Format},
};

/// Names that an error shows at most.
const SHOWN: usize = 8;
/// A base may have been made from another; more than this is a mistake, or a circle.
const DEEPEST: usize = 8;

/// A pool of one host.
#[derive(Debug)]
pub(crate) struct Pool<'a> {
    lanes: &'a Lanes,
    pool: StoragePoolRef,
    name: &'a str,
}

/// The golden image, ready to be copied from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// Bytes a guest sees.
    pub(crate) capacity: u64,
    /// The image itself first, then what it was made from.
    pub(crate) chain: Vec<Backing>,
    /// What tells it from another content under the same name.
    pub(crate) revision: Option<String>,
}

impl<'a> Pool<'a> {
    pub(crate) async fn open(lanes: &'a Lanes, name: &'a str) -> Result<Self, Failure> {
        let control = &lanes.control;
        let doing = || format!("look up storage pool `{name}`");
        let Some(pool) = control.storage_pool_lookup_by_name(name).await.absent().doing(doing)? else {
            let pools = control
                .storage_pools(ConnectListAllStoragePoolsFlags::empty())
                .await
                .doing(doing)?;
            let names = pools.iter().map(|pool| pool.name.to_string_lossy().into_owned());
            return Err(Failure::told(format!(
                "there is no storage pool `{name}`; {}: set `machine.pool` or define it",
                listed("the host has", names)
            )));
        };
        Ok(Self { lanes, pool, name })
    }

    pub(crate) async fn info(&self) -> Result<PoolInfo, libvirt_rpc::Error> {
        self.lanes.control.storage_pool_info(&self.pool).await
    }

    /// The golden image. One that was copied in behind libvirt's back is found by a refresh (field report F29).
    pub(crate) async fn base(&self, image: &str) -> Result<Base, Failure> {
        if self.volume(image).await?.is_none() {
            self.refresh().await?;
        }
        let Some(volume) = self.volume(image).await? else {
            let volumes = self.volumes().await?;
            let names = volumes.iter().map(|volume| volume.name.to_string_lossy().into_owned());
            return Err(Failure::told(format!(
                "volume `{image}` is not in pool `{}`; {}: stage it there or set `machine.image`",
                self.name,
                listed("that has", names)
            )));
        };
        let top = self.describe(&volume).await?;
        let mut chain = vec![backing(image, &top)?];
        let mut below = top.backing;
        while let Some(path) = below {
            if chain.len() >= DEEPEST {
                return Err(Failure::told(format!(
                    "volume `{image}` has more than {DEEPEST} files below it; flatten it with `qemu-img convert`"
                )));
            }
            let doing = || format!("look up `{path}`, which volume `{image}` was made from");
            let volume = self.lanes.control.volume_lookup_by_path(&path).await.absent().doing(doing)?.ok_or_else(|| {
                Failure::told(format!(
                    "volume `{image}` was made from `{path}`, which is in no pool; flatten it with `qemu-img convert`"
                ))
            })?;
            let description = self.describe(&volume).await?;
            chain.push(backing(&path, &description)?);
            below = description.backing;
        }
        Ok(Base {
            capacity: top.capacity,
            chain,
            revision: top.revision,
        })
    }

    /// What an image is now: its revision, if it has one; `None` if it is gone.
    pub(crate) async fn revision(&self, image: &str) -> Result<Option<Option<String>>, Failure> {
        match self.volume(image).await? {
            Some(volume) => Ok(Some(self.describe(&volume).await?.revision)),
            None => Ok(None),
        }
    }

    /// Makes a machine's disk anew, and says where it is. One that an earlier attempt made is replaced: nothing says
    /// that it is whole.
    pub(crate) async fn make_disk(&self, name: &str, capacity: u64, base: &Base) -> Result<String, Failure> {
        let Some(backing) = base.chain.first() else {
            return Err(Failure::told("the golden image is nowhere"));
        };
        let capacity = capacity.max(base.capacity);
        let volume = self.make(name, &xml::overlay(name, capacity, backing)).await?;
        self.path(&volume).await
    }

    /// Makes a machine's seed or configuration for Ignition anew, and says where it is.
    pub(crate) async fn make_seed(&self, name: &str, content: &[u8]) -> Result<String, Failure> {
        let size = content.len() as u64;
        let volume = self.make(name, &xml::raw(name, size)).await?;
        let uploaded = self.lanes.bulk.volume_upload(&volume, content, Some(size)).await;
        uploaded.doing(|| format!("upload the seed `{name}` to pool `{}`", self.name))?;
        self.path(&volume).await
    }

    /// Writes over a volume, which may be in use, with as many bytes as it has.
    pub(crate) async fn overwrite(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        let Some(volume) = self.volume(name).await? else {
            return Err(Failure::told(format!(
                "volume `{name}` of pool `{}` is gone",
                self.name
            )));
        };
        let uploaded = self
            .lanes
            .bulk
            .volume_upload(&volume, content, Some(content.len() as u64))
            .await;
        uploaded
            .doing(|| format!("write over volume `{name}` of pool `{}`", self.name))
            .map(drop)
    }

    async fn make(&self, name: &str, description: &str) -> Result<StorageVolRef, Failure> {
        let doing = || format!("make volume `{name}` in pool `{}`", self.name);
        self.delete(name).await?;
        let create = || {
            self.lanes
                .bulk
                .volume_create(&self.pool, description, StorageVolCreateFlags::empty())
        };
        match create().await {
            // The file is there, though the pool did not know it.
            Err(error) if error.code() == Some(ErrorNumber::ERR_STORAGE_VOL_EXIST) || says_exists(&error) => {
                self.refresh().await?;
                self.delete(name).await?;
                create().await.doing(doing)
            }
            made => made.doing(doing),
        }
    }

    /// Deletes a volume; whether there was one. Only files and devices: in a pool within a pool, a folder is a volume
    /// too, and deleting it would delete that pool (field report F39).
    pub(crate) async fn delete(&self, name: &str) -> Result<bool, Failure> {
        let doing = || format!("delete volume `{name}` of pool `{}`", self.name);
        let Some(volume) = self.volume(name).await? else {
            return Ok(false);
        };
        let control = &self.lanes.control;
        if let Some(info) = control.volume_info(&volume).await.absent().doing(doing)?
            && !matches!(info.kind, StorageVolType::FILE | StorageVolType::BLOCK)
        {
            return Err(Failure::told(format!(
                "`{name}` in pool `{}` is no file, so it is not deleted",
                self.name
            )));
        }
        let deleted = self
            .lanes
            .bulk
            .volume_delete(&volume, StorageVolDeleteFlags::empty())
            .await;
        Ok(deleted.absent().doing(doing)?.is_some())
    }

    pub(crate) async fn volume(&self, name: &str) -> Result<Option<StorageVolRef>, Failure> {
        let found = self.lanes.control.volume_lookup_by_name(&self.pool, name).await;
        found
            .absent()
            .doing(|| format!("look up volume `{name}` in pool `{}`", self.name))
    }

    pub(crate) async fn volumes(&self) -> Result<Vec<StorageVolRef>, Failure> {
        let listed = self.lanes.control.storage_pool_volumes(&self.pool).await;
        listed.doing(|| format!("list the volumes of pool `{}`", self.name))
    }

    async fn refresh(&self) -> Result<(), Failure> {
        let refreshed = self.lanes.bulk.storage_pool_refresh(&self.pool).await;
        match refreshed.doing(|| format!("refresh pool `{}`", self.name)) {
            // Refused while a volume is being made; what is looked for is then missed, and told to be missing.
            Err(failure) if !failure.is_connection() => {
                tracing::debug!(pool = self.name, %failure, "the pool was not refreshed");
                Ok(())
            }
            done => done,
        }
    }

    async fn path(&self, volume: &StorageVolRef) -> Result<String, Failure> {
        let path = self.lanes.control.volume_path(volume).await;
        path.doing(|| format!("find volume `{}`", volume.name.to_string_lossy()))
    }

    async fn describe(&self, volume: &StorageVolRef) -> Result<Description, Failure> {
        let name = volume.name.to_string_lossy();
        let xml = self
            .lanes
            .control
            .volume_xml(volume)
            .await
            .doing(|| format!("describe volume `{name}`"))?;
        Description::parse(&xml)
            .ok_or_else(|| Failure::told(format!("the description of volume `{name}` makes no sense")))
    }
}

fn backing(name: &str, description: &Description) -> Result<Backing, Failure> {
    // Block devices of logical pools have no format; what is on them is the disk itself.
    let format = description.format.as_deref().unwrap_or("raw");
    let known = Format::of(format).ok_or_else(|| {
        Failure::told(format!(
            "`{name}` has format `{format}`; only qcow2 and raw images can be copied from"
        ))
    })?;
    Ok(Backing {
        path: description.path.clone(),
        format: known,
    })
}

fn says_exists(error: &libvirt_rpc::Error) -> bool {
    error
        .daemon()
        .is_some_and(|daemon| daemon.message().contains("already exists"))
}

/// "the host has `a`, `b` and 3 more".
pub(crate) fn listed(intro: &str, names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<_> = names.collect();
    names.sort();
    let more = names.len().saturating_sub(SHOWN);
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match (shown.is_empty(), more) {
        (true, _) => format!("{intro} none"),
        (_, 0) => format!("{intro} {}", shown.join(", ")),
        _ => format!("{intro} {} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_is_listed_up_to_a_point() {
        let names = |count: usize| (0..count).map(|n| format!("v{n}"));
        assert_eq!(listed("it has", names(0)), "it has none");
        assert_eq!(listed("it has", names(2)), "it has `v0`, `v1`");
        assert!(listed("it has", names(11)).ends_with("and 3 more"));
    }
}
