//! Removing a machine without a trace, and nothing else.

use std::{collections::BTreeSet, time::Duration};

use libvirt_rpc::wire::{
    constant::{
        domain::{DomainDestroyFlags, DomainShutdownFlags, DomainUndefineFlags},
        error::ErrorNumber,
    },
    remote::record::DomainRef,
    xdr::Uuid,
};
use providerkit_backend::{MachineId, OperationId};
use tokio::time::Instant;

use crate::{
    failure::{Absent as _, Doing as _, Failure},
    host::{Host, Lanes},
    name::{self, DomainName, Incarnation},
    owner::Owner,
    plan,
    pool::Pool,
};

const FIRST_POLL: Duration = Duration::from_millis(10);
const LAST_POLL: Duration = Duration::from_millis(200);
/// A guest that is still booting does not hear the first time.
const AGAIN: Duration = Duration::from_secs(10);

/// What may be removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removal<'a> {
    pub(crate) provider: &'a str,
    pub(crate) machine: &'a MachineId,
    /// The pool to look in where no domain says which.
    pub(crate) pool: &'a str,
    /// An operation whose volumes may be there without a domain.
    pub(crate) operation: Option<OperationId>,
    /// How long the guest may take to stop by itself.
    pub(crate) grace: Duration,
}

impl Removal<'_> {
    /// Removes domain, disk, seed and all that came to them since. What is gone already is fine; one thing that cannot
    /// be removed does not keep the rest.
    pub(crate) async fn run(&self, lanes: &Lanes, host: &Host) -> Result<(), Failure> {
        let name = DomainName::new(self.provider, self.machine);
        let found = plan::find(lanes, &name, self.provider, self.machine).await;
        let domain = match found {
            Err(Failure::Told(foreign)) => {
                // Somebody else's domain stays; what is ours beside it goes.
                tracing::warn!(machine_id = %self.machine, %foreign, "a domain is left alone");
                None
            }
            found => found?,
        };
        let gone = domain.as_ref().map(|(seen, _)| seen.domain.uuid);
        let mut volumes = BTreeSet::new();
        let pool_name = match &domain {
            Some((seen, owner)) => {
                volumes.extend(volumes_of(&name, owner));
                volumes.extend(seen.files.iter().filter_map(|file| volume_name(&name, file)));
                stop(lanes, &seen.domain, self.grace).await?;
                undefine(lanes, &seen.domain).await?;
                host.learn(seen.domain.uuid, None);
                owner.pool.clone()
            }
            None => self.pool.to_owned(),
        };
        if let Some(operation) = self.operation {
            let incarnation = Incarnation::new(name.clone(), operation);
            volumes.extend(incarnation.volumes());
        }
        let pool = Pool::open(lanes, &pool_name).await?;
        if domain.is_none() {
            // Nobody is left to say which disk it had.
            let all = pool.volumes().await?;
            let names = all.iter().map(|volume| volume.name.to_string_lossy().into_owned());
            volumes.extend(names.filter(|volume| name::is_volume_of(&name, volume)));
        }
        let mut first = None;
        for volume in &volumes {
            let removed = remove_volume(&pool, host, volume, gone).await;
            if let Err(failure) = removed {
                tracing::warn!(machine_id = %self.machine, volume, %failure, "a volume is left over");
                first.get_or_insert(failure);
            }
        }
        first.map_or(Ok(()), Err)
    }
}

/// Deletes a volume that no domain is on but one that is gone, which somebody may just have seen still.
pub(crate) async fn remove_volume(
    pool: &Pool<'_>,
    host: &Host,
    volume: &str,
    gone: Option<Uuid>,
) -> Result<(), Failure> {
    let Some(found) = pool.volume(volume).await? else {
        return Ok(());
    };
    let path = found.key.to_string_lossy().into_owned();
    let user = host.with_inventory(|inventory| {
        inventory
            .user_of(&path, gone)
            .map(|seen| seen.domain.name.to_string_lossy().into_owned())
    });
    if let Some(user) = user {
        return Err(Failure::told(format!(
            "volume `{volume}` is in use by domain `{user}`, so it is not deleted"
        )));
    }
    pool.delete(volume).await.map(drop)
}

