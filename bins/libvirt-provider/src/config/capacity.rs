//! What is for sale, as configured: the reference's offerings, catalogue and prices, in files of their own or inline.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use libvirt_backend::settings::{InstanceType, Offering};
use providerkit::CapacityType;
use providerkit_runtime::config::Findings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// What is for sale.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct CapacityConfig {
    /// The slots. When there are none, `seed_count` of them are shared out over all zones.
    offerings: Vec<OfferingConfig>,
    /// A JSON file with more offerings.
    offerings_file: PathBuf,
    /// Sizes by name, beside the built-in `kvm.small`, `kvm.medium`, `kvm.large` and `kvm.xlarge`.
    instance_types: BTreeMap<String, InstanceTypeConfig>,
    /// A JSON file with sizes by name, which replaces the built-in ones.
    instance_types_file: PathBuf,
    /// Prices an hour by size, such as `kvm.small=0.02,kvm.large=0.08`; others follow from CPUs and memory.
    prices: String,
    /// What a virtual CPU costs an hour.
    price_per_vcpu_hour: f64,
    /// What a GiB of memory costs an hour.
    price_per_gib_hour: f64,
    /// How offerings are paid for that do not say so: `on-demand`, `reserved` or `bare-metal`.
    capacity_type: String,
    /// How many slots there are when no offerings are given.
    #[schemars(range(max = 1_000_000))]
    pub(crate) seed_count: u32,
}

impl Default for CapacityConfig {
    fn default() -> Self {
        Self {
            offerings: Vec::new(),
            offerings_file: PathBuf::new(),
            instance_types: BTreeMap::new(),
            instance_types_file: PathBuf::new(),
            prices: String::new(),
            price_per_vcpu_hour: 0.003,
            price_per_gib_hour: 0.0008,
            capacity_type: "on-demand".into(),
            seed_count: 32,
        }
    }
}

/// Slots of one kind in one zone.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OfferingConfig {
    /// A size of the catalogue.
    instance_type: String,
    /// A zone that has hosts.
    zone: String,
    /// How it is paid for: `on-demand`, `reserved` or `bare-metal`; the default when empty.
    capacity_type: String,
    /// How many slots.
    count: u32,
    /// The shape of one replica, as Kubernetes quantities; the whole machine when empty.
    resources: BTreeMap<String, String>,
    /// Labels that workloads may select.
    labels: BTreeMap<String, String>,
}

/// A size of machine.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InstanceTypeConfig {
    /// Virtual CPUs.
    vcpu: u32,
    /// Memory in MiB.
    memory_mib: u64,
    /// Disk in GiB; that of the image when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disk_gib: Option<u64>,
}

const BUILT_IN: [(&str, u32, u64); 4] = [
    ("kvm.small", 2, 4),
    ("kvm.medium", 4, 8),
    ("kvm.large", 8, 16),
    ("kvm.xlarge", 16, 32),
];

impl CapacityConfig {
    /// The offerings for these zones.
    pub(crate) fn parse(self, zones: &[Arc<str>], findings: &mut Findings) -> Vec<Offering> {
        let catalogue = self.catalogue(findings);
        let prices = prices(&self.prices, &catalogue, findings);
        for (key, price) in [
            ("capacity.price_per_vcpu_hour", self.price_per_vcpu_hour),
            ("capacity.price_per_gib_hour", self.price_per_gib_hour),
        ] {
            if !is_price(price) {
                findings.refuse(
                    key,
                    format_args!("is {price}; it must be a number that is not negative"),
                );
            }
        }
        let usual = capacity_type("capacity.capacity_type", &self.capacity_type, findings);
        let mut offerings = self.offerings.clone();
        offerings.extend(
            file::<Vec<OfferingConfig>>("capacity.offerings_file", &self.offerings_file, findings).unwrap_or_default(),
        );
        if offerings.is_empty() {
            offerings = self.shared_out(zones);
        }
        let price = |kind: &InstanceType, capacity: CapacityType| match capacity {
            CapacityType::BareMetal => 0.0,
            _ => prices.get(&*kind.name).copied().unwrap_or_else(|| {
                let gib = f64::from(u32::try_from(kind.memory_mib).unwrap_or(u32::MAX)) / 1024.0;
                f64::from(kind.vcpus) * self.price_per_vcpu_hour + gib * self.price_per_gib_hour
            }),
        };
        let mut parsed = Vec::with_capacity(offerings.len());
        for (number, offering) in offerings.into_iter().enumerate() {
            let key = "capacity.offerings";
            let at = format!("number {}", number + 1);
            let Some(kind) = catalogue.get(offering.instance_type.as_str()) else {
                let names = catalogue
                    .keys()
                    .map(|name| format!("`{name}`"))
                    .collect::<Vec<_>>()
                    .join(", ");
                let problem = format!(
                    "{at}: instance type `{}` is not in the catalogue, which has {names}",
                    offering.instance_type
                );
                findings.refuse(key, problem);
                continue;
            };
            if !zones.iter().any(|zone| **zone == *offering.zone) {
                let names = zones
                    .iter()
                    .map(|name| format!("`{name}`"))
                    .collect::<Vec<_>>()
                    .join(", ");
                findings.refuse(
                    key,
                    format!(
                        "{at}: zone `{}` has no hosts; there are hosts in {names}",
                        offering.zone
                    ),
                );
                continue;
            }
            let capacity = match offering.capacity_type.as_str() {
                "" => usual,
                text => capacity_type(key, text, findings),
            };
            parsed.push(Offering {
                zone: offering.zone.into(),
                price_per_hour: price(kind, capacity),
                instance_type: kind.clone(),
                capacity_type: capacity,
                count: offering.count,
                resources: offering.resources,
                labels: offering.labels,
                interruption_probability: 0.0,
                naming: None,
            });
        }
        parsed
    }

