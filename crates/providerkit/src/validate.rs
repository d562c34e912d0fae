//! What is refused for its content (contract §§3, 8): requests before the fence is looked at, slots before they are
//! taken into the inventory.

use std::{fmt::Write as _, time::Duration};

use providerkit_backend::{CapacityType, ClusterId, MachineId, Profile, Slot};

/// The longest machine, shard or cluster name that is looked at. Fence marks are kept under caller-chosen names, so
/// their size is bounded.
pub const MAX_NAME_BYTES: usize = 1024;

/// Label keys that BigFleet takes from the record's own fields.
const FORBIDDEN_LABELS: [&str; 9] = [
    "instance-type",
    "instance_type",
    "instanceType",
    "zone",
    "availability-zone",
    "availability_zone",
    "capacity-type",
    "capacity_type",
    "capacityType",
];

/// Suffixes of quantities that every reader of the contract knows (trap 10).
const SUFFIXES: [&str; 7] = ["Gi", "Mi", "Ki", "G", "M", "k", "m"];

/// The machine a request names.
///
/// # Errors
/// The text of the `INVALID_ARGUMENT` answer.
pub fn machine_id(name: &str) -> Result<MachineId, String> {
    bounded("machine_id", name)?;
    MachineId::new(name).map_err(|empty| format!("{empty}; name the machine as List shows it"))
}

/// The cluster a Configure names.
///
/// # Errors
/// The text of the `INVALID_ARGUMENT` answer.
pub fn cluster_id(name: &str) -> Result<ClusterId, String> {
    bounded("cluster_id", name)?;
    ClusterId::new(name).map_err(|empty| format!("{empty}; a configured machine belongs to a cluster"))
}

/// The shard a request names; may be empty.
///
/// # Errors
/// The text of the `INVALID_ARGUMENT` answer.
pub fn shard_id(name: &str) -> Result<(), String> {
    bounded("shard_id", name)
}

/// The grace period of a Drain.
///
/// # Errors
/// The text of the `INVALID_ARGUMENT` answer.
pub fn grace_period(seconds: i64) -> Result<Duration, String> {
    u64::try_from(seconds)
        .map(Duration::from_secs)
        .map_err(|_negative| format!("grace_period_seconds is {seconds}; it must be 0 or more"))
}

fn bounded(field: &str, name: &str) -> Result<(), String> {
    if name.len() > MAX_NAME_BYTES {
        return Err(format!(
            "{field} has {} bytes; at most {MAX_NAME_BYTES} are allowed",
            name.len()
        ));
    }
    Ok(())
}

/// Whether a slot may be taken into the inventory: everything the suites and the shard's ingest check.
///
/// # Errors
/// One sentence that names the slot and everything that is wrong with it.
pub fn slot(slot: &Slot) -> Result<(), String> {
    let mut faults = profile(&slot.profile);
    if slot.name.is_empty() {
        faults.push("its name is empty".to_owned());
    }
    if slot.name.len() > MAX_NAME_BYTES {
        faults.push(format!("its name has more than {MAX_NAME_BYTES} bytes"));
    }
    if slot
        .host
        .as_ref()
        .is_some_and(|host| host.provider.is_empty() || host.reference.is_empty())
    {
        faults.push("its host has an empty provider or reference".to_owned());
    }
    if let Some(adopted) = &slot.adopted {
        if adopted.host.provider.is_empty() || adopted.host.reference.is_empty() {
            faults.push("the host of its adopted machine has an empty provider or reference".to_owned());
        }
        let cluster = adopted.cluster.as_ref().map_or("", |cluster| cluster.as_str());
        if adopted.machine.as_str().len().max(cluster.len()) > MAX_NAME_BYTES {
            faults.push(format!(
                "its adopted machine has an id or a cluster of more than {MAX_NAME_BYTES} bytes"
            ));
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(format!("slot `{}`: {}", slot.name, faults.join("; ")))
    }
}

/// Everything that is wrong with a profile.
#[must_use]
pub fn profile(profile: &Profile) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |text: &str| faults.push(text.to_owned());
    if profile.instance_type.is_empty() {
        fault("instance_type is empty");
    }
    if profile.zone.is_empty() {
        fault("zone is empty");
    }
    let price = profile.price_per_hour;
    if !price.is_finite() || price < 0.0 {
        fault(&format!(
            "price_per_hour is {price}; it must be a finite number, 0 or more"
        ));
    }
    let probability = profile.interruption_probability;
    if !(0.0..=1.0).contains(&probability) {
        fault(&format!(
            "interruption_probability is {probability}; it must be within 0 and 1"
        ));
    } else if profile.capacity_type == CapacityType::Spot && probability == 0.0 {
        fault("interruption_probability is 0, which no spot capacity has");
    }
    for key in profile
        .labels
        .keys()
        .filter(|key| FORBIDDEN_LABELS.contains(&key.as_str()))
    {
        fault(&format!(
            "label `{key}` is forbidden: BigFleet takes it from the record's own field"
        ));
    }
    for (field, quantities, zero_allowed) in [
        ("resources", &profile.resources, false),
        ("allocatable", &profile.allocatable, true),
    ] {
        for (name, quantity) in quantities {
            if name.is_empty() {
                fault(&format!("{field} has an empty name"));
            }
            if let Err(why) = check_quantity(quantity, zero_allowed) {
                let mut text = String::new();
                // Writing to a String cannot fail.
                let _ = write!(text, "{field} `{name}` is `{quantity}`, {why}");
                fault(&text);
            }
        }
    }
    faults
}

