//! TM: calls out of place, unknown machines, and extreme arguments (contract §3).

use std::time::Duration;

use bigfleet_proto::MachineState as S;
use tonic::Code;

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Profile},
    call::{Binding, Metadata, free, sketch},
    expect::{distinct, is, not_fenced, operation, refused, refused_with, said, success},
    outcome::{Stop, ensure, ensure_eq},
    walk::bound,
};

const AREA: Area = Area::Transitions;

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "B201",
        AREA,
        [
            "Create of a CONFIGURED machine is refused and changes nothing",
            "a second Create that is carried out rebuilds a host under running workloads",
            "an error but FAILED_PRECONDITION; CONFIGURED at once and for 250 ms; the same cluster",
        ],
        |cx| Box::pin(b201(cx)),
    ),
    Behaviour::new(
        "B202",
        AREA,
        [
            "Configure of a SPECULATIVE machine is refused and leaks nothing",
            "a binding on a machine that does not exist is capacity nobody has",
            "an error but FAILED_PRECONDITION; SPECULATIVE for 250 ms; no cluster, no metadata",
        ],
        |cx| Box::pin(b202(cx)),
    ),
    Behaviour::new(
        "B203",
        AREA,
        [
            "Drain of an IDLE machine changes nothing",
            "a drain that starts anew takes an idle machine out of service",
            "Drain 5: a replay's success or an error but FAILED_PRECONDITION; IDLE for 250 ms",
        ],
        |cx| Box::pin(b203(cx)),
    ),
    Behaviour::new(
        "B204",
        AREA,
        [
            "Delete of a SPECULATIVE or CONFIGURED machine changes nothing",
            "a machine that is deleted while it is bound takes workloads with it",
            "on SPECULATIVE: UNIMPLEMENTED, a replay's success, or an error but FAILED_PRECONDITION; on CONFIGURED: \
             UNIMPLEMENTED or such an error, never success; the state held for 250 ms in both",
        ],
        |cx| Box::pin(b204(cx)),
    )
    .machines(2)
    .profiles(&[Profile::Core, Profile::Cloud]),
    Behaviour::new(
        "B205",
        AREA,
        [
            "A call repeated at its target succeeds, shows the target, and starts nothing",
            "a retry after a lost answer must not run the transition twice",
            "Configure again at CONFIGURED: success, the ack says CONFIGURED, no CONFIGURING and no DRAINING for 250 ms \
             each; Create again at IDLE: success, IDLE, no CREATING for 250 ms",
        ],
        |cx| Box::pin(b205(cx)),
    )
    .machines(2),
    Behaviour::new(
        "B206",
        AREA,
        [
            "A repeated call has the operation id of the first",
            "the caller recognises its own operation by the id alone",
            "Create, and again at IDLE: the same id, not empty; Configure: another id than Create's; again at \
             CONFIGURED: its own",
        ],
        |cx| Box::pin(b206(cx)),
    ),
    Behaviour::new(
        "B207",
        AREA,
        [
            "An unknown machine is NOT_FOUND, and no call makes it",
            "a machine made by a typo is capacity nobody asked for",
            "Create, Configure and Drain of a fresh random id: exactly NOT_FOUND; Get afterwards too",
        ],
        |cx| Box::pin(b207(cx)),
    )
    .machines(0),
    Behaviour::new(
        "B208",
        AREA,
        [
            "An empty machine id is INVALID_ARGUMENT",
            "NOT_FOUND would say that a machine is gone which never had a name",
            "Get, Create, Configure and Drain with an empty id: exactly INVALID_ARGUMENT",
        ],
        |cx| Box::pin(b208(cx)),
    )
    .machines(0),
    Behaviour::new(
        "B209",
        AREA,
        [
            "Half a mebibyte of metadata is kept whole or refused whole",
            "metadata is the only durable copy of the fleet's preemption protection",
            "Configure with 512 keys of 1 KiB: OK -> CONFIGURED within 20 s and verbatim; or INVALID_ARGUMENT -> IDLE \
             for 250 ms, nothing leaked; no other code",
        ],
        |cx| Box::pin(b209(cx)),
    ),
    Behaviour::new(
        "B210",
        AREA,
        [
            "A negative grace period is refused, or drained cleanly",
            "a drain half begun by nonsense leaves a machine between two states",
            "configured; Drain grace -5: INVALID_ARGUMENT and CONFIGURED for 250 ms; or OK -> IDLE within 20 s without \
             cluster; no other code",
        ],
        |cx| Box::pin(b210(cx)),
    ),
    Behaviour::new(
        "B213",
        AREA,
        [
            "A bootstrap blob of 3 MiB is taken whole or refused whole",
            "a blob that is too large for the provider burns the machine in the shard",
            "Configure with a 3 MiB blob and 1 key: OK -> CONFIGURED within 20 s with its cluster; or INVALID_ARGUMENT / \
             RESOURCE_EXHAUSTED -> IDLE for 250 ms without cluster",
        ],
        |cx| Box::pin(b213(cx)),
    ),
    Behaviour::new(
        "B214",
        AREA,
        [
            "Every accepted transition has an operation id of its own",
            "two operations of one name cannot be told apart, here or at the substrate",
            "Create, Configure, Drain, Configure (other arguments), Drain on one machine: 5 distinct ids, not empty; \
             the last Drain again: its id",
        ],
        |cx| Box::pin(b214(cx)),
    ),
    Behaviour::new(
        "B215",
        AREA,
        [
            "Get and Delete of an unknown machine are NOT_FOUND",
            "a deletion that succeeds on nothing hides that a name was wrong",
            "a random id: Get is NOT_FOUND; Delete is NOT_FOUND or UNIMPLEMENTED",
        ],
        |cx| Box::pin(b215(cx)),
    )
    .machines(0)
    .profiles(&[Profile::Core, Profile::Cloud]),
];