/// The volumes that a domain's owner says it was made with.
pub(crate) fn volumes_of(name: &DomainName, owner: &Owner) -> Vec<String> {
    [owner.created_by, owner.disk_by]
        .into_iter()
        .flat_map(|operation| Incarnation::new(name.clone(), operation).volumes())
        .collect()
}

/// The volume behind a file of the domain's own, also one that a snapshot made.
fn volume_name(domain: &DomainName, file: &str) -> Option<String> {
    let volume = file.rsplit('/').next()?;
    let rest = volume.strip_prefix(domain.as_str())?.strip_prefix('-')?;
    let tag = rest.get(..8)?;
    let ours = tag.bytes().all(|byte| byte.is_ascii_hexdigit()) && rest.get(8..)?.starts_with(['.', '-']);
    ours.then(|| volume.to_owned())
}

/// Stops a domain: the guest is asked, for as long as it may take, then the plug is pulled.
pub(crate) async fn stop(lanes: &Lanes, domain: &DomainRef, grace: Duration) -> Result<(), Failure> {
    let name = domain.name.to_string_lossy();
    let doing = || format!("stop domain `{name}`");
    let is_active = async || {
        let active = lanes.control.domain_is_active(domain).await.absent().doing(doing);
        active.map(|active| active.unwrap_or(false))
    };
    let (end, mut asked, mut pause) = (Instant::now() + grace, None::<Instant>, FIRST_POLL);
    while is_active().await? && Instant::now() < end {
        if asked.is_none_or(|asked| asked.elapsed() >= AGAIN) {
            asked = Some(Instant::now());
            // Through ACPI: libvirt's own choice would be the agent, which may hold the call for a minute.
            let sent = lanes
                .control
                .domain_shutdown(domain, DomainShutdownFlags::ACPI_POWER_BTN)
                .await;
            if let Err(failure) = sent.doing(doing) {
                if failure.is_connection() {
                    return Err(failure);
                }
                break;
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LAST_POLL);
    }
    match lanes.control.domain_destroy(domain, DomainDestroyFlags::empty()).await {
        Ok(()) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        // It was not running.
        Err(error) if error.code() == Some(ErrorNumber::ERR_OPERATION_INVALID) && !is_active().await? => Ok(()),
        Err(source) => Err(Failure::Host { doing: doing(), source }),
    }
}

/// Undefines a domain with all that libvirt keeps of it; a plain undefine is refused because of any of that.
async fn undefine(lanes: &Lanes, domain: &DomainRef) -> Result<(), Failure> {
    type Flags = DomainUndefineFlags;
    let basic = Flags::MANAGED_SAVE | Flags::SNAPSHOTS_METADATA | Flags::NVRAM;
    // Newest first: a daemon before 8.9 does not know TPM state, one before 5.6 no checkpoints.
    let tries = [
        basic | Flags::CHECKPOINTS_METADATA | Flags::TPM,
        basic | Flags::CHECKPOINTS_METADATA,
        basic,
    ];
    let mut last = Ok(());
    for flags in tries {
        last = lanes.control.domain_undefine(domain, flags).await;
        match &last {
            Ok(()) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.is_unsupported() || error.code() == Some(ErrorNumber::ERR_INVALID_ARG) => {}
            Err(_) => break,
        }
    }
    last.doing(|| format!("undefine domain `{}`", domain.name.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_snapshots_are_the_machines_own_and_others_are_not() {
        let domain = DomainName::new("p", &MachineId::new("m").unwrap());
        let own = |file: &str| volume_name(&domain, file);
        assert_eq!(
            own(&format!("/pool/{domain}-0123abcd.qcow2")),
            Some(format!("{domain}-0123abcd.qcow2"))
        );
        assert_eq!(
            own(&format!("/pool/{domain}-0123abcd.backup-1")),
            Some(format!("{domain}-0123abcd.backup-1"))
        );
        assert_eq!(own(&format!("/pool/{domain}-golden.qcow2")), None);
        assert_eq!(own("/pool/golden.qcow2"), None);
        assert_eq!(own(&format!("/pool/{domain}-0123abcdef.qcow2")), None);
    }
}
