//! Restarts beyond the registered ones (contract §4, §9.3, §12.2).

use bigfleet_proto::{Machine, MachineState as S};
use tonic::Code;

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability, Lane},
    call::{Binding, free, since},
    context::speculative,
    expect::{fenced, operation, refused, refused_with},
    launch::Start,
    outcome::{Stop, ensure, ensure_eq},
};

const AREA: Area = Area::Durability;

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "X501",
        AREA,
        [
            "Cursors of before a kill hide nothing after it",
            "an incremental shard does not hear that the provider was restarted",
            "2 machines; a cursor, one configured, another cursor, SIGKILL, start: the delta since the first has the \
             configured one; the other is drained or deleted: the delta since the second has it",
        ],
        |cx| Box::pin(x501(cx)),
    )
    .machines(2)
    .lane(Lane::Durable)
    .needs(Capability::Durable)
    .extension(),
    Behaviour::new(
        "X502",
        AREA,
        [
            "A cursor of a state that was lost lists everything",
            "with a counter alone the deltas stay empty until it has caught up",
            "a few walks, a cursor, SIGKILL, start on an empty state: the list since the cursor has every machine, also \
             after as many walks again",
        ],
        |cx| Box::pin(x502(cx)),
    )
    .machines(0)
    .lane(Lane::Own)
    .needs(Capability::Durable)
    .extension(),
    Behaviour::new(
        "X507",
        AREA,
        [
            "The machines are the same at every boot",
            "a fleet that renames itself is a new fleet, and the old one is deleted",
            "two starts without state: the same ids, instance types, zones and capacity types",
        ],
        |cx| Box::pin(x507(cx)),
    )
    .machines(0)
    .lane(Lane::Own)
    .extension(),
    Behaviour::new(
        "X508",
        AREA,
        [
            "Marks of refused calls and of machines that do not exist survive a kill",
            "the window for zombies reopens where they do not",
            "fenced Drain (4,4) at SPECULATIVE refused, Create (6,6) of a stranger NOT_FOUND; SIGKILL, start: the same \
             tokens -> FAILED_PRECONDITION; (4,5) accepted",
        ],
        |cx| Box::pin(x508(cx)),
    )
    .lane(Lane::Durable)
    .needs(Capability::Durable)
    .extension(),
    Behaviour::new(
        "X509",
        AREA,
        [
            "The port of a killed provider can be bound again at once",
            "a restart that waits for the kernel is an outage, and each call in it burns a machine",
            "a connection in use, SIGKILL, start on the same port: listens within 20 s and answers",
        ],
        |cx| Box::pin(x509(cx)),
    )
    .machines(0)
    .lane(Lane::Own)
    .extension(),
    Behaviour::new(
        "X510",
        Area::Failure,
        [
            "FAILED survives a kill with its words",
            "a broken machine that comes back as a good one breaks the next workload",
            "on a provider that fails on demand: FAILED by a Configure, SIGKILL, start on the same state: FAILED, the \
             same last_error; another Configure refused",
        ],
        |cx| Box::pin(x510(cx)),
    )
    .machines(0)
    .lane(Lane::Own)
    .needs(Capability::Fault)
    .extension(),
];

async fn x501(cx: &Context) -> Outcome {
    let (a, b) = (cx.idle().await?, cx.idle().await?);
    let old = cx.revision().await?;
    cx.bind(&a, &Binding::to("c")).await?;
    let head = cx.revision().await?;
    if head.is_empty() {
        return Err(Stop::skipped("the provider has no cursors"));
    }
    let client = cx.reboot().await?.client;
    let delta = client.map(since(old)).await?;
    ensure!(
        delta.contains_key(&a),
        "the delta since the old cursor to have the configured machine",
        format!("{:?}", delta.keys())
    );
    client.bind(&b, &Binding::to("d")).await?;
    let delta = client.map(since(head)).await?;
    let seen = delta.get(&b).map(Machine::state);
    ensure_eq!(
        "what the delta since the head of before the kill has of a later change",
        seen,
        Some(S::Configured)
    );
    Ok(())
}

