//! FS: the shape of a machine's record (contract §8).

use std::collections::BTreeMap;

use bigfleet_proto::{CapacityType, ListFilter, Machine, MachineState as S};

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability, Profile},
    call::{Binding, host_of, sketch},
    outcome::{Stop, ensure, ensure_eq},
};

const AREA: Area = Area::Fields;

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "B801",
        AREA,
        [
            "Every record has an id, a state and an instance type, and no label that contradicts a field",
            "a record without them is dropped by the shard",
            "all listed: id set, state not UNSPECIFIED, instance_type set; none of the 9 forbidden label keys",
        ],
        |cx| Box::pin(b801(cx)),
    )
    .machines(0),
    Behaviour::new(
        "B802",
        AREA,
        [
            "Prices and interruption probabilities are numbers one can count with",
            "NaN and free spot capacity win placements they should not",
            "all listed: price finite and not negative; probability within [0, 1]; above 0 for SPOT",
        ],
        |cx| Box::pin(b802(cx)),
    )
    .machines(0)
    .profiles(&[Profile::Core, Profile::Spot]),
    Behaviour::new(
        "B803",
        AREA,
        [
            "Host and cluster are there exactly in the states that have them",
            "the shard rejects a record that breaks this and keeps its last good one",
            "all listed, and one walked through every state: SPECULATIVE no host, no cluster; IDLE host, no cluster; \
             CONFIGURED host and cluster",
        ],
        |cx| Box::pin(b803(cx)),
    ),
    Behaviour::new(
        "B804",
        AREA,
        [
            "Quantities can be read",
            "a quantity that nobody can read is a machine of no size",
            "machines with resources and allocatable: each shared key parses (plain decimals; Gi Mi Ki G M k m), \
             resources above 0, allocatable not negative",
        ],
        |cx| Box::pin(b804(cx)),
    )
    .machines(0),
    Behaviour::new(
        "B805",
        AREA,
        [
            "A machine keeps its host's provider, and is always listed",
            "the cluster's operator finds the node by it",
            "host.provider not empty at IDLE, and the same on Get and uncapped List at IDLE, CONFIGURED and IDLE again",
        ],
        |cx| Box::pin(b805(cx)),
    ),
    Behaviour::new(
        "B806",
        AREA,
        [
            "Every stable machine with a host has a capacity type and a zone",
            "the shard decides by them how long it keeps a machine, and where it spreads to",
            "all listed, and one at IDLE and CONFIGURED: capacity_type set, zone not empty",
        ],
        |cx| Box::pin(b806(cx)),
    ),
    Behaviour::new(
        "B807",
        AREA,
        [
            "A machine that was given back keeps nothing",
            "what is left of a life reaches the next one",
            "configured -> Drain 0 -> IDLE with host -> Delete -> SPECULATIVE: no host, cluster, metadata",
        ],
        |cx| Box::pin(b807(cx)),
    )
    .profiles(&[Profile::Core, Profile::Cloud])
    .needs(Capability::Delete),
];

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

fn identified(machine: &Machine) -> Outcome {
    ensure!(!machine.id.is_empty(), "an id", sketch(machine));
    let known = S::try_from(machine.state).is_ok_and(|state| state != S::Unspecified);
    ensure!(known, "a state the contract knows", sketch(machine));
    ensure!(!machine.instance_type.is_empty(), "an instance_type", sketch(machine));
    for label in FORBIDDEN_LABELS {
        ensure!(
            !machine.labels.contains_key(label),
            format!("no label `{label}`: there is a field for it"),
            sketch(machine)
        );
    }
    Ok(())
}

fn costed(machine: &Machine) -> Outcome {
    let (price, risk) = (machine.price_per_hour, machine.interruption_probability);
    let seen = || format!("{} with price {price} and probability {risk}", sketch(machine));
    ensure!(price.is_finite() && price >= 0.0, "a finite price, not below 0", seen());
    ensure!((0.0..=1.0).contains(&risk), "a probability within [0, 1]", seen());
    let spot = machine.capacity_type() == CapacityType::Spot;
    ensure!(!spot || risk > 0.0, "a probability above 0 for SPOT", seen());
    Ok(())
}

/// Host and cluster as the stable states have them.
fn fits_state(machine: &Machine) -> Outcome {
    let (host, cluster) = (host_of(machine).is_some(), !machine.cluster.is_empty());
    let expected = match machine.state() {
        S::Speculative => (false, false),
        S::Idle => (true, false),
        S::Configured => (true, true),
        _ => return Ok(()),
    };
    ensure!(
        (host, cluster) == expected,
        format!("host: {}, cluster: {} in this state", expected.0, expected.1),
        sketch(machine)
    );
    Ok(())
}

fn placed(machine: &Machine) -> Outcome {
    let stable = matches!(machine.state(), S::Speculative | S::Idle | S::Configured);
    if stable && host_of(machine).is_some() {
        let known =
            CapacityType::try_from(machine.capacity_type).is_ok_and(|capacity| capacity != CapacityType::Unspecified);
        ensure!(known, "a capacity_type", sketch(machine));
        ensure!(!machine.zone.is_empty(), "a zone", sketch(machine));
    }
    Ok(())
}

