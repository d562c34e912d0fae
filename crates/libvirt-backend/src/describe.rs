//! What the hosts have to offer, from what is known of them; no host is asked.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use providerkit_backend::{Adopted, Known, Slot, State};

use crate::{
    backend::Inner,
    budget::{Need, Room},
    create,
    fleet::Fleet,
    host::{Host, Seen},
    owner::Owner,
};

/// All slots: those for sale, those that are not any more but still have a machine, and those that only a host knows.
pub(crate) fn slots(inner: &Inner, known: &[Known]) -> Vec<Slot> {
    let machines: HashMap<&str, &Known> = known.iter().map(|known| (&*known.slot, known)).collect();
    let fleet = &*inner.fleet();
    let catalogue = &fleet.catalogue;
    let mut slots = Vec::with_capacity(catalogue.slots().len());
    let mut rooms = Rooms::new(inner, fleet);
    let mut adopted = found(inner, fleet, &machines);
    for place in catalogue.slots() {
        let slot = Slot::new(Arc::clone(&place.name), Arc::clone(&place.profile));
        let known = machines.get(&*place.name);
        if known.is_none() && !inner.is_settled(&place.profile.zone) {
            // A host that has not answered yet may have the slot's machine, should the state have been lost.
            continue;
        }
        let slot = match (known, adopted.remove(&*place.name)) {
            (Some(known), _) => match known.machine.state {
                // A Create that was admitted since the engine asked has its room already.
                State::Speculative if inner.has_room_of_its_own(&known.machine) => slot,
                State::Speculative => rooms.offer(slot, &place.profile.zone, &Need::from(&place.instance_type)),
                _ => with_loss(fleet, known, slot),
            },
            (None, Some(adopted)) => slot.adopted(adopted),
            (None, None) => rooms.offer(slot, &place.profile.zone, &Need::from(&place.instance_type)),
        };
        slots.push(slot);
    }
    let rest = known.iter().filter(|known| catalogue.slot(&known.slot).is_none());
    slots.extend(rest.map(|known| {
        let slot = Slot::new(Arc::clone(&known.slot), Arc::clone(&known.machine.profile));
        match known.machine.state {
            State::Speculative => slot.withheld("it is not offered any more"),
            _ => with_loss(fleet, known, slot),
        }
    }));
    slots.extend(
        adopted
            .into_values()
            .filter_map(|adopted| unlisted(inner, fleet, adopted)),
    );
    slots
}

/// Machines on the hosts whose slots the engine does not know: its state was lost.
fn found(inner: &Inner, fleet: &Fleet, known: &HashMap<&str, &Known>) -> HashMap<String, Adopted> {
    let mut found = HashMap::new();
    for host in &fleet.hosts {
        host.with_inventory(|inventory| {
            for (seen, owner) in inventory.owned(inner.provider()) {
                if owner.ready && !known.contains_key(owner.slot.as_str()) {
                    found.insert(owner.slot.clone(), adopt(inner, host, seen, owner));
                }
            }
        });
    }
    found
}

fn adopt(inner: &Inner, host: &Host, seen: &Seen, owner: &Owner) -> Adopted {
    let uuid = uuid::Uuid::from_bytes(seen.domain.uuid.0);
    let adopted = Adopted::new(
        owner.machine.clone(),
        create::host_ref(inner.provider(), host.zone(), uuid),
    );
    match &owner.binding {
        Some(binding) => adopted
            .cluster(binding.cluster.clone())
            .metadata(binding.metadata.clone()),
        None => adopted,
    }
}

/// A machine whose slot is not for sale any more, found after the state was lost.
fn unlisted(inner: &Inner, fleet: &Fleet, adopted: Adopted) -> Option<Slot> {
    let owner = fleet.hosts.iter().find_map(|host| {
        host.with_inventory(|inventory| {
            let found = inventory.of_machine(inner.provider(), &adopted.machine);
            found.map(|(_, owner)| owner.clone())
        })
    })?;
    Some(Slot::new(owner.slot, owner.profile).adopted(adopted))
}

/// Says that the machine's domain is gone, where every host that could have it was asked.
fn with_loss(fleet: &Fleet, known: &Known, slot: Slot) -> Slot {
    let resting = matches!(known.machine.state, State::Idle | State::Configured);
    let Some(reference) = known.machine.host.as_ref().filter(|_| resting) else {
        return slot;
    };
    let Some(uuid) = create::domain_of(reference) else {
        return slot;
    };
    let hosts = fleet.hosts_of(&known.machine.profile.zone);
    let gone = !hosts.is_empty()
        && hosts.iter().all(|host| {
            host.is_known()
                && host
                    .with_inventory(|inventory| inventory.get(libvirt_rpc::wire::xdr::Uuid(*uuid.as_bytes())).is_none())
        });
    if gone {
        let reason = format!(
            "its domain {uuid} is on no host of zone `{}` any more",
            known.machine.profile.zone
        );
        slot.lost(reference.clone(), reason)
    } else {
        slot
    }
}

/// What is left of each host while slots are handed out.
struct Rooms<'a> {
    fleet: &'a Fleet,
    by_zone: HashMap<Arc<str>, Vec<Result<Room, String>>>,
    /// Zones with a slot that did not fit, so that its turn is not jumped by a later one of the same size.
    full: HashSet<(Arc<str>, Need)>,
}

impl<'a> Rooms<'a> {
    fn new(inner: &Inner, fleet: &'a Fleet) -> Self {
        let rooms = |zone: &Arc<str>| {
            let hosts = fleet.hosts_of(zone);
            inner.ledger.rooms(hosts, &inner.settings.budget, inner.provider())
        };
        Self {
            fleet,
            by_zone: fleet.zones().map(|zone| (Arc::clone(zone), rooms(zone))).collect(),
            full: HashSet::new(),
        }
    }

    /// Offers a slot if it fits beside those offered before it. The reason is always in the same words.
    fn offer(&mut self, slot: Slot, zone: &str, need: &Need) -> Slot {
        let Some((zone, rooms)) = self
            .by_zone
            .get_key_value(zone)
            .map(|(zone, _)| Arc::clone(zone))
            .and_then(|zone| {
                let rooms = self.by_zone.get_mut(&zone)?;
                Some((zone, rooms))
            })
        else {
            return slot.withheld("its zone has no hosts");
        };
        if rooms.iter().all(Result::is_err) {
            let reachable = || self.fleet.hosts_of(&zone).iter().filter(|host| host.is_known());
            return slot.withheld(if reachable().next().is_none() {
                format!("no host of zone `{zone}` can be reached")
            } else if reachable().all(|host| host.closed().is_some()) {
                format!("every host of zone `{zone}` is cordoned")
            } else {
                format!("no host of zone `{zone}` can run machines")
            });
        }
        let key = (Arc::clone(&zone), *need);
        if !self.full.contains(&key) {
            let fitting = rooms.iter_mut().filter_map(|room| room.as_mut().ok());
            let roomiest = fitting
                .filter(|room| room.lacks(need).is_none())
                .max_by_key(|room| room.memory());
            if let Some(room) = roomiest {
                room.take(need);
                return slot;
            }
            self.full.insert(key);
        }
        slot.withheld(format!("zone `{zone}` has no room for it"))
    }
}
