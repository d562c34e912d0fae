//! FE: marks, and whom they stop (contract §4).

use bigfleet_proto::{ListFilter, MachineState as S};
use tonic::Code;

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour},
    call::{Binding, free, only},
    expect::{fenced, is, operation, refused, refused_with, success},
    outcome::{ensure, ensure_eq},
};

const AREA: Area = Area::Fencing;

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "B301",
        AREA,
        [
            "Machines that do not exist have marks, and a stale token does not learn that they do not",
            "a zombie must not find out what exists, nor create what appears later",
            "fixed ghost id: fenced Create (5,5) -> NOT_FOUND; (1,1) by Create, Configure, Drain, Delete -> \
             FAILED_PRECONDITION (Delete may be UNIMPLEMENTED); Create (9,9) -> NOT_FOUND",
        ],
        |cx| Box::pin(b301(cx)),
    )
    .machines(0),
    Behaviour::new(
        "B302",
        AREA,
        [
            "Marks are kept for each pair of shard and machine",
            "with one mark a shard, work on one machine fences work on all others",
            "three machines: shard A on mA (9,9), B on mB (7,3), C on mC (1,1) accepted; A (1,1), B (7,3), C (1,1) -> \
             FAILED_PRECONDITION; B (7,4) accepted. New shard D: mA (5,30) and mB (5,7) accepted; mB (5,7), mA (5,30), \
             mB (4,999) -> FAILED_PRECONDITION",
        ],
        |cx| Box::pin(b302(cx)),
    )
    .machines(3),
    Behaviour::new(
        "B305",
        AREA,
        [
            "Reads are never fenced, and a fenced call changes nothing",
            "a shard that lost its lease must still see the fleet",
            "fenced Create (7,7) -> IDLE; 4 x (fenced Create (1,i) -> FAILED_PRECONDITION; Get, List and List(IDLE) \
             answer and are not empty); still IDLE",
        ],
        |cx| Box::pin(b305(cx)),
    ),
    Behaviour::new(
        "B306",
        AREA,
        [
            "Configure is fenced, and a newer token repeats it",
            "a zombie's Configure binds a machine to a cluster that gave it up",
            "idle; fenced Configure (5,5) -> CONFIGURED; the same with (1,1) -> FAILED_PRECONDITION; with (5,6) -> \
             success, the first operation id, still CONFIGURED",
        ],
        |cx| Box::pin(b306(cx)),
    ),
    Behaviour::new(
        "B307",
        AREA,
        [
            "Drain is fenced, and a newer token repeats it",
            "a zombie's Drain evicts workloads of the shard that took over",
            "configured; fenced Drain 0 (5,5) -> IDLE; (1,1) -> FAILED_PRECONDITION; (5,6) -> the first operation id, \
             still IDLE",
        ],
        |cx| Box::pin(b307(cx)),
    ),
    Behaviour::new(
        "B308",
        AREA,
        [
            "The zero token is never fenced and builds no mark",
            "tools without a shard must be able to work",
            "zero-token Create -> IDLE; again accepted, still IDLE; zero-token Create of another machine -> IDLE",
        ],
        |cx| Box::pin(b308(cx)),
    )
    .machines(2),
    Behaviour::new(
        "B310",
        AREA,
        [
            "A life with a Delete in it is fenced from end to end, and Delete is there",
            "a machine that is deleted and created again is the same machine to its shards",
            "Create (1,1), Delete (1,2), Create (1,3), each awaited; Configure (1,1) and (1,3) -> \
             FAILED_PRECONDITION; Configure (2,1) -> CONFIGURED. Without Delete it fails (trap 3)",
        ],
        |cx| Box::pin(b310(cx)),
    ),
    Behaviour::new(
        "B311",
        AREA,
        [
            "A token that passed moves the mark although its call is refused",
            "an order that arrived late must not overtake one that was refused",
            "SPECULATIVE: fenced Drain (5,5) -> an error but FAILED_PRECONDITION; Create (5,4) -> FAILED_PRECONDITION; \
             Create (5,6) accepted",
        ],
        |cx| Box::pin(b311(cx)),
    ),
];

async fn b301(cx: &Context) -> Outcome {
    let (id, shard) = ("conformance-ghost-b301", cx.shard());
    let binding = Binding::to("c");
    let create = cx.create(id, &shard.at(5, 5)).await;
    refused_with(&create, Code::NotFound, "Create of a ghost with (5, 5)")?;
    let stale = shard.at(1, 1);
    fenced(&cx.create(id, &stale).await, "Create of a ghost with (1, 1)")?;
    fenced(
        &cx.configure(id, &binding, &stale).await,
        "Configure of a ghost with (1, 1)",
    )?;
    fenced(&cx.drain(id, 5, &stale).await, "Drain of a ghost with (1, 1)")?;
    let delete = cx.delete(id, &stale).await;
    if !is(&delete, Code::Unimplemented) {
        fenced(&delete, "Delete of a ghost with (1, 1)")?;
    }
    let create = cx.create(id, &shard.at(9, 9)).await;
    refused_with(&create, Code::NotFound, "Create of a ghost with (9, 9)")
}

