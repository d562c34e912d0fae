//! Arguments that the registered behaviours never send (contract §3, §4, §5).

use std::time::Duration;

use bigfleet_proto::MachineState as S;
use tonic::Code;

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability},
    call::{Binding, Shard, free, sketch},
    expect::{distinct, fenced, is, not_fenced, operation, refused, said, success},
    outcome::{Stop, ensure, ensure_eq},
    walk::bound,
};

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "X101",
        Area::Transitions,
        [
            "A repeated Configure with other arguments never rebinds the machine",
            "the caller would believe in a binding that is not there, or lose the one that is",
            "CONFIGURED; Configure with another cluster, then with other metadata: the first operation id, or an error \
             but FAILED_PRECONDITION; the old binding is there afterwards and for 250 ms, CONFIGURED",
        ],
        |cx| Box::pin(x101(cx)),
    )
    .extension(),
    Behaviour::new(
        "X102",
        Area::Transitions,
        [
            "A Configure onto no cluster binds nothing",
            "the shard rejects a CONFIGURED machine without a cluster, and loses it",
            "idle; Configure with an empty cluster id: an error but FAILED_PRECONDITION; IDLE for 250 ms, no metadata",
        ],
        |cx| Box::pin(x102(cx)),
    )
    .extension(),
    Behaviour::new(
        "X103",
        Area::Fencing,
        [
            "A token without a shard is either never fenced or fenced like any other",
            "a rule that changes from call to call is none",
            "Create with (\"\", 5, 5) accepted; (\"\", 1, 1) accepted or FAILED_PRECONDITION; (\"\", 5, 5) again alike; \
             (\"\", 5, 6) accepted; a shard's (1,1) accepted",
        ],
        |cx| Box::pin(x103(cx)),
    )
    .extension(),
    Behaviour::new(
        "X105",
        Area::Transitions,
        [
            "A refused call changes nothing that can be seen",
            "a revision that moves by refusals wakes every shard for nothing",
            "a fenced call, a call out of place, an unknown machine, an empty id: the record, the revision and the delta \
             stay as they are",
        ],
        |cx| Box::pin(x105(cx)),
    )
    .alone()
    .extension(),
    Behaviour::new(
        "X107",
        Area::Transitions,
        [
            "No error is worded like one of the shard's own",
            "the shard sorts outcomes by these words, and would mislead its operators",
            "errors of stale tokens, calls out of place, unknown machines and empty ids: none has one of the 16 texts \
             of contract §3, and each says something",
        ],
        |cx| Box::pin(x107(cx)),
    )
    .extension(),
    Behaviour::new(
        "X108",
        Area::Concurrency,
        [
            "A machine that is created anew is a new operation",
            "the old id would claim a host that is gone",
            "Create, Delete, Create, Delete, each awaited: 4 distinct ids; the last Delete again: its id, or an error but \
             FAILED_PRECONDITION",
        ],
        |cx| Box::pin(x108(cx)),
    )
    .needs(Capability::Delete)
    .extension(),
    Behaviour::new(
        "X111",
        Area::Fencing,
        [
            "A Delete does not remove the machine's marks",
            "a zombie could create what its successor has just given back",
            "Create (5,5), Delete (5,6), each awaited; Create (1,1) and (5,6) -> FAILED_PRECONDITION, SPECULATIVE for \
             250 ms; Create (5,7) accepted",
        ],
        |cx| Box::pin(x111(cx)),
    )
    .needs(Capability::Delete)
    .extension(),
];

const HOLD: Duration = Duration::from_millis(250);

async fn x101(cx: &Context) -> Outcome {
    let original = Binding::to("first").with("k", "v");
    let id = cx.idle().await?;
    let first = cx.bind(&id, &original).await?;
    let others = [
        Binding::to("second").with("k", "v"),
        Binding::to("first").with("k", "changed").with("new", "key"),
    ];
    for other in others {
        let answer = cx.configure(&id, &other, &free()).await;
        match answer {
            Ok(ack) => ensure_eq!("operation id", ack.operation_id, first),
            refusal => refused(&refusal, "a repeated Configure with other arguments")?,
        }
        cx.stays(&id, S::Configured, HOLD).await?;
        bound(&cx.get(&id).await?, &original)?;
    }
    Ok(())
}

async fn x102(cx: &Context) -> Outcome {
    let id = cx.idle().await?;
    let answer = cx.configure(&id, &Binding::to("").with("k", "v"), &free()).await;
    refused(&answer, "Configure onto no cluster")?;
    cx.stays(&id, S::Idle, HOLD).await?;
    crate::walk::clean(&cx.get(&id).await?, S::Idle)
}

async fn x103(cx: &Context) -> Outcome {
    let (id, nobody) = (cx.machine()?, Shard(String::new()));
    operation(cx.create(&id, &nobody.at(5, 5)).await, "Create with (5, 5) of no shard")?;
    let stale = cx.create(&id, &nobody.at(1, 1)).await;
    let again = cx.create(&id, &nobody.at(5, 5)).await;
    if is(&stale, Code::FailedPrecondition) {
        fenced(&again, "as (1, 1) is fenced, (5, 5) again")?;
    } else {
        success(stale, "Create with (1, 1) of no shard")?;
        success(again, "as (1, 1) is not fenced, (5, 5) again")?;
    }
    success(cx.create(&id, &nobody.at(5, 6)).await, "Create with (5, 6) of no shard")?;
    success(
        cx.create(&id, &cx.shard().at(1, 1)).await,
        "a shard's Create with (1, 1)",
    )
    .map(drop)
}

