//! DR: what was acknowledged is there after a SIGKILL (contract §4, §5, §9.3). All of these prepare at the same time,
//! then the provider is killed and started again once, and all of them look.

use std::time::Duration;

use bigfleet_proto::MachineState as S;

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability, Lane, Profile},
    call::{Binding, free, sketch},
    context::{speculative, states},
    expect::{distinct, fenced, operation},
    launch::Start,
    outcome::{Stop, ensure, ensure_eq},
    walk::bound,
};

const fn durable(
    id: &'static str,
    texts: [&'static str; 3],
    run: for<'a> fn(&'a Context) -> crate::behaviour::Checking<'a>,
) -> Behaviour {
    Behaviour::new(id, Area::Durability, texts, run)
        .profiles(&[Profile::Durable])
        .needs(Capability::Durable)
        .lane(Lane::Durable)
}

pub(super) const ALL: &[Behaviour] = &[
    durable(
        "B1001",
        [
            "A stale token is fenced after a kill",
            "marks that are lost reopen the window for zombies",
            "before: a shard's fenced Create (3,7) -> IDLE within 20 s; after SIGKILL and start: the same token -> \
             FAILED_PRECONDITION",
        ],
        |cx| Box::pin(b1001(cx)),
    ),
    durable(
        "B1002",
        [
            "A repeated call has the same operation id after a kill",
            "a caller that lost the answer in the crash would run the transition twice",
            "before: unfenced walk to idle, Configure with 2 keys -> CONFIGURED; after: the same Configure, the same id",
        ],
        |cx| Box::pin(b1002(cx)),
    ),
    durable(
        "B1003",
        [
            "Cluster and metadata are there after a kill, on Get and List",
            "a binding that is lost is workload that nobody protects",
            "after: Get and List show the cluster and exactly the metadata",
        ],
        |cx| Box::pin(b1003(cx)),
    ),
    durable(
        "B1004",
        [
            "The inventory is the same after a kill",
            "machines that are missing from a list are deleted by the shard",
            "id -> state of the full list before the kill equals that after the start",
        ],
        |cx| Box::pin(b1004(cx)),
    )
    .machines(2),
    durable(
        "B1005",
        [
            "Operation ids are fresh after a kill",
            "an id that comes again makes one machine adopt another's host",
            "before: three operations; after: revision not empty, a Create on a new machine has an id unlike the three, and unlike all that others \
             were given",
        ],
        |cx| Box::pin(b1005(cx)),
    )
    .machines(2),
    durable(
        "B1006",
        [
            "A transition that a kill interrupted is FAILED and says why, or at rest",
            "a machine that hangs in between after a restart is lost",
            "a provider that fails on demand, limit 30 s: Configure onto the blocking cluster, seen CONFIGURING within \
             5 s, SIGKILL, start on the same state: the first Get is FAILED with last_error",
        ],
        |cx| Box::pin(b1006(cx)),
    )
    .machines(0),
    durable(
        "B1007",
        [
            "A new shard is accepted after a kill",
            "a provider that trusts nobody after a restart is no provider",
            "after: a new shard's fenced Create (1,1) on a new machine is accepted",
        ],
        |cx| Box::pin(b1007(cx)),
    )
    .machines(2),
];

const LONG: Duration = Duration::from_secs(20);

async fn b1001(cx: &Context) -> Outcome {
    let (id, shard) = (cx.machine()?, cx.shard());
    operation(cx.create(&id, &shard.at(3, 7)).await, "Create with (3, 7)")?;
    cx.reach_within(&id, S::Idle, LONG).await?;
    let reboot = cx.reboot().await?;
    let answer = reboot.client.create(&id, &shard.at(3, 7)).await;
    fenced(&answer, "Create with (3, 7) after the restart")
}

