//! SPECULATIVE to IDLE.

use std::{sync::Arc, time::Duration};

use libvirt_rpc::wire::{
    constant::{domain::DomainCreateFlags, error::ErrorNumber},
    remote::record::DomainRef,
};
use providerkit_backend::HostRef;

use crate::{
    failure::{Doing as _, Failure},
    guest::{self, Guest, Stuck},
    host::{Host, Lanes, see},
    plan::{self, Plan},
    remove::Removal,
    settings::Delivery,
    user_data::UserData,
};

/// Makes the machine of a plan on a host, from wherever an earlier attempt came to.
pub(crate) async fn create(lanes: Arc<Lanes>, host: &Host, plan: &Plan, stuck: &Stuck) -> Result<Guest, Failure> {
    let provider = &*plan.settings.provider;
    let machine = &plan.owner.machine;
    let found = plan::find(&lanes, &plan.name, provider, machine).await?;
    let domain = match found {
        Some((seen, owner)) if owner.created_by == plan.owner.created_by => seen.domain,
        Some(_) => {
            let removal = Removal {
                provider,
                machine,
                pool: &plan.owner.pool,
                operation: None,
                grace: Duration::ZERO,
            };
            removal.run(&lanes, host).await?;
            plan.define(&lanes, host).await?
        }
        None => plan.define(&lanes, host).await?,
    };
    bring_up(lanes, host, plan, &domain, stuck).await
}

/// Starts a domain that is defined, and waits until the machine is ready for use.
pub(crate) async fn bring_up(
    lanes: Arc<Lanes>,
    host: &Host,
    plan: &Plan,
    domain: &DomainRef,
    stuck: &Stuck,
) -> Result<Guest, Failure> {
    start(&lanes, domain, DomainCreateFlags::empty()).await?;
    learn(&lanes, host, domain).await?;
    let guest = guest::wait(&lanes, host, domain, plan.settings.idle_when(), stuck).await?;
    if !guest.forbidden.is_empty() && plan.settings.delivery() == Delivery::Agent {
        let or = match plan.settings.machine.user_data {
            UserData::CloudInit(_) => " or set `guest.delivery = \"seed\"`",
            UserData::Ignition(_) => "",
        };
        return Err(Failure::told(format!(
            "the guest agent of image `{}` does not allow {}; allow them in its configuration (RHEL family: \
             /etc/sysconfig/qemu-ga){or}",
            plan.owner.image,
            guest.forbidden.join(", ")
        )));
    }
    Ok(guest)
}

/// Writes down that the machine is ready, so that it is found again should the state be lost.
pub(crate) async fn settle(lanes: &Lanes, host: &Host, plan: &Plan, guest: &Guest) -> Result<(), Failure> {
    let found = plan::find(lanes, &plan.name, &plan.settings.provider, &plan.owner.machine).await?;
    let Some((seen, mut owner)) = found else {
        return Err(Failure::told(format!(
            "domain `{}` was removed while its machine was made",
            plan.name
        )));
    };
    owner.ready = true;
    owner.binding = None;
    owner.guest_id.clone_from(&guest.machine_id);
    plan::mark(lanes, &seen.domain, &owner).await?;
    learn(lanes, host, &seen.domain).await
}

/// Starts a domain unless it runs; a failure tells what can be done on the host.
pub(crate) async fn start(lanes: &Lanes, domain: &DomainRef, flags: DomainCreateFlags) -> Result<(), Failure> {
    let name = domain.name.to_string_lossy();
    let doing = || format!("start domain `{name}`");
    if lanes.control.domain_is_active(domain).await.doing(doing)? {
        return Ok(());
    }
    // QEMU has to be started, on a busy host perhaps many at once.
    let control = lanes.bulk.with_deadline(Duration::from_secs(120));
    match control.domain_create(domain, flags).await {
        Ok(_) => Ok(()),
        Err(error)
            if error.code() == Some(ErrorNumber::ERR_OPERATION_INVALID)
                && lanes.control.domain_is_active(domain).await.doing(doing)? =>
        {
            Ok(())
        }
        Err(source) => {
            let mut doing = doing();
            let text = source
                .daemon()
                .map(|daemon| daemon.message().into_owned())
                .unwrap_or_default();
            // QEMU's words for a file of its configuration device that it may not read (field report F53).
            if text.contains("can't load") {
                doing.push_str(
                    ": QEMU may not read the machine's configuration for Ignition; under AppArmor, libvirt's helper knows \
                     such files only in later releases (11.3 does, 9.0 does not): add a line such as \
                     `/var/lib/libvirt/images/*.ign r,` to /etc/apparmor.d/local/abstractions/libvirt-qemu",
                );
            } else if text.contains("Permission denied") {
                doing.push_str(
                    ": QEMU may not read a file of the pool; every folder above it needs `x` for the qemu user, and \
                     under AppArmor a pool outside /var/lib/libvirt/images needs a line in \
                     /etc/apparmor.d/local/abstractions/libvirt-qemu",
                );
            }
            Err(Failure::Host { doing, source })
        }
    }
}

/// Takes over at once what a domain is now, instead of waiting for its event.
pub(crate) async fn learn(lanes: &Lanes, host: &Host, domain: &DomainRef) -> Result<(), Failure> {
    let seen = see(&lanes.control, domain).await?;
    host.learn(domain.uuid, seen);
    Ok(())
}

/// What BigFleet calls the machine's host: also the node's provider id.
pub(crate) fn host_ref(provider: &Arc<str>, zone: &str, uuid: uuid::Uuid) -> HostRef {
    HostRef::new(Arc::clone(provider), format!("libvirt://{zone}/{uuid}"))
}

/// The domain in a host reference of ours.
pub(crate) fn domain_of(host: &HostRef) -> Option<uuid::Uuid> {
    host.reference.rsplit('/').next()?.parse().ok()
}
