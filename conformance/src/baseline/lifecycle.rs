//! Lifecycle, idempotency, and calls out of place.

use std::time::{Duration, Instant};

use bigfleet_proto::MachineState as S;
use tonic::Code;

use super::{LONG, POLL, SOON, await_state, configured, idle, test};
use crate::{
    Context, Outcome,
    behaviour::{Behaviour, Capability},
    call::{Binding, free, sketch},
    expect::{is, operation, refused, refused_with, said},
    outcome::{Stop, ensure, ensure_eq},
};

pub(super) const ALL: &[Behaviour] = &[
    test(
        "TestConformance_FullLifecycle",
        [
            "A machine walks through its whole life",
            "this is what a provider is for",
            "Create (operation id) -> IDLE within 10 s -> Configure (operation id) -> CONFIGURED within 10 s -> Drain 5 \
             -> IDLE within 30 s -> Delete -> SPECULATIVE within 10 s, or UNIMPLEMENTED; 30 s in all",
        ],
        |cx| Box::pin(full_lifecycle(cx)),
    ),
    test(
        "TestConformance_CreateIdempotent",
        [
            "Two Creates in a row are one operation",
            "a retry must not make a second host",
            "two Creates back to back: equal operation ids",
        ],
        |cx| Box::pin(create_idempotent(cx)),
    ),
    test(
        "TestConformance_ConfigureIdempotent",
        [
            "Two Configures in a row are one operation",
            "a retry must not bootstrap twice",
            "idle; two Configures back to back: equal operation ids",
        ],
        |cx| Box::pin(configure_idempotent(cx)),
    ),
    test(
        "TestConformance_DrainIdempotent",
        [
            "Two Drains in a row are one operation",
            "a retry must not evict twice",
            "configured; two Drains grace 30 back to back: equal operation ids",
        ],
        |cx| Box::pin(drain_idempotent(cx)),
    ),
    test(
        "TestConformance_DeleteIdempotent",
        [
            "Two Deletes in a row are one operation",
            "a retry must not delete the next host",
            "idle; two Deletes back to back: equal operation ids; skipped on UNIMPLEMENTED",
        ],
        |cx| Box::pin(delete_idempotent(cx)),
    )
    .needs(Capability::Delete),
    test(
        "TestConformance_GetUnknownMachine",
        [
            "Get of an unknown machine is NOT_FOUND",
            "an empty record would pass for a machine",
            "Get of a name that does not exist: NOT_FOUND",
        ],
        |cx| Box::pin(get_unknown_machine(cx)),
    )
    .machines(0),
    test(
        "TestConformance_DeleteUnknownMachine",
        [
            "Delete of an unknown machine is NOT_FOUND",
            "a success would hide that a name was wrong",
            "Delete of a name that does not exist: NOT_FOUND or UNIMPLEMENTED",
        ],
        |cx| Box::pin(delete_unknown_machine(cx)),
    )
    .machines(0),
    test(
        "TestConformance_DrainOnSpeculative",
        [
            "Drain of a SPECULATIVE machine is an error",
            "there is nothing to drain",
            "an error but FAILED_PRECONDITION",
        ],
        |cx| Box::pin(drain_on_speculative(cx)),
    ),
    test(
        "TestConformance_TransitionalStateObservability",
        [
            "A machine can be watched while it is created",
            "a provider that hides a machine meanwhile has it deleted from the inventory",
            "after Create a Get each 5 ms up to 1 s: at least one of SPECULATIVE, CREATING, IDLE is seen; IDLE within 10 s",
        ],
        |cx| Box::pin(transitional_state_observability(cx)),
    ),
    test(
        "TestConformance_DrainGraceTimeout",
        [
            "A Drain without grace ends",
            "a drain that waits for ever keeps a machine from everybody",
            "configured; Drain grace 0; within 10 s IDLE, or FAILED with last_error; CONFIGURED again or stuck DRAINING \
             is a failure",
        ],
        |cx| Box::pin(drain_grace_timeout(cx)),
    ),
    test(
        "TestConformance_DeleteOnConfigured",
        [
            "Delete of a CONFIGURED machine is an error",
            "it would take workloads with it",
            "an error but FAILED_PRECONDITION, or UNIMPLEMENTED; still CONFIGURED",
        ],
        |cx| Box::pin(delete_on_configured(cx)),
    ),
];

