//! CI: identical calls at the same time are one operation (contract §5).

use std::time::Duration;

use bigfleet_proto::MachineState as S;
use tokio::task::JoinSet;

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability, Profile},
    call::{Binding, free, sketch},
    client::{Answer, Client},
    expect::{distinct, operation, single_operation},
    outcome::{ensure, ensure_eq},
    walk::{WIDTH, bound, burst, clean},
};

const AREA: Area = Area::Concurrency;

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "B401",
        AREA,
        [
            "16 Creates at the same time are one operation",
            "two operations for one machine are two hosts, one of them nobody's",
            "16 parallel unfenced Creates on one SPECULATIVE: at least one success, all successes the same id, not \
             empty, no FAILED_PRECONDITION; IDLE within 15 s and listed exactly once under IDLE",
        ],
        |cx| Box::pin(b401(cx)),
    ),
    Behaviour::new(
        "B402",
        AREA,
        [
            "16 identical Configures at the same time are one operation",
            "two bootstraps on one machine fight each other",
            "16 parallel identical Configures on idle: as B401; ends CONFIGURED as asked",
        ],
        |cx| Box::pin(b402(cx)),
    ),
    Behaviour::new(
        "B403",
        AREA,
        [
            "16 Drains at the same time are one operation",
            "a second drain may hit the machine's next life",
            "16 parallel Drains grace 0 on configured: as B401; ends IDLE without cluster and metadata",
        ],
        |cx| Box::pin(b403(cx)),
    ),
    Behaviour::new(
        "B406",
        AREA,
        [
            "Calls over two connections are one operation too",
            "the same shard comes back over a new connection after a network fault",
            "16 parallel identical Configures over two connections: one id; CONFIGURED once; one more from each \
             connection: equal ids, not empty",
        ],
        |cx| Box::pin(b406(cx)),
    ),
    Behaviour::new(
        "B407",
        AREA,
        [
            "Machines that are created at the same time have ids of their own",
            "a shared id makes one machine adopt another's host",
            "8 machines created in parallel: all succeed, ids distinct and not empty; each IDLE within 30 s without \
             cluster and metadata",
        ],
        |cx| Box::pin(b407(cx)),
    )
    .machines(8),
    Behaviour::new(
        "B408",
        AREA,
        [
            "Every answer of a race shows the machine on its way or there",
            "the shard takes the snapshot of an ack for the truth",
            "16 parallel Configures: one id; each snapshot is CONFIGURING or CONFIGURED, and with its cluster where \
             CONFIGURED; CONFIGURED once at the end",
        ],
        |cx| Box::pin(b408(cx)),
    ),
    Behaviour::new(
        "B409",
        AREA,
        [
            "16 Deletes at the same time are one operation",
            "a second deletion may hit the machine's next host",
            "16 parallel Deletes on idle: one id, no FAILED_PRECONDITION; ends SPECULATIVE, listed once",
        ],
        |cx| Box::pin(b409(cx)),
    )
    .profiles(&[Profile::Core, Profile::Cloud])
    .needs(Capability::Delete),
];

/// So many identical Configures at the same time, one connection after the other.
async fn configures(clients: &[Client], id: &str, binding: &Binding) -> Vec<Answer> {
    burst(WIDTH, |number| {
        let client = clients.get(number % clients.len().max(1)).cloned();
        let (id, binding) = (id.to_owned(), binding.clone());
        async move {
            match client {
                Some(client) => client.configure(&id, &binding, &free()).await,
                None => Err(tonic::Status::internal("the harness has no connection")),
            }
        }
    })
    .await
}

async fn b401(cx: &Context) -> Outcome {
    let id = cx.machine()?;
    let answers = burst(WIDTH, |_| {
        let (client, id) = (cx.client.clone(), id.clone());
        async move { client.create(&id, &free()).await }
    })
    .await;
    single_operation(&answers, "16 parallel Creates")?;
    cx.reach(&id, S::Idle).await?;
    cx.listed_once(&id, S::Idle).await
}

async fn b402(cx: &Context) -> Outcome {
    let (id, binding) = (cx.idle().await?, Binding::to("race").with("k", "v"));
    let answers = configures(std::slice::from_ref(&cx.client), &id, &binding).await;
    single_operation(&answers, "16 parallel Configures")?;
    bound(&cx.reach(&id, S::Configured).await?, &binding)
}

async fn b403(cx: &Context) -> Outcome {
    let id = cx.configured(&Binding::to("c").with("k", "v")).await?;
    let answers = burst(WIDTH, |_| {
        let (client, id) = (cx.client.clone(), id.clone());
        async move { client.drain(&id, 0, &free()).await }
    })
    .await;
    single_operation(&answers, "16 parallel Drains")?;
    clean(&cx.reach(&id, S::Idle).await?, S::Idle)
}

async fn b406(cx: &Context) -> Outcome {
    let (id, binding) = (cx.idle().await?, Binding::to("race").with("k", "v"));
    let clients = [cx.connection()?, cx.connection()?];
    let first = single_operation(&configures(&clients, &id, &binding).await, "16 parallel Configures")?;
    cx.reach(&id, S::Configured).await?;
    cx.listed_once(&id, S::Configured).await?;
    for client in &clients {
        let answer = client.configure(&id, &binding, &free()).await;
        let again = operation(answer, "one more Configure from each connection")?;
        ensure_eq!("operation id", again, first);
    }
    Ok(())
}

async fn b407(cx: &Context) -> Outcome {
    let ids = cx.all_machines();
    let mut calls = JoinSet::new();
    for id in ids.clone() {
        let client = cx.client.clone();
        calls.spawn(async move { client.create(&id, &free()).await });
    }
    let mut operations = Vec::new();
    for answer in calls.join_all().await {
        operations.push(operation(answer, "each of 8 parallel Creates")?);
    }
    distinct(&operations, "8 parallel Creates")?;
    for id in &ids {
        let machine = cx.reach_within(id, S::Idle, Duration::from_secs(30)).await?;
        clean(&machine, S::Idle)?;
    }
    Ok(())
}

async fn b408(cx: &Context) -> Outcome {
    let (id, binding) = (cx.idle().await?, Binding::to("race").with("k", "v"));
    let answers = configures(std::slice::from_ref(&cx.client), &id, &binding).await;
    single_operation(&answers, "16 parallel Configures")?;
    for machine in answers.iter().flatten().filter_map(|ack| ack.machine.as_ref()) {
        let state = machine.state();
        let fits = state == S::Configuring || state == S::Configured && machine.cluster == binding.cluster;
        ensure!(
            fits,
            "a snapshot at CONFIGURING, or at CONFIGURED with its cluster",
            sketch(machine)
        );
    }
    cx.reach(&id, S::Configured).await?;
    cx.listed_once(&id, S::Configured).await
}

async fn b409(cx: &Context) -> Outcome {
    let id = cx.idle().await?;
    let answers = burst(WIDTH, |_| {
        let (client, id) = (cx.client.clone(), id.clone());
        async move { client.delete(&id, &free()).await }
    })
    .await;
    single_operation(&answers, "16 parallel Deletes")?;
    cx.reach(&id, S::Speculative).await?;
    cx.listed_once(&id, S::Speculative).await
}
