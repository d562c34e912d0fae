//! The slots for sale, the same at every boot.

use std::{collections::HashMap, sync::Arc};

use providerkit_backend::{CapacityType, MachineId, Profile};

use crate::settings::{InstanceType, Offering};

/// All slots, in the order in which they share what their hosts have.
#[derive(Clone, Debug)]
pub(crate) struct Catalogue {
    slots: Vec<Place>,
    by_name: HashMap<Arc<str>, usize>,
    types: HashMap<Arc<str>, InstanceType>,
    /// What was offered before: there may be machines of it.
    old_types: HashMap<Arc<str>, InstanceType>,
}

/// One slot.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: Arc<str>,
    pub(crate) profile: Arc<Profile>,
    pub(crate) instance_type: InstanceType,
}

impl Catalogue {
    /// The slots of some offerings. Their names hold what tells one offering from another, so that changing the count
    /// of one does not rename the rest; offerings alike but in price or labels are counted on.
    pub(crate) fn new(provider: &str, offerings: &[Offering]) -> Self {
        let mut slots = Vec::new();
        let mut counts: HashMap<String, u32> = HashMap::new();
        for (number, offering) in offerings.iter().enumerate() {
            let profile = Arc::new(profile(offering));
            let prefix = prefix(provider, offering);
            let next = counts.entry(prefix.clone()).or_default();
            for turn in 0..offering.count {
                let name: Arc<str> = match &offering.naming {
                    Some(naming) => {
                        let (prefix, number) = (&naming.prefix, naming.first + turn * naming.step);
                        format!("{prefix}-{number:0digits$}", digits = naming.digits)
                    }
                    None => format!("{prefix}-{next:03}"),
                }
                .into();
                *next += 1;
                let place = Place {
                    name,
                    profile: Arc::clone(&profile),
                    instance_type: offering.instance_type.clone(),
                };
                slots.push((turn, number, place));
            }
        }
        // Offerings take turns, so that the first does not take all there is. A slot's turn never changes, so those in
        // use do not decide which others are shown.
        slots.sort_by_key(|(turn, offering, _)| (*turn, *offering));
        let slots: Vec<Place> = slots.into_iter().map(|(_, _, place)| place).collect();
        let by_name = slots
            .iter()
            .enumerate()
            .map(|(at, place)| (Arc::clone(&place.name), at))
            .collect();
        let types = offerings
            .iter()
            .map(|offering| (Arc::clone(&offering.instance_type.name), offering.instance_type.clone()));
        Self {
            slots,
            by_name,
            types: types.collect(),
            old_types: HashMap::new(),
        }
    }

    /// The same, which still knows the sizes that another one offered.
    pub(crate) fn knowing(mut self, other: &Self) -> Self {
        self.old_types.clone_from(&other.old_types);
        self.old_types
            .extend(other.types.iter().map(|(name, kind)| (Arc::clone(name), kind.clone())));
        self
    }

    /// Whether machines of that size may be made.
    pub(crate) fn offered(&self, profile: &Profile) -> Option<&InstanceType> {
        self.types.get(profile.instance_type.as_str())
    }

    pub(crate) fn slots(&self) -> &[Place] {
        &self.slots
    }

    pub(crate) fn slot(&self, name: &str) -> Option<&Place> {
        self.slots.get(*self.by_name.get(name)?)
    }

    /// The size of a machine.
    pub(crate) fn instance_type(&self, profile: &Profile) -> Option<&InstanceType> {
        let name = profile.instance_type.as_str();
        self.types.get(name).or_else(|| self.old_types.get(name))
    }

    /// The slot a machine fills: its id is the slot's name, or that with the number of its replacement.
    pub(crate) fn slot_of<'a>(&self, machine: &'a MachineId) -> &'a str {
        let id = machine.as_str();
        if self.by_name.contains_key(id) {
            return id;
        }
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match id.rsplit_once("-r") {
            Some((slot, generation)) if number(generation) => slot,
            _ => id,
        }
    }
}