    fn catalogue(&self, findings: &mut Findings) -> BTreeMap<String, InstanceType> {
        let from_file: Option<BTreeMap<String, InstanceTypeConfig>> =
            file("capacity.instance_types_file", &self.instance_types_file, findings);
        let mut sizes = from_file.unwrap_or_else(|| {
            let built_in = BUILT_IN.iter().map(|(name, vcpu, gib)| {
                let size = InstanceTypeConfig {
                    vcpu: *vcpu,
                    memory_mib: gib * 1024,
                    disk_gib: None,
                };
                ((*name).to_owned(), size)
            });
            built_in.collect()
        });
        sizes.extend(self.instance_types.clone());
        for (name, size) in &sizes {
            if name.is_empty() || size.vcpu == 0 || size.memory_mib == 0 {
                findings.refuse(
                    "capacity.instance_types",
                    format_args!(
                        "has `{name}` with {} vCPUs and {} MiB; all of it is needed",
                        size.vcpu, size.memory_mib
                    ),
                );
            }
        }
        let types = sizes.into_iter().map(|(name, size)| {
            let kind = InstanceType {
                name: name.as_str().into(),
                vcpus: size.vcpu,
                memory_mib: size.memory_mib,
                disk_gib: size.disk_gib,
            };
            (name, kind)
        });
        types.collect()
    }

    /// Small and large slots, over all zones in turn.
    fn shared_out(&self, zones: &[Arc<str>]) -> Vec<OfferingConfig> {
        let kinds = ["kvm.small", "kvm.large"];
        let places: Vec<_> = zones.iter().flat_map(|zone| kinds.map(|kind| (zone, kind))).collect();
        let share = |place: usize| {
            let count = (0..self.seed_count as usize)
                .skip(place)
                .step_by(places.len().max(1))
                .count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        let offerings = places.iter().enumerate().map(|(at, (zone, kind))| OfferingConfig {
            instance_type: (*kind).to_owned(),
            zone: zone.to_string(),
            count: share(at),
            ..OfferingConfig::default()
        });
        offerings.collect()
    }
}

/// The content of a JSON file; `None` when there is none, or it is refused.
fn file<T: DeserializeOwned>(key: &str, path: &Path, findings: &mut Findings) -> Option<T> {
    if path.as_os_str().is_empty() {
        return None;
    }
    let read = std::fs::read(path).map_err(|error| format!("names {}, which cannot be read: {error}", path.display()));
    let parsed = read.and_then(|bytes| {
        serde_json::from_slice(&bytes)
            .map_err(|error| format!("names {}, which is not as it should be: {error}", path.display()))
    });
    parsed.map_err(|problem| findings.refuse(key, problem)).ok()
}

fn prices(text: &str, catalogue: &BTreeMap<String, InstanceType>, findings: &mut Findings) -> BTreeMap<String, f64> {
    const KEY: &str = "capacity.prices";
    let mut prices = BTreeMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let parsed = pair
            .split_once('=')
            .and_then(|(name, price)| Some((name.trim(), price.trim().parse::<f64>().ok()?)));
        match parsed {
            Some((name, price)) if is_price(price) => {
                if !catalogue.contains_key(name) {
                    findings.refuse(KEY, format_args!("has `{name}`, which is not in the catalogue"));
                }
                prices.insert(name.to_owned(), price);
            }
            _ => findings.refuse(
                KEY,
                format_args!("has `{pair}`; write `type=price`, with a price that is not negative"),
            ),
        }
    }
    prices
}

fn is_price(price: f64) -> bool {
    price.is_finite() && price >= 0.0
}

/// Both spellings: ours, and the reference's with an underscore.
fn capacity_type(key: &str, text: &str, findings: &mut Findings) -> CapacityType {
    match text.replace('_', "-").as_str() {
        "on-demand" => return CapacityType::OnDemand,
        "reserved" => return CapacityType::Reserved,
        "bare-metal" => return CapacityType::BareMetal,
        "spot" => findings.refuse(
            key,
            "has `spot`: a host of one's own is never taken away by a market, so nothing here is spot; use `on-demand`",
        ),
        other => findings.refuse(
            key,
            format_args!("has `{other}`; use on-demand, reserved or bare-metal"),
        ),
    }
    CapacityType::OnDemand
}
