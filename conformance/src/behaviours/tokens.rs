//! TM and FE: extreme tokens, and long lines of them (contract §4).

use std::time::Duration;

use bigfleet_proto::MachineState as S;
use tonic::Code;

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour},
    call::{Binding, Shard},
    expect::{fenced, operation, refused_with, success},
    outcome::ensure_eq,
};

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "B211",
        Area::Transitions,
        [
            "Negative token numbers are numbers, or refused without a trace",
            "a token misread as unsigned makes the oldest shard the newest",
            "fenced Create on a fresh machine and shard with (-1,1), (1,-1), (-7,-3): INVALID_ARGUMENT and SPECULATIVE \
             for 250 ms; or OK -> IDLE within 15 s (B1201 and B1204 demand OK)",
        ],
        |cx| Box::pin(b211(cx)),
    )
    .machines(3),
    Behaviour::new(
        "B212",
        Area::Transitions,
        [
            "The greatest token is a mark like any other",
            "an overflow makes everything newer than the greatest",
            "idle; fenced Configure (max, max) -> CONFIGURED within 20 s with its cluster; fenced Create with the same \
             token and with (max-1, max): FAILED_PRECONDITION",
        ],
        |cx| Box::pin(b212(cx)),
    ),
    Behaviour::new(
        "B303",
        Area::Fencing,
        [
            "Tokens are compared by epoch first, then by sequence",
            "a zombie of an older epoch must lose whatever its sequence",
            "one machine, one shard: (2,5)+ (2,5)- (2,4)- (1,9)- (1,99999)- (2,6)+ (2,6)- (2,5)- (3,0)+ (3,0)- \
             (2,999999)- (3,1)+ (4,0)+ (4,0)- (10,7)+ (10,7)- (9,999)-; + no error, - FAILED_PRECONDITION",
        ],
        |cx| Box::pin(b303(cx)),
    ),
    Behaviour::new(
        "B309",
        Area::Fencing,
        [
            "One shard leads a machine through its life with rising tokens",
            "this is what every real shard does, all day",
            "epoch 1, sequence rising by one a call: Create, then twice (Configure, Drain), each awaited within 15 s; \
             Configure with (1,1): FAILED_PRECONDITION",
        ],
        |cx| Box::pin(b309(cx)),
    ),
    Behaviour::new(
        "B312",
        Area::Fencing,
        [
            "200 tokens near the mark are judged as the rule judges them",
            "off-by-one errors hide right beside the mark",
            "one machine and shard, 200 seeded tokens (epoch -1..+2, sequence -3..+4 around the mark, not below 0): \
             accepted iff first or strictly greater than all before, else FAILED_PRECONDITION",
        ],
        |cx| Box::pin(b312(cx)),
    ),
];

async fn b211(cx: &Context) -> Outcome {
    for (epoch, sequence) in [(-1, 1), (1, -1), (-7, -3)] {
        let (id, shard) = (cx.machine()?, cx.shard());
        let answer = cx.create(&id, &shard.at(epoch, sequence)).await;
        if answer.is_ok() {
            cx.reach(&id, S::Idle).await?;
            continue;
        }
        let what = format!("a Create with ({epoch}, {sequence}), where it is not taken,");
        refused_with(&answer, Code::InvalidArgument, &what)?;
        cx.stays(&id, S::Speculative, Duration::from_millis(250)).await?;
    }
    Ok(())
}

async fn b212(cx: &Context) -> Outcome {
    let (id, shard) = (cx.idle().await?, cx.shard());
    let greatest = shard.at(i64::MAX, i64::MAX);
    let answer = cx.configure(&id, &Binding::to("c"), &greatest).await;
    operation(answer, "Configure with (max, max)")?;
    let machine = cx.reach_within(&id, S::Configured, Duration::from_secs(20)).await?;
    ensure_eq!("cluster", machine.cluster, "c");
    fenced(&cx.create(&id, &greatest).await, "Create with (max, max) again")?;
    let below = shard.at(i64::MAX - 1, i64::MAX);
    fenced(&cx.create(&id, &below).await, "Create with (max-1, max)")
}

/// One fenced Create: no error, or fenced.
pub(super) async fn judge(cx: &Context, id: &str, shard: &Shard, at: (i64, i64), accepted: bool) -> Outcome {
    let answer = cx.create(id, &shard.at(at.0, at.1)).await;
    let what = format!("Create with {at:?}");
    if accepted {
        success(answer, &what).map(drop)
    } else {
        fenced(&answer, &what)
    }
}

async fn b303(cx: &Context) -> Outcome {
    let (id, shard) = (cx.machine()?, cx.shard());
    let line = [
        (2, 5, true),
        (2, 5, false),
        (2, 4, false),
        (1, 9, false),
        (1, 99_999, false),
        (2, 6, true),
        (2, 6, false),
        (2, 5, false),
        (3, 0, true),
        (3, 0, false),
        (2, 999_999, false),
        (3, 1, true),
        (4, 0, true),
        (4, 0, false),
        (10, 7, true),
        (10, 7, false),
        (9, 999, false),
    ];
    for (epoch, sequence, accepted) in line {
        judge(cx, &id, &shard, (epoch, sequence), accepted).await?;
    }
    Ok(())
}

async fn b309(cx: &Context) -> Outcome {
    let (id, shard) = (cx.machine()?, cx.shard());
    operation(cx.create(&id, &shard.at(1, 1)).await, "Create with (1, 1)")?;
    cx.reach(&id, S::Idle).await?;
    let mut sequence = 1;
    for _ in 0..2 {
        sequence += 1;
        let answer = cx.configure(&id, &Binding::to("c"), &shard.at(1, sequence)).await;
        operation(answer, &format!("Configure with (1, {sequence})"))?;
        cx.reach(&id, S::Configured).await?;
        sequence += 1;
        let answer = cx.drain(&id, 5, &shard.at(1, sequence)).await;
        operation(answer, &format!("Drain with (1, {sequence})"))?;
        cx.reach(&id, S::Idle).await?;
    }
    let answer = cx.configure(&id, &Binding::to("c"), &shard.at(1, 1)).await;
    fenced(&answer, "Configure with (1, 1)")
}

async fn b312(cx: &Context) -> Outcome {
    let (id, shard, mut random) = (cx.machine()?, cx.shard(), cx.random());
    let mut mark: Option<(i64, i64)> = None;
    for _ in 0..200 {
        let (epoch, sequence) = mark.unwrap_or_else(|| (random.within(0, 3), random.within(0, 3)));
        let at = (
            (epoch + random.within(-1, 2)).max(0),
            (sequence + random.within(-3, 4)).max(0),
        );
        let accepted = mark.is_none_or(|mark| at > mark);
        judge(cx, &id, &shard, at, accepted).await?;
        if accepted {
            mark = Some(at);
        }
    }
    Ok(())
}
