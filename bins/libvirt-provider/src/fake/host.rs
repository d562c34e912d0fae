//! One fake host: its size, its golden image, and the way to its daemon.

use std::{future::Future, pin::Pin, sync::Arc};

use anyhow::Context as _;
use libvirt_backend::{Dial, Endpoint, settings::Offering};
use libvirt_rpc::{
    Connection, Options,
    fake::{Daemon, Effect, Fault},
    wire::constant::error::ErrorNumber,
};

use super::{IMAGE, POOL, guest, hook::Hooks, keep::Shelf, slot::FAILING_PREFIX};

/// CPUs of a host, however many machines it sells.
pub(super) const CPUS: i32 = 512;
/// What the backend leaves to a host, and then some: two tenths and 8 GiB.
const RESERVE_MIB: u64 = 8 << 10;

/// What must fit a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    memory_mib: u64,
}

impl Size {
    pub(super) fn of<'a>(offerings: impl Iterator<Item = &'a Offering>) -> Self {
        let sold = offerings.map(|offering| u64::from(offering.count) * offering.instance_type.memory_mib);
        let sold: u64 = sold.sum();
        Self {
            memory_mib: sold + sold / 5 + RESERVE_MIB,
        }
    }
}

/// Starts a host, or finds it as an earlier life of the provider left it.
pub(super) async fn start(zone: &str, size: Size, hooks: Hooks, shelf: Option<&Shelf>) -> anyhow::Result<Endpoint> {
    let daemon = Daemon::new();
    daemon.set_guest(guest::new(hooks));
    let grow = || daemon.set_capacity(CPUS, size.memory_mib << 10);
    grow();
    stage(&daemon).await.context("the golden image cannot be staged")?;
    if let Some(shelf) = shelf {
        shelf.keep(zone, &daemon)?;
        // It may have been left when fewer machines were for sale.
        grow();
    }
    if hooks.faults {
        let killed = "internal error: process exited while connecting to monitor: injected: QEMU ended at once";
        let refused = Effect::Refuse(ErrorNumber::ERR_INTERNAL_ERROR, killed.to_owned());
        daemon.inject(Fault::on("domain_create_with_flags", refused).naming(format!("-{FAILING_PREFIX}-")));
    }
    Ok(Endpoint::Custom(Arc::new(Wire(daemon))))
}

async fn stage(daemon: &Daemon) -> Result<(), libvirt_rpc::Error> {
    let connection = daemon.connect().await?;
    let pool = connection.storage_pool_lookup_by_name(POOL).await?;
    let image = format!(
        "<volume><name>{IMAGE}</name><capacity unit='GiB'>10</capacity><target><format type='qcow2'/></target></volume>"
    );
    connection.volume_create(&pool, &image, Default::default()).await?;
    connection.close().await;
    Ok(())
}

/// The way to a daemon in this process.
#[derive(Debug)]
struct Wire(Daemon);

impl Dial for Wire {
    fn dial(
        &self,
        options: Options,
    ) -> Pin<Box<dyn Future<Output = Result<Connection, libvirt_rpc::Error>> + Send + '_>> {
        Box::pin(self.0.connect_with(options))
    }
}
