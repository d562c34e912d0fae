//! The pool, and the golden image in it.

use libvirt_rpc::wire::constant::storage::StoragePoolState;

use super::{Check, failed};
use crate::{budget, failure::Doing as _, host::Lanes, pool::Pool, settings::Settings};

const GIB: u64 = 1 << 30;

pub(super) async fn look(lanes: &Lanes, settings: &Settings, tell: &mut (dyn FnMut(Check) + Send)) {
    let name = settings.machine.pool.as_str();
    let pool = match Pool::open(lanes, name).await {
        Ok(pool) => pool,
        Err(failure) => {
            tell(failed("pool", failure).remedy(format!(
                "`virsh pool-define-as {name} dir --target /var/lib/libvirt/images && virsh pool-start {name} && virsh \
                 pool-autostart {name}` on the host"
            )));
            tell(Check::skipped("image", "there is no pool to look for it in"));
            return;
        }
    };
    let info = pool.info().await.doing(|| format!("look at pool `{name}`"));
    match info {
        Err(failure) => tell(failed("pool", failure)),
        Ok(info) if info.state != StoragePoolState::RUNNING => {
            let check = Check::fail("pool", format!("pool `{name}` is not active"));
            tell(check.remedy(format!(
                "`virsh pool-start {name} && virsh pool-autostart {name}` on the host"
            )));
            tell(Check::skipped("image", "its pool is not active"));
            return;
        }
        Ok(info) => {
            let (free, all) = (info.available / GIB, info.capacity / GIB);
            let reserve = budget::pool_reserve(&settings.budget, info.capacity) / GIB;
            let space = format!("pool `{name}` is active, with {free} GiB of {all} GiB free");
            tell(if free > reserve {
                Check::ok("pool", space)
            } else {
                let detail = format!("{space}; {reserve} GiB of it stay free, so nothing fits");
                Check::fail("pool", detail).remedy("make room in the pool, or lower `budget.pool_reserve_gib`")
            });
        }
    }
    image(&pool, &settings.machine.image, tell).await;
}

async fn image(pool: &Pool<'_>, image: &str, tell: &mut (dyn FnMut(Check) + Send)) {
    match pool.base(image).await {
        Err(failure) => tell(failed("image", failure)),
        Ok(base) => {
            let files = base
                .chain
                .iter()
                .map(|file| format!("{} ({})", file.path, file.format.name()));
            let chain: Vec<_> = files.collect();
            let size = base.capacity.div_ceil(1 << 20);
            tell(Check::ok(
                "image",
                format!("`{image}`, {size} MiB: {}", chain.join(" made from ")),
            ));
        }
    }
}
