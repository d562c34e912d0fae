//! What acks and records look like on the way (contract §1.4, §6, §8; traps 5 and 10).

use bigfleet_proto::{Machine, MachineState as S, TransitionAck};
use prost::Message as _;

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability},
    call::{Binding, free, host_of, only, sketch, state_name},
    client::Answer,
    expect::{operation, success},
    outcome::{Stop, ensure, ensure_eq},
    walk::bound,
};

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "X104",
        Area::Lifecycle,
        [
            "Every ack carries the machine, already on its way",
            "the shard's decoder fails a machine whose ack has none (trap 5)",
            "Create, Configure, Drain and Delete: the ack has the machine in its transitional or its target state, with \
             the record that this state must have",
        ],
        |cx| Box::pin(x104(cx)),
    )
    .extension(),
    Behaviour::new(
        "X106",
        Area::Lifecycle,
        [
            "A transition goes on when its caller hangs up",
            "a shard that restarts would leave machines in between",
            "Create over a connection of its own, which is closed at the ack: IDLE within 15 s",
        ],
        |cx| Box::pin(x106(cx)),
    )
    .extension(),
    Behaviour::new(
        "X109",
        Area::Fields,
        [
            "In every state, on the way too, a record is as the shard wants it",
            "a record that breaks the invariant is rejected, and the shard keeps its last good one",
            "1 ms traces of Create, Configure, Drain (and Delete): host, cluster, metadata and last_error in each sample \
             as contract §8 has them",
        ],
        |cx| Box::pin(x109(cx)),
    )
    .extension(),
    Behaviour::new(
        "X110",
        Area::Fields,
        [
            "Resources are never empty, and all of them can be read",
            "an empty map is a machine of no size",
            "all listed: no empty Resources message; every quantity parses as in B804, also where only one map has it",
        ],
        |cx| Box::pin(x110(cx)),
    )
    .machines(0)
    .extension(),
    Behaviour::new(
        "X301",
        Area::Transport,
        [
            "A bootstrap blob of 8 MiB is taken",
            "the shard sends up to 256 MiB; a smaller limit burns the machine",
            "Configure with an 8 MiB blob -> CONFIGURED within 15 s with its cluster",
        ],
        |cx| Box::pin(x301(cx)),
    )
    .needs(Capability::LargeMessages)
    .extension(),
    Behaviour::new(
        "X302",
        Area::Transport,
        [
            "A list above 4 MiB is answered whole",
            "a fleet with its metadata does not fit into gRPC's default",
            "10 machines with 512 KiB of metadata each: List(CONFIGURED) is above 5 MiB and has all of it verbatim",
        ],
        |cx| Box::pin(x302(cx)),
    )
    .machines(10)
    .alone()
    .needs(Capability::LargeMessages)
    .extension(),
];

fn snapshot(answer: Answer, what: &str) -> Outcome<Machine> {
    let ack: TransitionAck = success(answer, what)?;
    let none = || Stop::failed(format!("the ack of {what} to carry the machine"), "none");
    ack.machine.ok_or_else(none)
}

fn on_its_way(machine: &Machine, running: S, target: S) -> Outcome {
    let state = machine.state();
    let expected = format!("{} or {} in the ack", state_name(running), state_name(target));
    ensure!(state == running || state == target, expected, sketch(machine));
    invariant(machine)
}

/// Contract §8: what each state has.
pub(super) fn invariant(machine: &Machine) -> Outcome {
    let state = machine.state();
    if state == S::Failed {
        let said = !machine.last_error.is_empty();
        ensure!(said, "a last_error at FAILED", sketch(machine));
        return Ok(());
    }
    let hosted = !matches!(state, S::Speculative | S::Creating);
    let is_bound = matches!(state, S::Configuring | S::Configured | S::Draining);
    let fits = host_of(machine).is_some() == hosted
        && machine.cluster.is_empty() != is_bound
        && (is_bound || machine.shard_metadata.is_empty())
        && machine.last_error.is_empty();
    let expected = format!(
        "host: {hosted}, bound: {is_bound}, no last_error at {}",
        state_name(state)
    );
    ensure!(fits, expected, sketch(machine));
    Ok(())
}