async fn b1002(cx: &Context) -> Outcome {
    let (id, binding) = (cx.idle().await?, Binding::to("kept").with("a", "1").with("b", "2"));
    let first = cx.bind(&id, &binding).await?;
    let reboot = cx.reboot().await?;
    let answer = reboot.client.configure(&id, &binding, &free()).await;
    let again = operation(answer, "the same Configure after the restart")?;
    ensure_eq!("operation id", again, first);
    Ok(())
}

async fn b1003(cx: &Context) -> Outcome {
    let binding = Binding::to("kept").with("nul\0", "a\0b").with("empty", "");
    let id = cx.configured(&binding).await?;
    let reboot = cx.reboot().await?;
    bound(&reboot.client.get(&id).await?, &binding)?;
    match reboot.client.fleet().await?.get(&id) {
        Some(machine) => bound(machine, &binding),
        None => Err(Stop::failed(format!("`{id}` in the list"), "it is not there")),
    }
}

async fn b1004(cx: &Context) -> Outcome {
    cx.idle().await?;
    cx.configured(&Binding::to("c")).await?;
    let reboot = cx.reboot().await?;
    let (before, after) = (states(&reboot.before), states(&reboot.after));
    let changed = before.iter().filter(|one| !after.contains(one)).count();
    ensure!(
        before == after,
        format!("the {} machines in the states before the kill", before.len()),
        format!("{} machines, {changed} of the old ones gone or changed", after.len())
    );
    Ok(())
}

async fn b1005(cx: &Context) -> Outcome {
    let (id, fresh) = (cx.machine()?, cx.machine()?);
    let mut ids = vec![operation(cx.create(&id, &free()).await, "Create")?];
    cx.reach(&id, S::Idle).await?;
    ids.push(cx.bind(&id, &Binding::to("c")).await?);
    ids.push(cx.release(&id, 0).await?);
    let reboot = cx.reboot().await?;
    let client = reboot.client;
    let revision = client.revision().await?;
    ensure!(!revision.is_empty(), "a revision", "an empty one");
    ids.push(operation(
        client.create(&fresh, &free()).await,
        "Create of a new machine",
    )?);
    distinct(&ids, "three operations before the kill and one after")?;
    let fresh = ids.last().is_some_and(|id| !reboot.heard.contains(id));
    ensure!(
        fresh,
        "an id unlike all that were given before the kill",
        format!("{:?}", ids.last())
    );
    Ok(())
}

async fn b1006(cx: &Context) -> Outcome {
    let folder = cx.scratch.join("b1006");
    std::fs::create_dir_all(&folder).map_err(|error| Stop::skipped(error.to_string()))?;
    let start = Start::new("b1006")
        .fault(Duration::from_secs(30))
        .state(folder.join("state.json"));
    let provider = cx.launch(&start).await?;
    let client = cx.client_of(&provider)?;
    let ids = speculative(&client, 1).await?;
    let id = ids.first().map_or("", String::as_str);
    client.make_idle(id).await?;
    let binding = Binding::to(&cx.fault.timeout);
    operation(client.configure(id, &binding, &free()).await, "Configure")?;
    client.reach_within(id, S::Configuring, Duration::from_secs(5)).await?;
    provider.kill();
    cx.trace_note("SIGKILL");
    let provider = cx.launch(&start).await?;
    let machine = cx.client_of(&provider)?.get(id).await?;
    ensure!(
        machine.state() == S::Failed && !machine.last_error.is_empty(),
        "FAILED with a last_error at the first look",
        sketch(&machine)
    );
    Ok(())
}

async fn b1007(cx: &Context) -> Outcome {
    let (id, fresh) = (cx.machine()?, cx.machine()?);
    operation(cx.create(&id, &cx.shard().at(3, 7)).await, "Create with (3, 7)")?;
    cx.reach(&id, S::Idle).await?;
    let client = cx.reboot().await?.client;
    let answer = client.create(&fresh, &cx.shard().at(1, 1)).await;
    operation(answer, "a new shard's Create with (1, 1) after the restart").map(drop)
}
