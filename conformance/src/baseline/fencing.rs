//! Fencing.

use bigfleet_proto::ListFilter;

use super::test;
use crate::{
    Context, Outcome,
    behaviour::Behaviour,
    call::Shard,
    expect::{fenced, success},
};

pub(super) const ALL: &[Behaviour] = &[
    test(
        "TestConformance_FencingUnknownShardAccepted",
        [
            "A shard's first token is accepted, and not twice",
            "a provider must not need to know shards before",
            "fenced Create (1,1) OK; again -> FAILED_PRECONDITION",
        ],
        |cx| Box::pin(line(cx, &[(1, 1, true), (1, 1, false)])),
    ),
    test(
        "TestConformance_FencingStaleEpochRejected",
        [
            "A token of an older epoch is fenced",
            "it comes from a shard that was replaced",
            "(2,1) OK; (1,99) -> FAILED_PRECONDITION",
        ],
        |cx| Box::pin(line(cx, &[(2, 1, true), (1, 99, false)])),
    ),
    test(
        "TestConformance_FencingStaleSequenceRejected",
        [
            "A token of an older or equal sequence is fenced",
            "it is an order that was overtaken",
            "(1,5) OK; (1,5) and (1,4) -> FAILED_PRECONDITION",
        ],
        |cx| Box::pin(line(cx, &[(1, 5, true), (1, 5, false), (1, 4, false)])),
    ),
    test(
        "TestConformance_FencingPerMachineIsolation",
        [
            "Machines of one shard have marks of their own",
            "sequences reach machines out of order",
            "two machines: mA (1,30) OK, mB (1,7) OK, mB (1,7), mA (1,30), mB (0,999) -> FAILED_PRECONDITION",
        ],
        |cx| Box::pin(per_machine_isolation(cx)),
    )
    .machines(2),
    test(
        "TestConformance_FencingNewEpochResetsSequence",
        [
            "A new epoch starts its sequence anew",
            "a shard counts from 1 after each start",
            "(1,1000) OK; (2,1) OK",
        ],
        |cx| Box::pin(line(cx, &[(1, 1000, true), (2, 1, true)])),
    ),
    test(
        "TestConformance_FencingReadsUnaffected",
        [
            "Reads are not fenced",
            "whoever lost must still see",
            "(9,9) OK; (1,1) -> FAILED_PRECONDITION; Get and List OK",
        ],
        |cx| Box::pin(reads_unaffected(cx)),
    ),
];

async fn judge(cx: &Context, id: &str, shard: &Shard, (epoch, sequence, accepted): (i64, i64, bool)) -> Outcome {
    let what = format!("Create with ({epoch}, {sequence})");
    let answer = cx.create(id, &shard.at(epoch, sequence)).await;
    if accepted {
        success(answer, &what).map(drop)
    } else {
        fenced(&answer, &what)
    }
}

async fn line(cx: &Context, tokens: &[(i64, i64, bool)]) -> Outcome {
    let (id, shard) = (cx.machine()?, cx.shard());
    for token in tokens {
        judge(cx, &id, &shard, *token).await?;
    }
    Ok(())
}

async fn per_machine_isolation(cx: &Context) -> Outcome {
    let (a, b, shard) = (cx.machine()?, cx.machine()?, cx.shard());
    for (id, token) in [
        (&a, (1, 30, true)),
        (&b, (1, 7, true)),
        (&b, (1, 7, false)),
        (&a, (1, 30, false)),
        (&b, (0, 999, false)),
    ] {
        judge(cx, id, &shard, token).await?;
    }
    Ok(())
}

async fn reads_unaffected(cx: &Context) -> Outcome {
    let (id, shard) = (cx.machine()?, cx.shard());
    judge(cx, &id, &shard, (9, 9, true)).await?;
    judge(cx, &id, &shard, (1, 1, false)).await?;
    cx.get(&id).await?;
    cx.list(ListFilter::default()).await?;
    Ok(())
}
