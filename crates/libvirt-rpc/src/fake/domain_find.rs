//! Domains: finding them.

use super::{
    call::Call,
    domain::{Domain, absent},
};
use crate::wire::{
    constant::domain::{ConnectListAllDomainsFlags as Flags, DomainState},
    remote::{
        connect::{
            ConnectListAllDomains, ConnectListAllDomainsRet, ConnectListDefinedDomains, ConnectListDefinedDomainsRet,
            ConnectListDomains, ConnectListDomainsRet, ConnectNumOfDefinedDomains, ConnectNumOfDefinedDomainsRet,
            ConnectNumOfDomains, ConnectNumOfDomainsRet,
        },
        domain::{
            DomainLookupById, DomainLookupByIdRet, DomainLookupByName, DomainLookupByNameRet, DomainLookupByUuid,
            DomainLookupByUuidRet,
        },
    },
};

pub(super) fn answer(call: &mut Call<'_>) {
    call.on::<ConnectListAllDomains>(|world, args| {
        let flags = Flags(args.flags);
        let domains: Vec<_> = world
            .domains
            .iter()
            .filter(|d| fits(d, flags))
            .map(Domain::to_ref)
            .collect();
        Ok(ConnectListAllDomainsRet {
            ret: u32::try_from(domains.len()).unwrap_or(u32::MAX),
            domains,
        })
    });
    call.on::<DomainLookupByName>(|world, args| {
        let found = world.domains.named(&args.name.to_string_lossy());
        let missing = || absent(format!("no domain with matching name '{}'", args.name));
        found
            .map(|d| DomainLookupByNameRet { dom: d.to_ref() })
            .ok_or_else(missing)
    });
    call.on::<DomainLookupByUuid>(|world, args| {
        let missing = || absent(format!("no domain with matching uuid '{}'", args.uuid));
        let found = world.domains.find(&args.uuid);
        found
            .map(|d| DomainLookupByUuidRet { dom: d.to_ref() })
            .ok_or_else(missing)
    });
    call.on::<DomainLookupById>(|world, args| {
        let found = world.domains.iter().find(|d| d.is_active() && d.id == args.id);
        let missing = || absent(format!("no domain with matching id {}", args.id));
        found
            .map(|d| DomainLookupByIdRet { dom: d.to_ref() })
            .ok_or_else(missing)
    });
    by_name(call);
}

/// What there was before domains could be listed in one call.
fn by_name(call: &mut Call<'_>) {
    let count = |many: usize| i32::try_from(many).unwrap_or(i32::MAX);
    let room = |max: i32| usize::try_from(max).unwrap_or(0);
    call.on::<ConnectNumOfDomains>(|world, ()| {
        let num = count(world.domains.iter().filter(|d| d.is_active()).count());
        Ok(ConnectNumOfDomainsRet { num })
    });
    call.on::<ConnectListDomains>(|world, args| {
        let active = world.domains.iter().filter(|d| d.is_active());
        let ids = active.map(|d| d.id).take(room(args.maxids)).collect();
        Ok(ConnectListDomainsRet { ids })
    });
    call.on::<ConnectNumOfDefinedDomains>(|world, ()| {
        let num = count(world.domains.iter().filter(|d| !d.is_active()).count());
        Ok(ConnectNumOfDefinedDomainsRet { num })
    });
    call.on::<ConnectListDefinedDomains>(|world, args| {
        let inactive = world.domains.iter().filter(|d| !d.is_active());
        let names = inactive
            .map(|d| d.name.as_str().into())
            .take(room(args.maxnames))
            .collect();
        Ok(ConnectListDefinedDomainsRet { names })
    });
}

/// Whether a domain is wanted: of each pair of flags none, both or the right one is set.
pub(super) fn fits(domain: &Domain, flags: Flags) -> bool {
    let either = |pairs: &[(Flags, bool)]| {
        let asked = pairs.iter().any(|(flag, _)| flags.contains(*flag));
        !asked || pairs.iter().any(|(flag, is)| flags.contains(*flag) && *is)
    };
    let pair = |yes: Flags, no: Flags, is: bool| either(&[(yes, is), (no, !is)]);
    let (running, paused, off) = (
        domain.state == DomainState::RUNNING,
        domain.state == DomainState::PAUSED,
        domain.state == DomainState::SHUTOFF,
    );
    pair(Flags::ACTIVE, Flags::INACTIVE, domain.is_active())
        && pair(Flags::PERSISTENT, Flags::TRANSIENT, domain.persistent)
        && pair(Flags::AUTOSTART, Flags::NO_AUTOSTART, domain.autostart)
        && pair(Flags::MANAGEDSAVE, Flags::NO_MANAGEDSAVE, domain.saved.is_some())
        && pair(Flags::HAS_SNAPSHOT, Flags::NO_SNAPSHOT, !domain.snapshots.is_empty())
        && pair(
            Flags::HAS_CHECKPOINT,
            Flags::NO_CHECKPOINT,
            !domain.checkpoints.is_empty(),
        )
        && either(&[
            (Flags::RUNNING, running),
            (Flags::PAUSED, paused),
            (Flags::SHUTOFF, off),
            (Flags::OTHER, !running && !paused && !off),
        ])
}