const HOLD: Duration = Duration::from_millis(250);
const LONG: Duration = Duration::from_secs(20);

async fn b201(cx: &Context) -> Outcome {
    let id = cx.configured(&Binding::to("kept")).await?;
    refused(&cx.create(&id, &free()).await, "Create at CONFIGURED")?;
    ensure_eq!("state at once", cx.get(&id).await?.state(), S::Configured);
    cx.stays(&id, S::Configured, HOLD).await?;
    ensure_eq!("cluster", cx.get(&id).await?.cluster, "kept");
    Ok(())
}

/// Nothing of a binding reached the machine.
async fn unbound(cx: &Context, id: &str, state: S) -> Outcome {
    cx.stays(id, state, HOLD).await?;
    let machine = cx.get(id).await?;
    let unbound = machine.cluster.is_empty() && machine.shard_metadata.is_empty();
    ensure!(unbound, "no cluster and no metadata leaked", sketch(&machine));
    Ok(())
}

async fn b202(cx: &Context) -> Outcome {
    let id = cx.machine()?;
    let answer = cx.configure(&id, &Binding::to("c").with("k", "v"), &free()).await;
    refused(&answer, "Configure at SPECULATIVE")?;
    unbound(cx, &id, S::Speculative).await
}

async fn b203(cx: &Context) -> Outcome {
    let id = cx.idle().await?;
    not_fenced(&cx.drain(&id, 5, &free()).await, "Drain at IDLE")?;
    cx.stays(&id, S::Idle, HOLD).await
}

async fn b204(cx: &Context) -> Outcome {
    let speculative = cx.machine()?;
    not_fenced(&cx.delete(&speculative, &free()).await, "Delete at SPECULATIVE")?;
    cx.stays(&speculative, S::Speculative, HOLD).await?;
    let configured = cx.configured(&Binding::to("c")).await?;
    refused(&cx.delete(&configured, &free()).await, "Delete at CONFIGURED")?;
    cx.stays(&configured, S::Configured, HOLD).await
}

async fn b205(cx: &Context) -> Outcome {
    let binding = Binding::to("c").with("k", "v");
    let id = cx.configured(&binding).await?;
    let ack = success(cx.configure(&id, &binding, &free()).await, "Configure at CONFIGURED")?;
    if let Some(machine) = &ack.machine {
        ensure!(
            machine.state() == S::Configured,
            "a snapshot at CONFIGURED",
            sketch(machine)
        );
    }
    cx.never(&id, &[S::Configuring], HOLD).await?;
    cx.never(&id, &[S::Draining], HOLD).await?;
    let idle = cx.idle().await?;
    success(cx.create(&idle, &free()).await, "Create at IDLE")?;
    cx.never(&idle, &[S::Creating], HOLD).await?;
    ensure_eq!("state", cx.get(&idle).await?.state(), S::Idle);
    Ok(())
}

