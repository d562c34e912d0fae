//! A host in numbers, for a list of hosts.

use std::{sync::Arc, time::Duration};

use libvirt_rpc::Options;
use providerkit_backend::Error;
use serde::Serialize;
use tokio::time::timeout;

use super::{domains, platform::shown};
use crate::{
    failure::{Doing as _, Failure},
    host::{Facts, Lanes},
    pool::Pool,
    settings::{HostSettings, Settings},
};

/// A host, as it answers now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Survey {
    /// libvirt's version.
    pub libvirt: String,
    /// QEMU's version.
    pub qemu: String,
    /// `kvm` or `qemu`; nothing where no machine can run.
    pub accelerator: Option<String>,
    /// CPUs.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Bytes of the pool; nothing where there is none.
    pub pool_bytes: Option<u64>,
    /// Bytes of it that are free.
    pub pool_free_bytes: Option<u64>,
    /// Domains of this provider's.
    pub own_domains: usize,
    /// All others.
    pub other_domains: usize,
    /// Memory in MiB of all domains that run.
    pub used_memory_mib: u64,
    /// Virtual CPUs of all domains that run.
    pub used_vcpus: u64,
}

/// Asks a host, within this time for each call; nothing is changed there.
///
/// # Errors
/// When it cannot be reached or asked.
pub async fn survey(settings: &Arc<Settings>, host: &HostSettings, patience: Duration) -> Result<Survey, Error> {
    let all = patience * super::ALL;
    let asked = timeout(all, ask(settings, host, patience)).await;
    let asked = asked.unwrap_or_else(|_elapsed| Err(Failure::told(format!("no answer within {all:?}"))));
    asked.map_err(Error::from)
}

async fn ask(settings: &Settings, host: &HostSettings, patience: Duration) -> Result<Survey, Failure> {
    let options = Options::default().connect_timeout(patience).deadline(patience);
    let connected = timeout(patience, host.endpoint.connect_with(options)).await;
    let Ok(connected) = connected else {
        return Err(Failure::told(format!("no answer within {patience:?}")));
    };
    let control = connected.doing(|| format!("connect to host `{}`", host.name))?;
    let doing = || "ask for versions".into();
    let (libvirt, qemu) = (
        control.library_version().await.doing(doing)?,
        control.hypervisor_version().await.doing(doing)?,
    );
    let facts = Facts::ask(&control, &settings.machine).await?;
    let lanes = Lanes {
        control: control.clone(),
        agent: control.clone(),
        bulk: control.clone(),
        facts,
    };
    let pool = match Pool::open(&lanes, &settings.machine.pool).await {
        Ok(pool) => pool.info().await.ok(),
        Err(failure) if failure.is_connection() => return Err(failure),
        Err(_) => None,
    };
    let domains = domains::all(&lanes).await?;
    let is_ours = |owner: &crate::owner::Owner| *owner.provider == *settings.provider;
    let own = domains
        .iter()
        .filter(|domain| domain.owner.as_ref().is_some_and(is_ours))
        .count();
    let running = || domains.iter().filter(|domain| domain.status.is_active());
    let platform = lanes.facts.platform.as_ref().ok();
    Ok(Survey {
        libvirt: shown(libvirt),
        qemu: shown(qemu),
        accelerator: platform.map(|platform| platform.capabilities.domain.clone()),
        cpus: lanes.facts.cpus,
        memory_mib: lanes.facts.memory_mib,
        pool_bytes: pool.map(|pool| pool.capacity),
        pool_free_bytes: pool.map(|pool| pool.available),
        own_domains: own,
        other_domains: domains.len() - own,
        used_memory_mib: running().map(|domain| domain.memory_mib).sum(),
        used_vcpus: running().map(|domain| u64::from(domain.vcpus)).sum(),
    })
}