async fn b302(cx: &Context) -> Outcome {
    let [a, b, c] = [cx.machine()?, cx.machine()?, cx.machine()?];
    let [sa, sb, sc, sd] = [cx.shard(), cx.shard(), cx.shard(), cx.shard()];
    for (machine, token) in [(&a, sa.at(9, 9)), (&b, sb.at(7, 3)), (&c, sc.at(1, 1))] {
        operation(cx.create(machine, &token).await, &format!("Create with {token}"))?;
    }
    for (machine, token) in [(&a, sa.at(1, 1)), (&b, sb.at(7, 3)), (&c, sc.at(1, 1))] {
        fenced(&cx.create(machine, &token).await, &format!("Create with {token}"))?;
    }
    for (machine, token) in [(&b, sb.at(7, 4)), (&a, sd.at(5, 30)), (&b, sd.at(5, 7))] {
        success(cx.create(machine, &token).await, &format!("Create with {token}"))?;
    }
    for (machine, token) in [(&b, sd.at(5, 7)), (&a, sd.at(5, 30)), (&b, sd.at(4, 999))] {
        fenced(&cx.create(machine, &token).await, &format!("Create with {token}"))?;
    }
    Ok(())
}

async fn b305(cx: &Context) -> Outcome {
    let (id, shard) = (cx.machine()?, cx.shard());
    operation(cx.create(&id, &shard.at(7, 7)).await, "Create with (7, 7)")?;
    cx.reach(&id, S::Idle).await?;
    for sequence in 0..4 {
        let what = format!("Create with (1, {sequence})");
        fenced(&cx.create(&id, &shard.at(1, sequence)).await, &what)?;
        cx.get(&id).await?;
        for filter in [ListFilter::default(), only(&[S::Idle])] {
            let list = cx.list(filter).await?;
            ensure!(!list.machines.is_empty(), "machines in the list", "none");
        }
    }
    ensure_eq!("state", cx.get(&id).await?.state(), S::Idle);
    Ok(())
}

async fn b306(cx: &Context) -> Outcome {
    let (id, shard, binding) = (cx.idle().await?, cx.shard(), Binding::to("c").with("k", "v"));
    let answer = cx.configure(&id, &binding, &shard.at(5, 5)).await;
    let first = operation(answer, "Configure with (5, 5)")?;
    cx.reach(&id, S::Configured).await?;
    fenced(
        &cx.configure(&id, &binding, &shard.at(1, 1)).await,
        "Configure with (1, 1)",
    )?;
    let answer = cx.configure(&id, &binding, &shard.at(5, 6)).await;
    ensure_eq!("operation id", operation(answer, "Configure with (5, 6)")?, first);
    ensure_eq!("state", cx.get(&id).await?.state(), S::Configured);
    Ok(())
}

async fn b307(cx: &Context) -> Outcome {
    let (id, shard) = (cx.configured(&Binding::to("c")).await?, cx.shard());
    let first = operation(cx.drain(&id, 0, &shard.at(5, 5)).await, "Drain with (5, 5)")?;
    cx.reach(&id, S::Idle).await?;
    fenced(&cx.drain(&id, 0, &shard.at(1, 1)).await, "Drain with (1, 1)")?;
    let again = operation(cx.drain(&id, 0, &shard.at(5, 6)).await, "Drain with (5, 6)")?;
    ensure_eq!("operation id", again, first);
    ensure_eq!("state", cx.get(&id).await?.state(), S::Idle);
    Ok(())
}

async fn b308(cx: &Context) -> Outcome {
    let id = cx.machine()?;
    cx.make_idle(&id).await?;
    success(cx.create(&id, &free()).await, "a second zero-token Create")?;
    ensure_eq!("state", cx.get(&id).await?.state(), S::Idle);
    cx.make_idle(&cx.machine()?).await?;
    Ok(())
}

async fn b310(cx: &Context) -> Outcome {
    let (id, shard) = (cx.machine()?, cx.shard());
    operation(cx.create(&id, &shard.at(1, 1)).await, "Create with (1, 1)")?;
    cx.reach(&id, S::Idle).await?;
    operation(cx.delete(&id, &shard.at(1, 2)).await, "Delete with (1, 2)")?;
    cx.reach(&id, S::Speculative).await?;
    operation(cx.create(&id, &shard.at(1, 3)).await, "Create with (1, 3)")?;
    cx.reach(&id, S::Idle).await?;
    let binding = Binding::to("c");
    fenced(
        &cx.configure(&id, &binding, &shard.at(1, 1)).await,
        "Configure with (1, 1)",
    )?;
    fenced(
        &cx.configure(&id, &binding, &shard.at(1, 3)).await,
        "Configure with (1, 3)",
    )?;
    let answer = cx.configure(&id, &binding, &shard.at(2, 1)).await;
    operation(answer, "Configure with (2, 1)")?;
    cx.reach(&id, S::Configured).await?;
    Ok(())
}

async fn b311(cx: &Context) -> Outcome {
    let (id, shard) = (cx.machine()?, cx.shard());
    refused(
        &cx.drain(&id, 0, &shard.at(5, 5)).await,
        "Drain at SPECULATIVE with (5, 5)",
    )?;
    fenced(&cx.create(&id, &shard.at(5, 4)).await, "Create with (5, 4)")?;
    operation(cx.create(&id, &shard.at(5, 6)).await, "Create with (5, 6)")?;
    Ok(())
}