/// All of it, and zone and capacity type whatever the state (B1101).
pub(crate) fn sound(machine: &Machine) -> Outcome {
    identified(machine)?;
    costed(machine)?;
    ensure!(!machine.zone.is_empty(), "a zone", sketch(machine));
    let known =
        CapacityType::try_from(machine.capacity_type).is_ok_and(|capacity| capacity != CapacityType::Unspecified);
    ensure!(known, "a capacity_type", sketch(machine));
    Ok(())
}

async fn all(cx: &Context) -> Outcome<Vec<Machine>> {
    let machines = cx.list(ListFilter::default()).await?.machines;
    ensure!(!machines.is_empty(), "machines in the list", "none");
    Ok(machines)
}

async fn b801(cx: &Context) -> Outcome {
    all(cx).await?.iter().try_for_each(identified)
}

async fn b802(cx: &Context) -> Outcome {
    all(cx).await?.iter().try_for_each(costed)
}

async fn b803(cx: &Context) -> Outcome {
    all(cx).await?.iter().try_for_each(fits_state)?;
    let id = cx.machine()?;
    fits_state(&cx.get(&id).await?)?;
    fits_state(&cx.make_idle(&id).await?)?;
    cx.bind(&id, &Binding::to("c")).await?;
    fits_state(&cx.get(&id).await?)?;
    cx.release(&id, 5).await?;
    fits_state(&cx.get(&id).await?)
}

/// The number a quantity stands for, as the registered parser reads it (trap 10).
pub(crate) fn quantity(text: &str) -> Option<f64> {
    let suffixes = [
        ("Gi", 1024.0 * 1024.0 * 1024.0),
        ("Mi", 1024.0 * 1024.0),
        ("Ki", 1024.0),
        ("G", 1e9),
        ("M", 1e6),
        ("k", 1e3),
        ("m", 1e-3),
    ];
    let (digits, factor) = suffixes
        .into_iter()
        .find_map(|(suffix, factor)| text.strip_suffix(suffix).map(|digits| (digits, factor)))
        .unwrap_or((text, 1.0));
    let plain = digits.chars().all(|symbol| symbol.is_ascii_digit() || symbol == '.');
    let number: f64 = digits.parse().ok().filter(|_| plain)?;
    Some(number * factor)
}

async fn b804(cx: &Context) -> Outcome {
    let mut any = false;
    for machine in all(cx).await? {
        let (Some(resources), Some(allocatable)) = (&machine.resources, &machine.allocatable) else {
            continue;
        };
        any = true;
        for (key, whole) in &resources.resources {
            let Some(part) = allocatable.resources.get(key) else {
                continue;
            };
            let fits =
                quantity(whole).is_some_and(|whole| whole > 0.0) && quantity(part).is_some_and(|part| part >= 0.0);
            ensure!(
                fits,
                "quantities of plain decimals with Gi Mi Ki G M k m, resources above 0, allocatable not below",
                format!("`{}`: {key} = {whole} of which {part} allocatable", machine.id)
            );
        }
    }
    if any {
        Ok(())
    } else {
        Err(Stop::skipped("no machine has both resources and allocatable"))
    }
}

async fn b805(cx: &Context) -> Outcome {
    let id = cx.machine()?;
    let provider_of = |machine: &Machine| {
        let host = host_of(machine).map(|host| host.provider.clone());
        host.filter(|provider| !provider.is_empty())
            .ok_or_else(|| Stop::failed("a host.provider", sketch(machine)))
    };
    let first = provider_of(&cx.make_idle(&id).await?)?;
    for step in 0..3 {
        match step {
            1 => drop(cx.bind(&id, &Binding::to("c")).await?),
            2 => drop(cx.release(&id, 5).await?),
            _ => {}
        }
        let mut fleet: BTreeMap<_, _> = cx.fleet().await?;
        let listed = fleet
            .remove(&id)
            .ok_or_else(|| Stop::failed(format!("`{id}` in the list"), "it is not there"))?;
        for machine in [cx.get(&id).await?, listed] {
            ensure_eq!("host.provider", provider_of(&machine)?, first);
        }
    }
    Ok(())
}

async fn b806(cx: &Context) -> Outcome {
    all(cx).await?.iter().try_for_each(placed)?;
    let id = cx.machine()?;
    placed(&cx.make_idle(&id).await?)?;
    cx.bind(&id, &Binding::to("c")).await?;
    placed(&cx.get(&id).await?)
}

async fn b807(cx: &Context) -> Outcome {
    let id = cx.configured(&Binding::to("c").with("k", "v")).await?;
    cx.release(&id, 0).await?;
    let idle = cx.get(&id).await?;
    ensure!(host_of(&idle).is_some(), "a host at IDLE", sketch(&idle));
    cx.give_back(&id).await?;
    let machine = cx.get(&id).await?;
    let bare = host_of(&machine).is_none() && machine.cluster.is_empty() && machine.shard_metadata.is_empty();
    ensure!(bare, "no host, no cluster, no metadata", sketch(&machine));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_the_registered_parser_reads_them() {
        assert_eq!(quantity("16Gi"), Some(17_179_869_184.0));
        assert_eq!(quantity("3920m"), Some(3.92));
        assert_eq!(quantity("4"), Some(4.0));
        for text in ["1Ti", "1e3", "-1", "+1", "", "Gi", "four"] {
            assert_eq!(quantity(text), None, "{text}");
        }
    }
}