async fn x104(cx: &Context) -> Outcome {
    let (id, binding) = (cx.machine()?, Binding::to("c").with("k", "v"));
    let ack = snapshot(cx.create(&id, &free()).await, "Create")?;
    on_its_way(&ack, S::Creating, S::Idle)?;
    ensure_eq!("the id in the ack", ack.id, id);
    cx.reach(&id, S::Idle).await?;
    let ack = snapshot(cx.configure(&id, &binding, &free()).await, "Configure")?;
    on_its_way(&ack, S::Configuring, S::Configured)?;
    bound(&ack, &binding)?;
    cx.reach(&id, S::Configured).await?;
    let again = snapshot(cx.configure(&id, &binding, &free()).await, "a repeated Configure")?;
    bound(&again, &binding)?;
    on_its_way(
        &snapshot(cx.drain(&id, 0, &free()).await, "Drain")?,
        S::Draining,
        S::Idle,
    )?;
    cx.reach(&id, S::Idle).await?;
    if cx.abilities.delete {
        let ack = snapshot(cx.delete(&id, &free()).await, "Delete")?;
        on_its_way(&ack, S::Deleting, S::Speculative)?;
    }
    Ok(())
}

async fn x106(cx: &Context) -> Outcome {
    let id = cx.machine()?;
    let caller = cx.connection()?;
    operation(caller.create(&id, &free()).await, "Create")?;
    drop(caller);
    cx.reach(&id, S::Idle).await?;
    Ok(())
}

async fn x109(cx: &Context) -> Outcome {
    let (id, binding) = (cx.machine()?, Binding::to("c").with("k", "v"));
    invariant(&cx.get(&id).await?)?;
    operation(cx.create(&id, &free()).await, "Create")?;
    cx.trace(&id, S::Idle).await?.iter().try_for_each(invariant)?;
    operation(cx.configure(&id, &binding, &free()).await, "Configure")?;
    cx.trace(&id, S::Configured).await?.iter().try_for_each(invariant)?;
    operation(cx.drain(&id, 0, &free()).await, "Drain")?;
    cx.trace(&id, S::Idle).await?.iter().try_for_each(invariant)?;
    if cx.abilities.delete {
        operation(cx.delete(&id, &free()).await, "Delete")?;
        cx.trace(&id, S::Speculative).await?.iter().try_for_each(invariant)?;
    }
    Ok(())
}

async fn x110(cx: &Context) -> Outcome {
    for machine in cx.fleet().await?.into_values() {
        for (name, map) in [("resources", &machine.resources), ("allocatable", &machine.allocatable)] {
            let Some(map) = map else { continue };
            ensure!(
                !map.resources.is_empty(),
                format!("{name} left out where there are none"),
                sketch(&machine)
            );
            let odd = map
                .resources
                .iter()
                .find(|(_, value)| crate::behaviours::quantity(value).is_none());
            if let Some((key, value)) = odd {
                return Err(Stop::failed(
                    format!("plain decimals with Gi Mi Ki G M k m in {name}"),
                    format!("`{}`: {key} = {value:?}", machine.id),
                ));
            }
        }
    }
    Ok(())
}

async fn x301(cx: &Context) -> Outcome {
    let (id, binding) = (cx.idle().await?, Binding::to("c").blob(vec![7; 8 << 20]));
    cx.bind(&id, &binding).await?;
    ensure_eq!("cluster", cx.get(&id).await?.cluster, "c");
    Ok(())
}

async fn x302(cx: &Context) -> Outcome {
    let ids = cx.idles().await?;
    let binding = |number: usize| {
        let letter = ["a", "b", "c", "d", "é"].get(number % 5).copied().unwrap_or("x");
        Binding::to("c").with("k", letter.repeat((512 << 10) / letter.len()))
    };
    for (number, id) in ids.iter().enumerate() {
        cx.bind(id, &binding(number)).await?;
    }
    let list = cx.list(only(&[S::Configured])).await?;
    ensure!(
        list.encoded_len() > 5 << 20,
        "a list above 5 MiB",
        format!("{} bytes", list.encoded_len())
    );
    let listed = crate::walk::by_id(list.machines)?;
    for (number, id) in ids.iter().enumerate() {
        match listed.get(id) {
            Some(machine) => bound(machine, &binding(number))?,
            None => return Err(Stop::failed(format!("`{id}` in the list"), "it is not there")),
        }
    }
    // Later lists need not carry it.
    for id in &ids {
        cx.release(id, 0).await?;
    }
    Ok(())
}