fn prefix(provider: &str, offering: &Offering) -> String {
    let (zone, kind) = (&offering.zone, &offering.instance_type.name);
    match offering.capacity_type {
        CapacityType::OnDemand => format!("{provider}-{zone}-{kind}"),
        other => format!("{provider}-{zone}-{kind}-{other}"),
    }
}

fn profile(offering: &Offering) -> Profile {
    let kind = &offering.instance_type;
    let mut profile = Profile::new(&*kind.name, &*offering.zone, offering.capacity_type)
        .price_per_hour(offering.price_per_hour)
        .interruption_probability(offering.interruption_probability)
        .resource("cpu", kind.vcpus.to_string())
        .resource("memory", mebibytes(kind.memory_mib));
    if !offering.resources.is_empty() {
        profile.resources.clone_from(&offering.resources);
    }
    profile.labels.clone_from(&offering.labels);
    profile
}

/// A Kubernetes quantity.
fn mebibytes(mib: u64) -> String {
    if mib.is_multiple_of(1024) {
        format!("{}Gi", mib / 1024)
    } else {
        format!("{mib}Mi")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn offering(kind: &str, count: u32) -> Offering {
        Offering {
            zone: "rack1".into(),
            instance_type: InstanceType {
                name: kind.into(),
                vcpus: 2,
                memory_mib: 1536,
                disk_gib: None,
            },
            capacity_type: CapacityType::OnDemand,
            count,
            price_per_hour: 0.1,
            resources: BTreeMap::new(),
            labels: BTreeMap::new(),
            interruption_probability: 0.0,
            naming: None,
        }
    }

    fn names(offerings: &[Offering]) -> Vec<String> {
        let catalogue = Catalogue::new("p", offerings);
        catalogue.slots().iter().map(|place| place.name.to_string()).collect()
    }

    #[test]
    fn offerings_take_turns() {
        assert_eq!(
            names(&[offering("small", 3), offering("large", 1)]),
            [
                "p-rack1-small-000",
                "p-rack1-large-000",
                "p-rack1-small-001",
                "p-rack1-small-002"
            ]
        );
    }

    #[test]
    fn offerings_may_share_out_numbers_among_them() {
        let named = |first| Offering {
            naming: Some(crate::settings::Naming {
                prefix: "p-spec".into(),
                first,
                step: 2,
                digits: 3,
            }),
            ..offering("small", 2)
        };
        let expected = ["p-spec-000", "p-spec-001", "p-spec-002", "p-spec-003"];
        assert_eq!(names(&[named(0), named(1)]), expected);
    }

    #[test]
    fn a_changed_count_renames_nothing() {
        let before = names(&[offering("small", 2), offering("large", 2)]);
        let after = names(&[offering("small", 5), offering("large", 2)]);
        assert!(before.iter().all(|name| after.contains(name)));
    }

    #[test]
    fn offerings_that_differ_in_price_alone_share_one_count() {
        let cheap = Offering {
            price_per_hour: 0.05,
            ..offering("small", 2)
        };
        let mut all = names(&[offering("small", 2), cheap]);
        all.sort();
        assert_eq!(
            all,
            [
                "p-rack1-small-000",
                "p-rack1-small-001",
                "p-rack1-small-002",
                "p-rack1-small-003"
            ]
        );
    }

    #[test]
    fn a_replacement_fills_the_slot_of_what_it_replaces() {
        let catalogue = Catalogue::new("p", &[offering("small", 1)]);
        let slot = |id: &str| catalogue.slot_of(&MachineId::new(id).unwrap()).to_owned();
        assert_eq!(slot("p-rack1-small-000"), "p-rack1-small-000");
        assert_eq!(slot("p-rack1-small-000-r2"), "p-rack1-small-000");
        assert_eq!(slot("p-rack1-small-000-rx"), "p-rack1-small-000-rx");
    }

    #[test]
    fn quantities_are_what_kubernetes_reads() {
        let profile = profile(&offering("small", 1));
        assert_eq!(profile.allocatable["memory"], "1536Mi");
        assert_eq!(mebibytes(4096), "4Gi");
    }
}