async fn x105(cx: &Context) -> Outcome {
    let (id, shard) = (cx.idle().await?, cx.shard());
    success(cx.create(&id, &shard.at(5, 5)).await, "a repeated Create with (5, 5)")?;
    let before = cx.list(Default::default()).await?;
    let record = cx.get(&id).await?;
    fenced(&cx.create(&id, &shard.at(1, 1)).await, "Create with (1, 1)")?;
    let binding = Binding::to("c").with("k", "v");
    fenced(
        &cx.configure(&id, &binding, &shard.at(1, 1)).await,
        "Configure with (1, 1)",
    )?;
    refused(
        &cx.configure(&cx.stranger(), &binding, &free()).await,
        "Configure of a stranger",
    )?;
    refused(&cx.create("", &free()).await, "Create of nothing")?;
    success(cx.create(&id, &free()).await, "a repeated Create")?;
    ensure_eq!("the record", cx.get(&id).await?, record);
    let after = cx.list(Default::default()).await?;
    ensure!(
        after.revision == before.revision,
        "the same revision after refused and repeated calls",
        format!("{:?}, before {:?}", after.revision, before.revision)
    );
    if !before.revision.is_empty() {
        let delta = cx.map(crate::call::since(before.revision)).await?;
        ensure!(delta.is_empty(), "an empty delta", format!("{:?}", delta.keys()));
    }
    Ok(())
}

/// Texts by which the shard sorts outcomes (contract §3).
const MISLEADING: [&str; 16] = [
    "no active operator session",
    "→ Configuring",
    "→ Creating",
    "→ Draining",
    "→ Deleting",
    "post-Create transition",
    "post-Configure transition",
    "post-Drain transition",
    "post-Delete transition",
    "LocalBootstrap",
    "requestBootstrap",
    "expected Idle",
    "expected Speculative",
    "expected Configured",
    "inventory get",
    "missing source profile",
];

async fn x107(cx: &Context) -> Outcome {
    let (id, shard, binding) = (cx.machine()?, cx.shard(), Binding::to("c"));
    let mut answers = vec![
        cx.configure(&id, &binding, &free()).await,
        cx.drain(&id, 0, &free()).await,
        cx.create("", &free()).await,
        cx.create(&cx.stranger(), &free()).await,
    ];
    cx.make_idle(&id).await?;
    success(cx.create(&id, &shard.at(2, 2)).await, "a repeated Create")?;
    answers.push(cx.create(&id, &shard.at(1, 1)).await);
    answers.push(cx.drain(&id, 0, &free()).await);
    cx.bind(&id, &binding).await?;
    answers.push(cx.create(&id, &free()).await);
    answers.push(cx.delete(&id, &free()).await);
    for answer in &answers {
        let Err(status) = answer else {
            continue;
        };
        let text = status.message();
        ensure!(!text.is_empty(), "an error that says something", said(answer));
        let misleading = MISLEADING.iter().find(|words| text.contains(*words));
        if let Some(words) = misleading {
            return Err(Stop::failed(format!("no error that says {words:?}"), said(answer)));
        }
    }
    Ok(())
}

async fn x108(cx: &Context) -> Outcome {
    let (id, mut ids) = (cx.machine()?, Vec::new());
    for _ in 0..2 {
        ids.push(operation(cx.create(&id, &free()).await, "Create")?);
        cx.reach(&id, S::Idle).await?;
        ids.push(cx.give_back(&id).await?);
    }
    distinct(&ids, "two lives of a machine")?;
    let answer = cx.delete(&id, &free()).await;
    not_fenced(&answer, "a repeated Delete")?;
    if let Ok(ack) = &answer {
        ensure_eq!(
            "operation id of the repeated Delete",
            Some(&ack.operation_id),
            ids.last()
        );
    }
    let machine = cx.get(&id).await?;
    ensure!(machine.state() == S::Speculative, "SPECULATIVE", sketch(&machine));
    Ok(())
}

async fn x111(cx: &Context) -> Outcome {
    let (id, shard) = (cx.machine()?, cx.shard());
    operation(cx.create(&id, &shard.at(5, 5)).await, "Create with (5, 5)")?;
    cx.reach(&id, S::Idle).await?;
    operation(cx.delete(&id, &shard.at(5, 6)).await, "Delete with (5, 6)")?;
    cx.reach(&id, S::Speculative).await?;
    fenced(
        &cx.create(&id, &shard.at(1, 1)).await,
        "Create with (1, 1) after the Delete",
    )?;
    fenced(
        &cx.create(&id, &shard.at(5, 6)).await,
        "Create with (5, 6) after the Delete",
    )?;
    cx.stays(&id, S::Speculative, HOLD).await?;
    operation(
        cx.create(&id, &shard.at(5, 7)).await,
        "Create with (5, 7) after the Delete",
    )
    .map(drop)
}