fn check_quantity(quantity: &str, zero_allowed: bool) -> Result<(), &'static str> {
    let number = SUFFIXES
        .iter()
        .find_map(|suffix| quantity.strip_suffix(suffix))
        .unwrap_or(quantity);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err("which is no quantity; write a plain decimal, if need be with one of Gi Mi Ki G M k m");
    }
    if !zero_allowed && number.bytes().all(|byte| matches!(byte, b'0' | b'.')) {
        return Err("which must be more than 0");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Profile {
        Profile::new("t", "z", CapacityType::OnDemand)
            .price_per_hour(0.4)
            .resource("cpu", "4")
    }

    #[test]
    fn requests_are_refused_by_field_and_remedy() {
        assert!(machine_id("").unwrap_err().contains("machine_id must not be empty"));
        assert!(cluster_id("").unwrap_err().contains("cluster_id must not be empty"));
        assert!(
            machine_id(&"x".repeat(MAX_NAME_BYTES + 1))
                .unwrap_err()
                .contains("1025 bytes")
        );
        assert!(machine_id(&"x".repeat(MAX_NAME_BYTES)).is_ok());
        assert_eq!(grace_period(0), Ok(Duration::ZERO));
        assert!(grace_period(-5).unwrap_err().contains("-5"));
        assert!(grace_period(i64::MAX).is_ok());
    }

    #[test]
    fn quantities_that_a_reader_may_not_know_are_refused() {
        for quantity in ["4", "3.5", "3920m", "16Gi", "1k", "2M", "3G", "4Ki", "5Mi"] {
            assert_eq!(check_quantity(quantity, false), Ok(()), "{quantity}");
        }
        for quantity in [
            "", "Gi", "1Ti", "1e3", "-1", "+1", "1.", ".5", "1 Gi", "0x10", "1GiB", "NaN",
        ] {
            assert!(check_quantity(quantity, false).is_err(), "{quantity}");
        }
        assert!(check_quantity("0", false).is_err() && check_quantity("0.0Gi", false).is_err());
        assert_eq!(check_quantity("0", true), Ok(()));
    }

    #[test]
    fn a_bad_slot_is_named_with_all_its_faults() {
        let bad = good()
            .price_per_hour(f64::INFINITY)
            .interruption_probability(f64::NAN)
            .label("zone", "x");
        let text = slot(&Slot::new("s-7", bad.resource("memory", "1Ti"))).unwrap_err();
        for part in [
            "`s-7`",
            "price_per_hour is inf",
            "probability is NaN",
            "label `zone`",
            "`memory` is `1Ti`",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(slot(&Slot::new("s-7", good())), Ok(()));
    }

    #[test]
    fn spot_without_a_risk_is_refused() {
        let mut spot = good();
        spot.capacity_type = CapacityType::Spot;
        assert_eq!(profile(&spot).len(), 1);
        spot.interruption_probability = 0.05;
        assert!(profile(&spot).is_empty());
    }
}
