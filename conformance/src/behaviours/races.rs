//! CI: different calls at the same time (contract §4, §5).

use std::time::{Duration, Instant};

use bigfleet_proto::MachineState as S;
use tokio::{task::JoinSet, time::sleep};
use tonic::Code;

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour},
    call::{Binding, free, sketch},
    expect::{fenced, is, not_fenced, operation, said, success},
    outcome::{Stop, ensure},
    walk::AWAIT,
};

const AREA: Area = Area::Concurrency;

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "B404",
        AREA,
        [
            "A Configure and a Drain at the same time have one winner and a consistent end",
            "a half-drained machine that says it is bound gets workloads",
            "configured; Configure (the same) and Drain 0 at the same time: the loser's error is not \
             FAILED_PRECONDITION; within 15 s at rest in IDLE or CONFIGURED, for 300 ms; the cluster fits the state",
        ],
        |cx| Box::pin(b404(cx)),
    ),
    Behaviour::new(
        "B405",
        AREA,
        [
            "Check and advance of a mark are one step",
            "between a check and a late advance a zombie slips through",
            "fenced Create (1,1000) -> IDLE; 24 parallel fenced Creates: 12 x (1, 0..11) all FAILED_PRECONDITION; 12 x \
             (2, 100..111) each OK or FAILED_PRECONDITION, at least one OK; then (1,9) FAILED_PRECONDITION, (2,9999) OK",
        ],
        |cx| Box::pin(b405(cx)),
    ),
];

async fn b404(cx: &Context) -> Outcome {
    let binding = Binding::to("contested").with("k", "v");
    let id = cx.configured(&binding).await?;
    let other = cx.connection()?;
    // Or the Drain would come as late as its connection.
    other.get(&id).await?;
    let (token, other_token) = (free(), free());
    let (configure, drain) = tokio::join!(cx.configure(&id, &binding, &token), other.drain(&id, 0, &other_token));
    not_fenced(&configure, "the racing Configure")?;
    not_fenced(&drain, "the racing Drain")?;
    let (began, limit) = (Instant::now(), cx.session().limit(AWAIT));
    let state = loop {
        let machine = cx.get(&id).await?;
        if matches!(machine.state(), S::Idle | S::Configured) {
            break machine.state();
        }
        ensure!(
            began.elapsed() < limit,
            format!("IDLE or CONFIGURED within {limit:?}"),
            sketch(&machine)
        );
        sleep(Duration::from_millis(20)).await;
    };
    cx.stays(&id, state, Duration::from_millis(300)).await?;
    let machine = cx.get(&id).await?;
    let expected = if state == S::Configured { "contested" } else { "" };
    ensure!(
        machine.cluster == expected,
        format!("cluster {expected:?} in this state"),
        sketch(&machine)
    );
    Ok(())
}

async fn b405(cx: &Context) -> Outcome {
    let (id, shard) = (cx.machine()?, cx.shard());
    operation(cx.create(&id, &shard.at(1, 1000)).await, "Create with (1, 1000)")?;
    cx.reach(&id, S::Idle).await?;
    let mut calls = JoinSet::new();
    for n in 0..12 {
        for token in [shard.at(1, n), shard.at(2, 100 + n)] {
            let (client, id) = (cx.client.clone(), id.clone());
            calls.spawn(async move { (token.epoch, client.create(&id, &token).await) });
        }
    }
    let mut accepted = 0;
    for (epoch, answer) in calls.join_all().await {
        if epoch == 1 {
            fenced(&answer, "a racing Create of the old epoch")?;
        } else if answer.is_ok() {
            accepted += 1;
        } else if !is(&answer, Code::FailedPrecondition) {
            return Err(Stop::failed("OK or FailedPrecondition in the new epoch", said(&answer)));
        }
    }
    ensure!(accepted > 0, "at least one accepted call of the new epoch", "none");
    fenced(&cx.create(&id, &shard.at(1, 9)).await, "Create with (1, 9)")?;
    success(cx.create(&id, &shard.at(2, 9999)).await, "Create with (2, 9999)").map(drop)
}
