//! What the fake hosts sell: the same slots at every boot.

use std::{collections::BTreeMap, sync::Arc};

use libvirt_backend::settings::{InstanceType, Naming, Offering};
use providerkit::CapacityType;

use super::ZONES;

/// Name, CPUs, GiB of memory, price an hour.
const TYPES: [(&str, u32, u32, f64); 3] = [
    ("fake-2c-8g", 2, 8, 0.10),
    ("fake-4c-16g", 4, 16, 0.20),
    ("fake-8c-32g", 8, 32, 0.40),
];

/// Every third slot may be taken away, and is cheaper for that (contract §14).
const CAPACITIES: [CapacityType; 3] = [CapacityType::Spot, CapacityType::OnDemand, CapacityType::OnDemand];
const SPOT_SHARE: f64 = 0.3;
const SPOT_INTERRUPTION: f64 = 0.05;

/// Slots whose Create fails (contract §12.3).
const FAILING: u32 = 8;
const FAILING_LABEL: (&str, &str) = ("conformance.fault/create", "error");
/// How their names begin, and with them those of their domains.
pub(super) const FAILING_PREFIX: &str = "faultcreate";

/// One offering for each kind of slot, which take turns: a larger count only adds slots.
pub(super) fn offerings(provider: &str, count: u32, faults: bool) -> Vec<Offering> {
    let kinds = ZONES.iter().flat_map(|zone| TYPES.iter().map(move |kind| (zone, kind)));
    let kinds: Vec<_> = kinds
        .flat_map(|(zone, kind)| CAPACITIES.map(|capacity| (zone, kind, capacity)))
        .collect();
    let step = u32::try_from(kinds.len()).unwrap_or(u32::MAX);
    let prefix: Arc<str> = format!("{provider}-spec").into();
    let mut offerings: Vec<_> = (0..step)
        .zip(kinds)
        .map(|(first, (zone, kind, capacity))| {
            let naming = Naming {
                prefix: Arc::clone(&prefix),
                first,
                step,
                digits: 3,
            };
            let share = count.saturating_sub(first).div_ceil(step);
            offering(zone, kind, capacity, share, naming)
        })
        .collect();
    if faults {
        let ([zone, _], [kind, ..]) = (ZONES, TYPES);
        let naming = Naming {
            prefix: FAILING_PREFIX.into(),
            first: 0,
            step: 1,
            digits: 1,
        };
        let mut failing = offering(zone, &kind, CapacityType::OnDemand, FAILING, naming);
        let (label, value) = FAILING_LABEL;
        failing.labels.insert(label.to_owned(), value.to_owned());
        offerings.push(failing);
    }
    offerings
}

fn offering(
    zone: &str,
    &(name, vcpus, gib, price): &(&str, u32, u32, f64),
    capacity_type: CapacityType,
    count: u32,
    naming: Naming,
) -> Offering {
    let spot = capacity_type == CapacityType::Spot;
    Offering {
        zone: zone.into(),
        instance_type: InstanceType {
            name: name.into(),
            vcpus,
            memory_mib: u64::from(gib) << 10,
            disk_gib: None,
        },
        capacity_type,
        count,
        price_per_hour: if spot { price * SPOT_SHARE } else { price },
        resources: BTreeMap::new(),
        labels: BTreeMap::new(),
        interruption_probability: if spot { SPOT_INTERRUPTION } else { 0.0 },
        naming: Some(naming),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Number, instance type, zone, capacity type and price of every slot.
    fn slots(count: u32) -> BTreeMap<u32, String> {
        let mut slots = BTreeMap::new();
        for offering in offerings("p", count, false) {
            let naming = offering.naming.unwrap();
            let (kind, zone) = (&offering.instance_type.name, &offering.zone);
            let what = format!("{kind} {zone} {} {}", offering.capacity_type, offering.price_per_hour);
            for turn in 0..offering.count {
                let taken = slots.insert(naming.first + turn * naming.step, what.clone());
                assert_eq!(taken, None);
            }
        }
        slots
    }

    #[test]
    fn there_are_as_many_as_were_asked_for_and_more_change_none_of_them() {
        for count in [0, 1, 17, 18, 19, 64, 1000] {
            let slots = slots(count);
            assert!(slots.keys().copied().eq(0..count), "{count}");
            assert_eq!(
                slots,
                self::slots(count + 20).into_iter().take(count as usize).collect()
            );
        }
    }

    #[test]
    fn every_third_may_be_taken_away_and_is_cheaper_for_that() {
        let slots = slots(36);
        for (number, slot) in &slots {
            assert_eq!(slot.contains("spot"), number % 3 == 0, "{number}: {slot}");
        }
        for offering in offerings("p", 36, false) {
            let spot = offering.capacity_type == CapacityType::Spot;
            assert_eq!(offering.interruption_probability, if spot { 0.05 } else { 0.0 });
            let full = TYPES
                .iter()
                .find(|kind| *kind.0 == *offering.instance_type.name)
                .unwrap()
                .3;
            assert_eq!(offering.price_per_hour < full, spot);
        }
        let kinds: BTreeSet<_> = slots.values().collect();
        assert_eq!(kinds.len(), TYPES.len() * ZONES.len() * 2);
    }

    #[test]
    fn those_that_fail_are_there_when_they_are_asked_for() {
        let failing = offerings("p", 5, true).pop().unwrap();
        assert_eq!(
            (failing.count, &*failing.labels["conformance.fault/create"]),
            (8, "error")
        );
        let labelled = |offering: &Offering| !offering.labels.is_empty();
        assert!(!offerings("p", 5, false).iter().any(labelled));
    }
}
