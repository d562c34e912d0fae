//! Whose the domains there are.

use std::collections::{BTreeMap, BTreeSet};

use libvirt_rpc::wire::constant::domain::ConnectListAllDomainsFlags;
use providerkit_backend::MachineId;

use super::{Check, failed};
use crate::{
    catalogue::Catalogue,
    failure::{Doing as _, Failure},
    host::{Lanes, Seen, see},
    name::DomainName,
    pool::listed,
    settings::Settings,
};

pub(super) async fn look(lanes: &Lanes, settings: &Settings, zone: &str, tell: &mut (dyn FnMut(Check) + Send)) {
    match all(lanes).await {
        Ok(domains) => judge(&domains, settings, zone, tell),
        Err(failure) => tell(failed("domains", failure)),
    }
}

/// Every domain of the host.
pub(super) async fn all(lanes: &Lanes) -> Result<Vec<Seen>, Failure> {
    let control = &lanes.control;
    let domains = control.domains(ConnectListAllDomainsFlags::empty()).await;
    let mut seen = Vec::new();
    for domain in domains.doing(|| "list the domains".into())? {
        seen.extend(see(control, &domain).await?);
    }
    Ok(seen)
}

fn judge(domains: &[Seen], settings: &Settings, zone: &str, tell: &mut (dyn FnMut(Check) + Send)) {
    let ours = &*settings.provider;
    let mut others = BTreeMap::<&str, u32>::new();
    let (mut own, mut foreign) = (0_u32, 0_u32);
    for domain in domains {
        match &domain.owner {
            Some(owner) if owner.provider == ours => own += 1,
            Some(owner) => *others.entry(owner.provider.as_str()).or_default() += 1,
            None => foreign += 1,
        }
    }
    let wanted = Catalogue::new(&settings.provider, &settings.offerings);
    let places = wanted.slots().iter().filter(|place| *place.profile.zone == *zone);
    let names: BTreeSet<_> = places
        .filter_map(|place| MachineId::new(std::sync::Arc::clone(&place.name)).ok())
        .map(|machine| DomainName::new(ours, &machine).to_string())
        .collect();
    let taken = domains
        .iter()
        .filter(|domain| domain.owner.as_ref().is_none_or(|owner| owner.provider != ours));
    let taken = taken.map(|domain| domain.domain.name.to_string_lossy().into_owned());
    let taken: Vec<_> = taken.filter(|name| names.contains(name)).collect();
    if !taken.is_empty() {
        let detail = format!(
            "domains that are not ours have names of our machines: {}",
            listed("", taken.into_iter()).trim()
        );
        tell(Check::fail("ownership", detail).remedy("rename or remove them by hand; we never touch them"));
    } else if others.is_empty() {
        tell(Check::ok(
            "ownership",
            format!("{own} domains are ours (`{ours}`), {foreign} are nobody's"),
        ));
    } else {
        let others: Vec<_> = others
            .iter()
            .map(|(name, count)| format!("`{name}` ({count})"))
            .collect();
        let detail = format!(
            "other providers have domains here: {}; {own} are ours (`{ours}`)",
            others.join(", ")
        );
        tell(Check::warn("ownership", detail).remedy(
            "give each host to one provider, or set `budget` so that both fit; was `provider` renamed, name it as before",
        ));
    }
}