async fn b206(cx: &Context) -> Outcome {
    let id = cx.machine()?;
    let create = operation(cx.create(&id, &free()).await, "Create")?;
    cx.reach(&id, S::Idle).await?;
    let again = operation(cx.create(&id, &free()).await, "Create at IDLE")?;
    ensure_eq!("operation id of the repeated Create", again, create);
    let binding = Binding::to("c").with("k", "v");
    let configure = cx.bind(&id, &binding).await?;
    let both = [create, configure.clone()];
    distinct(&both, "Create and Configure")?;
    let again = operation(cx.configure(&id, &binding, &free()).await, "Configure at CONFIGURED")?;
    ensure_eq!("operation id of the repeated Configure", again, configure);
    Ok(())
}

async fn b207(cx: &Context) -> Outcome {
    let id = cx.stranger();
    refused_with(&cx.create(&id, &free()).await, Code::NotFound, "Create of a stranger")?;
    let answer = cx.configure(&id, &Binding::to("c"), &free()).await;
    refused_with(&answer, Code::NotFound, "Configure of a stranger")?;
    refused_with(&cx.drain(&id, 5, &free()).await, Code::NotFound, "Drain of a stranger")?;
    refused_with(&cx.try_get(&id).await, Code::NotFound, "Get of a stranger")
}

async fn b208(cx: &Context) -> Outcome {
    let code = Code::InvalidArgument;
    refused_with(&cx.try_get("").await, code, "Get of nothing")?;
    refused_with(&cx.create("", &free()).await, code, "Create of nothing")?;
    let answer = cx.configure("", &Binding::to("c"), &free()).await;
    refused_with(&answer, code, "Configure of nothing")?;
    refused_with(&cx.drain("", 5, &free()).await, code, "Drain of nothing")
}

async fn b209(cx: &Context) -> Outcome {
    let metadata: Metadata = (0..512).map(|n| (format!("key-{n:04}"), "x".repeat(1024))).collect();
    let binding = Binding::to("c").metadata(metadata);
    let id = cx.idle().await?;
    let answer = cx.configure(&id, &binding, &free()).await;
    if answer.is_ok() {
        cx.reach_within(&id, S::Configured, LONG).await?;
        return bound(&cx.get(&id).await?, &binding);
    }
    refused_with(
        &answer,
        Code::InvalidArgument,
        "512 KiB of metadata, where it is not taken,",
    )?;
    unbound(cx, &id, S::Idle).await
}

async fn b210(cx: &Context) -> Outcome {
    let id = cx.configured(&Binding::to("c")).await?;
    let answer = cx.drain(&id, -5, &free()).await;
    if answer.is_ok() {
        let machine = cx.reach_within(&id, S::Idle, LONG).await?;
        ensure_eq!("cluster after Drain", machine.cluster, "");
        return Ok(());
    }
    refused_with(
        &answer,
        Code::InvalidArgument,
        "a grace period of -5 s, where it is not taken,",
    )?;
    cx.stays(&id, S::Configured, HOLD).await
}

async fn b213(cx: &Context) -> Outcome {
    let binding = Binding::to("c").with("k", "v").blob(vec![0xa5; 3 << 20]);
    let id = cx.idle().await?;
    let answer = cx.configure(&id, &binding, &free()).await;
    if answer.is_ok() {
        let machine = cx.reach_within(&id, S::Configured, LONG).await?;
        ensure_eq!("cluster", machine.cluster, "c");
        return Ok(());
    }
    let known = is(&answer, Code::InvalidArgument) || is(&answer, Code::ResourceExhausted);
    ensure!(known, "OK, InvalidArgument or ResourceExhausted", said(&answer));
    unbound(cx, &id, S::Idle).await
}

async fn b214(cx: &Context) -> Outcome {
    let id = cx.machine()?;
    let mut ids = vec![operation(cx.create(&id, &free()).await, "Create")?];
    cx.reach(&id, S::Idle).await?;
    ids.push(cx.bind(&id, &Binding::to("one")).await?);
    ids.push(cx.release(&id, 5).await?);
    ids.push(cx.bind(&id, &Binding::to("two").with("k", "v")).await?);
    ids.push(cx.release(&id, 5).await?);
    distinct(&ids, "five transitions of one machine")?;
    let again = operation(cx.drain(&id, 5, &free()).await, "Drain at IDLE after a Drain")?;
    ensure_eq!("operation id of the repeated Drain", Some(&again), ids.last());
    Ok(())
}

async fn b215(cx: &Context) -> Outcome {
    let id = cx.stranger();
    refused_with(&cx.try_get(&id).await, Code::NotFound, "Get of a stranger")?;
    let answer = cx.delete(&id, &free()).await;
    if is(&answer, Code::NotFound) || is(&answer, Code::Unimplemented) {
        return Ok(());
    }
    Err(Stop::failed("NotFound or Unimplemented", said(&answer)))
}