async fn full_lifecycle(cx: &Context) -> Outcome {
    let (began, id) = (Instant::now(), cx.machine()?);
    operation(cx.create(&id, &free()).await, "Create")?;
    await_state(cx, &id, S::Idle, SOON).await?;
    operation(cx.configure(&id, &Binding::to("c"), &free()).await, "Configure")?;
    await_state(cx, &id, S::Configured, SOON).await?;
    operation(cx.drain(&id, 5, &free()).await, "Drain")?;
    await_state(cx, &id, S::Idle, LONG).await?;
    let answer = cx.delete(&id, &free()).await;
    if !is(&answer, Code::Unimplemented) {
        operation(answer, "Delete")?;
        await_state(cx, &id, S::Speculative, SOON).await?;
    }
    let (took, limit) = (began.elapsed(), cx.session().limit(LONG));
    ensure!(
        took <= limit,
        format!("all of it within {limit:?}"),
        format!("{took:?}")
    );
    Ok(())
}

async fn create_idempotent(cx: &Context) -> Outcome {
    let id = cx.machine()?;
    let first = operation(cx.create(&id, &free()).await, "Create")?;
    let second = operation(cx.create(&id, &free()).await, "a second Create")?;
    ensure_eq!("operation id", second, first);
    Ok(())
}

async fn configure_idempotent(cx: &Context) -> Outcome {
    let (id, binding) = (idle(cx).await?, Binding::to("c"));
    let first = operation(cx.configure(&id, &binding, &free()).await, "Configure")?;
    let second = operation(cx.configure(&id, &binding, &free()).await, "a second Configure")?;
    ensure_eq!("operation id", second, first);
    Ok(())
}

async fn drain_idempotent(cx: &Context) -> Outcome {
    let id = configured(cx, &Binding::to("c")).await?;
    let first = operation(cx.drain(&id, 30, &free()).await, "Drain")?;
    let second = operation(cx.drain(&id, 30, &free()).await, "a second Drain")?;
    ensure_eq!("operation id", second, first);
    Ok(())
}

async fn delete_idempotent(cx: &Context) -> Outcome {
    let id = idle(cx).await?;
    let first = operation(cx.delete(&id, &free()).await, "Delete")?;
    let second = operation(cx.delete(&id, &free()).await, "a second Delete")?;
    ensure_eq!("operation id", second, first);
    Ok(())
}

async fn get_unknown_machine(cx: &Context) -> Outcome {
    refused_with(&cx.try_get(&cx.stranger()).await, Code::NotFound, "Get of a stranger")
}

async fn delete_unknown_machine(cx: &Context) -> Outcome {
    let answer = cx.delete(&cx.stranger(), &free()).await;
    let fits = is(&answer, Code::NotFound) || is(&answer, Code::Unimplemented);
    ensure!(fits, "NotFound or Unimplemented", said(&answer));
    Ok(())
}

async fn drain_on_speculative(cx: &Context) -> Outcome {
    refused(&cx.drain(&cx.machine()?, 5, &free()).await, "Drain at SPECULATIVE")
}

async fn transitional_state_observability(cx: &Context) -> Outcome {
    let id = cx.machine()?;
    operation(cx.create(&id, &free()).await, "Create")?;
    let (end, mut seen) = (Instant::now() + Duration::from_secs(1), false);
    while Instant::now() < end {
        let state = cx.get(&id).await?.state();
        seen |= matches!(state, S::Speculative | S::Creating | S::Idle);
        if state == S::Idle {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ensure!(seen, "SPECULATIVE, CREATING or IDLE to be seen", "none of them");
    await_state(cx, &id, S::Idle, SOON).await?;
    Ok(())
}

async fn drain_grace_timeout(cx: &Context) -> Outcome {
    let id = configured(cx, &Binding::to("c")).await?;
    operation(cx.drain(&id, 0, &free()).await, "Drain")?;
    let (began, limit) = (Instant::now(), cx.session().limit(SOON));
    loop {
        let machine = cx.get(&id).await?;
        match machine.state() {
            S::Idle => return Ok(()),
            S::Failed if !machine.last_error.is_empty() => return Ok(()),
            S::Draining => {}
            _ => {
                return Err(Stop::failed(
                    "DRAINING, IDLE, or FAILED with a last_error",
                    sketch(&machine),
                ));
            }
        }
        ensure!(
            began.elapsed() < limit,
            format!("an end of DRAINING within {limit:?}"),
            sketch(&machine)
        );
        tokio::time::sleep(cx.session().pace(POLL)).await;
    }
}

async fn delete_on_configured(cx: &Context) -> Outcome {
    let id = configured(cx, &Binding::to("c")).await?;
    refused(&cx.delete(&id, &free()).await, "Delete at CONFIGURED")?;
    ensure_eq!("state", cx.get(&id).await?.state(), S::Configured);
    Ok(())
}
