//! Lists, fields and metadata.

use std::time::Duration;

use bigfleet_proto::{ListFilter, Machine, MachineState as S};

use super::{LONG, await_state, configured, test};
use crate::{
    Context, Outcome,
    behaviour::Behaviour,
    call::{Binding, capped, free, only, sketch, state_name},
    expect::operation,
    outcome::{Stop, ensure},
    walk::{bound, by_id},
};

pub(super) const ALL: &[Behaviour] = &[
    test(
        "TestConformance_ListFiltersByState",
        [
            "List(IDLE) has only IDLE machines",
            "the shard would configure what is not idle",
            "every machine of List(IDLE) is IDLE",
        ],
        |cx| Box::pin(list_filters_by_state(cx)),
    )
    .machines(0),
    test(
        "TestConformance_ListMaxResults",
        [
            "A list of at most 1 has at most 1",
            "a reader's memory is what it asked for",
            "List with max_results 1: at most 1 machine",
        ],
        |cx| Box::pin(list_max_results(cx)),
    )
    .machines(0),
    test(
        "TestConformance_LabelShape",
        [
            "Every machine has an instance type and a state",
            "nothing can be placed on a machine of no kind",
            "every machine: instance_type set, state not UNSPECIFIED",
        ],
        |cx| Box::pin(label_shape(cx)),
    )
    .machines(0),
    test(
        "TestConformance_CostFieldBounds",
        [
            "Prices and probabilities are within their bounds",
            "costs outside of them win placements",
            "every machine: price not negative and not NaN; probability within [0, 1]",
        ],
        |cx| Box::pin(cost_field_bounds(cx)),
    )
    .machines(0),
    test(
        "TestConformance_ListRevisionAdvances",
        [
            "The revision moves with a change",
            "an incremental shard sees nothing otherwise",
            "revision empty, or another after Create -> IDLE (within 5 s)",
        ],
        |cx| Box::pin(list_revision_advances(cx)),
    )
    .alone(),
    test(
        "TestConformance_MetadataEchoedOnGetAndList",
        [
            "Metadata is echoed on Get and List",
            "the shard rebuilds its assignments from it",
            "configured with 3 keys (one value with NUL): cluster and map verbatim on Get and List(CONFIGURED)",
        ],
        |cx| Box::pin(metadata_echoed(cx)),
    ),
    test(
        "TestConformance_MetadataAndBindingClearOnDrain",
        [
            "A drain clears cluster and metadata",
            "what is left reaches the next binding",
            "configured, Drain 5 -> IDLE within 30 s: no cluster, no metadata",
        ],
        |cx| Box::pin(metadata_cleared(cx)),
    ),
    test(
        "TestConformance_MetadataUnknownKeysPreservedVerbatim",
        [
            "Keys nobody knows are kept verbatim",
            "the next shard's keys are unknown to this provider",
            "a value of Greek letters and a tab, and an empty value, are kept",
        ],
        |cx| Box::pin(metadata_unknown_keys(cx)),
    ),
];

async fn each(cx: &Context, filter: ListFilter, expected: &str, holds: fn(&Machine) -> bool) -> Outcome {
    for machine in cx.list(filter).await?.machines {
        ensure!(holds(&machine), expected, sketch(&machine));
    }
    Ok(())
}

async fn list_filters_by_state(cx: &Context) -> Outcome {
    let expected = format!("only {} machines", state_name(S::Idle));
    each(cx, only(&[S::Idle]), &expected, |machine| machine.state() == S::Idle).await
}

async fn list_max_results(cx: &Context) -> Outcome {
    let count = cx.list(capped(1)).await?.machines.len();
    ensure!(count <= 1, "at most 1 machine", count);
    Ok(())
}

async fn label_shape(cx: &Context) -> Outcome {
    each(
        cx,
        ListFilter::default(),
        "an instance_type, and a state but UNSPECIFIED",
        |machine| !machine.instance_type.is_empty() && machine.state() != S::Unspecified,
    )
    .await
}

async fn cost_field_bounds(cx: &Context) -> Outcome {
    each(
        cx,
        ListFilter::default(),
        "a price not below 0, a probability within [0, 1]",
        |machine| machine.price_per_hour >= 0.0 && (0.0..=1.0).contains(&machine.interruption_probability),
    )
    .await
}

async fn list_revision_advances(cx: &Context) -> Outcome {
    let before = cx.revision().await?;
    let id = cx.machine()?;
    operation(cx.create(&id, &free()).await, "Create")?;
    await_state(cx, &id, S::Idle, Duration::from_secs(5)).await?;
    let moved = before.is_empty() || cx.revision().await? != before;
    ensure!(moved, "another revision after a Create", "the same");
    Ok(())
}

fn three() -> Binding {
    Binding::to("echo")
        .with("bigfleet.lucy.sh/assigned-priority", "7")
        .with("bigfleet.lucy.sh/assigned-need", "a\0b")
        .with("bigfleet.lucy.sh/assigned-group", "g")
}

async fn metadata_echoed(cx: &Context) -> Outcome {
    let id = configured(cx, &three()).await?;
    bound(&cx.get(&id).await?, &three())?;
    match by_id(cx.list(only(&[S::Configured])).await?.machines)?.get(&id) {
        Some(machine) => bound(machine, &three()),
        None => Err(Stop::failed(format!("`{id}` in List(CONFIGURED)"), "it is not there")),
    }
}

async fn metadata_cleared(cx: &Context) -> Outcome {
    let id = configured(cx, &three()).await?;
    operation(cx.drain(&id, 5, &free()).await, "Drain")?;
    let machine = await_state(cx, &id, S::Idle, LONG).await?;
    let clear = machine.cluster.is_empty() && machine.shard_metadata.is_empty();
    ensure!(clear, "no cluster and no metadata", sketch(&machine));
    Ok(())
}

async fn metadata_unknown_keys(cx: &Context) -> Outcome {
    let binding = Binding::to("c")
        .with("nobody/knows-this", "αβγ\tδ")
        .with("nobody/knows-that", "");
    let id = configured(cx, &binding).await?;
    bound(&cx.get(&id).await?, &binding)
}
