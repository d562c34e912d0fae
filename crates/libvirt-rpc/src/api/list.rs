//! Lists of objects.
//!
//! Daemons since 0.10.2 give them in one call. One that does not know it is asked the old way: how many there are, what
//! they are called, and for each by its name, where what goes away in between is left out. The old way knows active and
//! inactive objects; with other flags the daemon's refusal is the answer.

use crate::{
    Connection, Error,
    wire::{
        constant::{
            domain::ConnectListAllDomainsFlags, network::ConnectListAllNetworksFlags,
            nodedev::ConnectListAllNodeDeviceFlags, secret::ConnectListAllSecretsFlags,
            storage::ConnectListAllStoragePoolsFlags,
        },
        remote::{
            connect as call,
            node::{NodeListDevices, NodeListDevicesArgs, NodeNumOfDevices, NodeNumOfDevicesArgs},
            record::{DomainRef, NetworkRef, NodeDeviceRef, SecretRef, StoragePoolRef, StorageVolRef},
            storage_pool::{
                StoragePoolListAllVolumes, StoragePoolListAllVolumesArgs, StoragePoolListVolumes,
                StoragePoolListVolumesArgs, StoragePoolNumOfVolumes, StoragePoolNumOfVolumesArgs,
            },
        },
        xdr::Text,
    },
};

/// What is there, without what has gone in between.
fn present<T>(found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Err(error) if error.is_not_found() => Ok(None),
        found => found.map(Some),
    }
}

/// How one sort of object that is active or not is listed: the new call, the old ones, and the look-up by name.
macro_rules! lists {
    ($(
        $(#[$doc:meta])*
        $name:ident($flags:ident) -> $object:ident = $all:ident($all_args:ident).$field:ident, $lookup:ident,
        active: $num:ident, $list:ident($list_args:ident), inactive: $num_off:ident, $list_off:ident($off_args:ident);
    )*) => {
        impl Connection {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// When the daemon answers with an error, or no answer comes.
                pub async fn $name(&self, flags: $flags) -> Result<Vec<$object>, Error> {
                    let args = call::$all_args {
                        need_results: 1,
                        flags: flags.bits(),
                    };
                    let refused = match self.call::<call::$all>(&args).await {
                        Ok(reply) => return Ok(reply.$field),
                        Err(error) => error,
                    };
                    if !refused.is_unknown_procedure() || !($flags::ACTIVE | $flags::INACTIVE).contains(flags) {
                        return Err(refused);
                    }
                    let wants = |flag| flags == $flags::empty() || flags.contains(flag);
                    let mut names = Vec::new();
                    if wants($flags::ACTIVE) {
                        let maxnames = self.call::<call::$num>(&()).await?.num;
                        names = self.call::<call::$list>(&call::$list_args { maxnames }).await?.names;
                    }
                    if wants($flags::INACTIVE) {
                        let maxnames = self.call::<call::$num_off>(&()).await?.num;
                        names.extend(self.call::<call::$list_off>(&call::$off_args { maxnames }).await?.names);
                    }
                    let mut found = Vec::with_capacity(names.len());
                    for name in names {
                        found.extend(present(self.$lookup(&name.to_string_lossy()).await)?);
                    }
                    Ok(found)
                }
            )*
        }
    };
}

lists! {
    /// The networks for which the flags hold; none means all.
    networks(ConnectListAllNetworksFlags) -> NetworkRef
        = ConnectListAllNetworks(ConnectListAllNetworksArgs).nets, network_lookup_by_name,
        active: ConnectNumOfNetworks, ConnectListNetworks(ConnectListNetworksArgs),
        inactive: ConnectNumOfDefinedNetworks, ConnectListDefinedNetworks(ConnectListDefinedNetworksArgs);
    /// The pools for which the flags hold; none means all.
    storage_pools(ConnectListAllStoragePoolsFlags) -> StoragePoolRef
        = ConnectListAllStoragePools(ConnectListAllStoragePoolsArgs).pools, storage_pool_lookup_by_name,
        active: ConnectNumOfStoragePools, ConnectListStoragePools(ConnectListStoragePoolsArgs),
        inactive: ConnectNumOfDefinedStoragePools, ConnectListDefinedStoragePools(ConnectListDefinedStoragePoolsArgs);
}

impl Connection {
    /// The domains for which the flags hold; none means all.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn domains(&self, flags: ConnectListAllDomainsFlags) -> Result<Vec<DomainRef>, Error> {
        type Flags = ConnectListAllDomainsFlags;

