//! The old lists: how many there are, and what they are called.

use super::call::Call;
use crate::wire::remote::{
    connect as wire,
    storage_pool::{
        StoragePoolListVolumes, StoragePoolListVolumesRet, StoragePoolNumOfVolumes, StoragePoolNumOfVolumesRet,
    },
};

fn number(many: usize) -> i32 {
    i32::try_from(many).unwrap_or(i32::MAX)
}

fn room(max: i32) -> usize {
    usize::try_from(max).unwrap_or(0)
}

/// How active or inactive objects of a table are counted and named.
macro_rules! named {
    ($call:ident, $table:ident, $active:expr, $num:ident, $num_ret:ident, $list:ident, $list_ret:ident) => {
        $call.on::<wire::$num>(|world, ()| {
            let num = number(world.$table.iter().filter(|one| one.active == $active).count());
            Ok(wire::$num_ret { num })
        });
        $call.on::<wire::$list>(|world, args| {
            let all = world.$table.iter().filter(|one| one.active == $active);
            let names = all
                .map(|one| one.name.as_str().into())
                .take(room(args.maxnames))
                .collect();
            Ok(wire::$list_ret { names })
        });
    };
}

pub(super) fn answer(call: &mut Call<'_>) {
    named!(
        call,
        networks,
        true,
        ConnectNumOfNetworks,
        ConnectNumOfNetworksRet,
        ConnectListNetworks,
        ConnectListNetworksRet
    );
    named!(
        call,
        networks,
        false,
        ConnectNumOfDefinedNetworks,
        ConnectNumOfDefinedNetworksRet,
        ConnectListDefinedNetworks,
        ConnectListDefinedNetworksRet
    );
    named!(
        call,
        pools,
        true,
        ConnectNumOfStoragePools,
        ConnectNumOfStoragePoolsRet,
        ConnectListStoragePools,
        ConnectListStoragePoolsRet
    );
    named!(
        call,
        pools,
        false,
        ConnectNumOfDefinedStoragePools,
        ConnectNumOfDefinedStoragePoolsRet,
        ConnectListDefinedStoragePools,
        ConnectListDefinedStoragePoolsRet
    );
    call.on::<StoragePoolNumOfVolumes>(|world, args| {
        let num = number(world.active_pool(&args.pool)?.volumes.len());
        Ok(StoragePoolNumOfVolumesRet { num })
    });
    call.on::<StoragePoolListVolumes>(|world, args| {
        let volumes = world.active_pool(&args.pool)?.volumes.iter();
        let names = volumes
            .map(|v| v.name.as_str().into())
            .take(room(args.maxnames))
            .collect();
        Ok(StoragePoolListVolumesRet { names })
    });
}