async fn x502(cx: &Context) -> Outcome {
    let first = Start::new("x502").state(cx.scratch.join("x502-first.json"));
    let provider = cx.launch(&first).await?;
    let client = cx.client_of(&provider)?;
    let ids = speculative(&client, 6).await?;
    for id in ids.iter().take(3) {
        client.make_idle(id).await?;
    }
    let cursor = client.revision().await?;
    if cursor.is_empty() {
        return Err(Stop::skipped("the provider has no cursors"));
    }
    provider.kill();
    let second = Start::new("x502").state(cx.scratch.join("x502-second.json"));
    let provider = cx.launch(&second).await?;
    let client = cx.client_of(&provider)?;
    for id in ids.iter().skip(3).map(Some).chain([None]) {
        let all = client.fleet().await?.len();
        let seen = client.map(since(cursor.clone())).await?.len();
        ensure_eq!("machines since a cursor of another state", seen, all);
        if let Some(id) = id {
            client.make_idle(id).await?;
        }
    }
    Ok(())
}

async fn x507(cx: &Context) -> Outcome {
    let mut fleets = Vec::new();
    for _ in 0..2 {
        let provider = cx.launch(&Start::new("x507")).await?;
        let mut fleet = Vec::new();
        for (id, machine) in cx.client_of(&provider)?.fleet().await? {
            fleet.push((id, machine.instance_type, machine.zone, machine.capacity_type));
        }
        fleets.push(fleet);
    }
    let same = fleets.first() == fleets.last();
    ensure!(same, "the same machines at both starts", "others");
    Ok(())
}

async fn x508(cx: &Context) -> Outcome {
    let (id, ghost, shard) = (cx.machine()?, cx.stranger(), cx.shard());
    refused(&cx.drain(&id, 0, &shard.at(4, 4)).await, "Drain at SPECULATIVE")?;
    let answer = cx.create(&ghost, &shard.at(6, 6)).await;
    refused_with(&answer, Code::NotFound, "Create of a stranger")?;
    let client = cx.reboot().await?.client;
    let answer = client.create(&id, &shard.at(4, 4)).await;
    fenced(&answer, "Create with (4, 4) after the restart")?;
    let answer = client.create(&ghost, &shard.at(6, 6)).await;
    fenced(&answer, "Create of a stranger with (6, 6) after the restart")?;
    let answer = client.create(&id, &shard.at(4, 5)).await;
    operation(answer, "Create with (4, 5) after the restart").map(drop)
}

async fn x509(cx: &Context) -> Outcome {
    let start = Start::new("x509");
    let provider = cx.launch(&start).await?;
    let client = cx.client_of(&provider)?;
    client.fleet().await?;
    let port = provider.address.port();
    provider.kill();
    let provider = cx.launch(&start.port(port)).await?;
    cx.client_of(&provider)?.fleet().await?;
    Ok(())
}

async fn x510(cx: &Context) -> Outcome {
    let start = Start::new("x510")
        .fault(std::time::Duration::from_secs(2))
        .state(cx.scratch.join("x510.json"));
    let provider = cx.launch(&start).await?;
    let client = cx.client_of(&provider)?;
    let ids = speculative(&client, 1).await?;
    let id = ids.first().map_or("", String::as_str);
    client.make_idle(id).await?;
    let answer = client.configure(id, &Binding::to(&cx.fault.error), &free()).await;
    operation(answer, "Configure")?;
    let failed = client.reach(id, S::Failed).await?;
    provider.kill();
    let provider = cx.launch(&start).await?;
    let client = cx.client_of(&provider)?;
    let after = client.get(id).await?;
    ensure_eq!("state after the restart", after.state(), S::Failed);
    ensure_eq!("last_error after the restart", after.last_error, failed.last_error);
    let answer = client.configure(id, &Binding::to("c"), &free()).await;
    refused(&answer, "Configure at FAILED")
}