        let args = call::ConnectListAllDomainsArgs {
            need_results: 1,
            flags: flags.bits(),
        };
        let refused = match self.call::<call::ConnectListAllDomains>(&args).await {
            Ok(reply) => return Ok(reply.domains),
            Err(error) => error,
        };
        if !refused.is_unknown_procedure() || !(Flags::ACTIVE | Flags::INACTIVE).contains(flags) {
            return Err(refused);
        }
        let wants = |flag| flags == Flags::empty() || flags.contains(flag);
        let mut found = Vec::new();
        if wants(Flags::ACTIVE) {
            let maxids = self.call::<call::ConnectNumOfDomains>(&()).await?.num;
            let args = call::ConnectListDomainsArgs { maxids };
            for id in self.call::<call::ConnectListDomains>(&args).await?.ids {
                found.extend(present(self.domain_lookup_by_id(id).await)?);
            }
        }
        if wants(Flags::INACTIVE) {
            let maxnames = self.call::<call::ConnectNumOfDefinedDomains>(&()).await?.num;
            let args = call::ConnectListDefinedDomainsArgs { maxnames };
            for name in self.call::<call::ConnectListDefinedDomains>(&args).await?.names {
                found.extend(present(self.domain_lookup_by_name(&name.to_string_lossy()).await)?);
            }
        }
        Ok(found)
    }

    /// The volumes of a pool.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn storage_pool_volumes(&self, pool: &StoragePoolRef) -> Result<Vec<StorageVolRef>, Error> {
        let args = StoragePoolListAllVolumesArgs {
            pool: pool.clone(),
            need_results: 1,
            flags: 0,
        };
        match self.call::<StoragePoolListAllVolumes>(&args).await {
            Err(error) if error.is_unknown_procedure() => {}
            done => return done.map(|reply| reply.vols),
        }
        let args = StoragePoolNumOfVolumesArgs { pool: pool.clone() };
        let maxnames = self.call::<StoragePoolNumOfVolumes>(&args).await?.num;
        let args = StoragePoolListVolumesArgs {
            pool: pool.clone(),
            maxnames,
        };
        let mut found = Vec::new();
        for name in self.call::<StoragePoolListVolumes>(&args).await?.names {
            found.extend(present(
                self.volume_lookup_by_name(pool, &name.to_string_lossy()).await,
            )?);
        }
        Ok(found)
    }

    /// The secrets for which the flags hold; none means all, which is all that can be had the old way.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn secrets(&self, flags: ConnectListAllSecretsFlags) -> Result<Vec<SecretRef>, Error> {
        let args = call::ConnectListAllSecretsArgs {
            need_results: 1,
            flags: flags.bits(),
        };
        match self.call::<call::ConnectListAllSecrets>(&args).await {
            Err(error) if error.is_unknown_procedure() && flags == ConnectListAllSecretsFlags::empty() => {}
            done => return done.map(|reply| reply.secrets),
        }
        let maxuuids = self.call::<call::ConnectNumOfSecrets>(&()).await?.num;
        let args = call::ConnectListSecretsArgs { maxuuids };
        let mut found = Vec::new();
        for uuid in self.call::<call::ConnectListSecrets>(&args).await?.uuids {
            if let Ok(uuid) = uuid.to_string_lossy().parse() {
                found.extend(present(self.secret_lookup_by_uuid(uuid).await)?);
            }
        }
        Ok(found)
    }

    /// The devices for which the flags hold; none means all, which is all that can be had the old way.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn node_devices(&self, flags: ConnectListAllNodeDeviceFlags) -> Result<Vec<NodeDeviceRef>, Error> {
        let args = call::ConnectListAllNodeDevicesArgs {
            need_results: 1,
            flags: flags.bits(),
        };
        match self.call::<call::ConnectListAllNodeDevices>(&args).await {
            Err(error) if error.is_unknown_procedure() && flags == ConnectListAllNodeDeviceFlags::empty() => {}
            done => return done.map(|reply| reply.devices),
        }
        let args = NodeNumOfDevicesArgs { cap: None, flags: 0 };
        let maxnames = self.call::<NodeNumOfDevices>(&args).await?.num;
        let args = NodeListDevicesArgs {
            cap: None,
            maxnames,
            flags: 0,
        };
        let names = self.call::<NodeListDevices>(&args).await?.names;
        Ok(names.into_iter().map(|name: Text| NodeDeviceRef { name }).collect())
    }
}
