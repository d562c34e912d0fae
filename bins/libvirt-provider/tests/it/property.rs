//! PF: random calls against an oracle (contract §13, B12xx).

use std::{collections::BTreeMap, time::Duration};

use bigfleet_proto::MachineState as S;
use tonic::Code;

use crate::harness::{
    AWAIT, Binding, Launch, Metadata, Provider, Random, Shard, Token, by_id, eventually, expect_refused, expect_status,
    only, operation,
};

/// How long a state is watched after a random call (contract §13, B1203).
const GLANCE: Duration = Duration::from_millis(80);

/// Checks one fenced Create against the mark; answers the new mark.
async fn judge(provider: &Provider, id: &str, token: &Token, mark: Option<(i64, i64)>) -> Option<(i64, i64)> {
    let answer = provider.create(id, token).await;
    if mark.is_none_or(|mark| token.position() > mark) {
        operation(answer);
        Some(token.position())
    } else {
        expect_status(&answer, Code::FailedPrecondition);
        mark
    }
}

/// The shapes of B1201: replays, neighbours, epochs up and down, far points; negatives occur.
fn near(random: &mut Random, (epoch, sequence): (i64, i64)) -> (i64, i64) {
    match random.below(6) {
        0 => (epoch, sequence),
        1 => (epoch, sequence + random.within(-2, 2)),
        2 => (epoch + random.within(-1, 1), sequence),
        3 => (epoch + 1, random.within(-3, 3)),
        4 => (random.within(-9, 9), random.within(-99, 99)),
        _ => (epoch, sequence + 1),
    }
}

/// B1201.
#[tokio::test]
async fn b1201_240_tokens_are_judged_as_the_oracle_judges_them() {
    let provider = Launch::new().start().await;
    for seed in 1..=3 {
        let (id, shard) = (provider.pick_one().await, Shard::new(format!("oracle-{seed}")));
        let (mut random, mut mark) = (Random::new(seed), None);
        for _ in 0..240 {
            let (epoch, sequence) = near(&mut random, mark.unwrap_or((-2, -2)));
            mark = judge(&provider, &id, &shard.at(epoch, sequence), mark).await;
        }
    }
}

/// B1202.
#[tokio::test]
async fn b1202_random_metadata_comes_back_verbatim_and_goes_with_the_drain() {
    let provider = Launch::new().start().await;
    let (id, mut random) = (provider.idle().await, Random::new(2));
    for round in 0..20 {
        let mut metadata = Metadata::new();
        for _ in 0..random.below(12) {
            let (key, value) = (random.below(12) + 1, random.below(24));
            metadata.insert(random.text(key), random.text(value));
        }
        let binding = Binding::to(format!("cluster-{round}")).metadata(metadata);
        provider.bind(&id, &binding).await;
        let listed = by_id(provider.list(only(&[S::Configured])).await.machines)
            .remove(&id)
            .unwrap();
        for machine in [provider.get(&id).await, listed] {
            assert_eq!(
                (&machine.cluster, &machine.shard_metadata),
                (&binding.cluster, &binding.metadata)
            );
        }
        provider.release(&id, 0).await;
        let machine = provider.get(&id).await;
        assert!(
            machine.cluster.is_empty() && machine.shard_metadata.is_empty(),
            "{machine:?}"
        );
    }
}

/// B1203.
#[tokio::test]
async fn b1203_random_calls_move_a_machine_along_legal_edges_only() {
    let provider = Launch::new().start().await;
    let ids: [String; 5] = provider.pick().await;
    let mut random = Random::new(3);
    for id in &ids {
        for _ in 0..9 {
            let from = provider.state(id).await;
            let (start, target, answer) = match random.below(4) {
                0 => (S::Speculative, S::Idle, provider.create(id, &Token::unfenced()).await),
                1 => {
                    let answer = provider.configure(id, &Binding::to("c"), &Token::unfenced()).await;
                    (S::Idle, S::Configured, answer)
                }
                2 => (S::Configured, S::Idle, provider.drain(id, 0, &Token::unfenced()).await),
                _ => (S::Idle, S::Speculative, provider.delete(id, &Token::unfenced()).await),
            };
            if from == start {
                operation(answer);
                provider.reach(id, target).await;
            } else if from == target && answer.is_ok() {
                operation(answer);
                provider.stays(id, from, GLANCE).await;
            } else {
                expect_refused(&answer);
                provider.stays(id, from, GLANCE).await;
            }
        }
    }
}

/// B1204.
#[tokio::test]
async fn b1204_marks_of_shards_and_machines_never_mix() {
    let provider = Launch::new().start().await;
    let ids: [String; 4] = provider.pick().await;
    let shards = ["one", "two", "three"].map(Shard::new);
    let mut marks = BTreeMap::new();
    let mut random = Random::new(4);
    for _ in 0..200 {
        let (machine, shard) = (random.below(ids.len()), random.below(shards.len()));
        let mark = marks.get(&(machine, shard)).copied();
        let (epoch, sequence) = near(&mut random, mark.unwrap_or_default());
        let token = shards[shard].at(epoch, sequence);
        if let Some(mark) = judge(&provider, &ids[machine], &token, mark).await {
            marks.insert((machine, shard), mark);
        }
    }
    operation(provider.create(&ids[0], &Shard::new("newcomer").at(1, 1)).await);
}

/// B1205: the codes of nonsense.
#[tokio::test]
async fn b1205_nonsense_never_looks_like_fencing() {
    let provider = Launch::new().start().await;
    let (free, binding, mut random) = (Token::unfenced(), Binding::to("c"), Random::new(5));
    for _ in 0..4 {
        expect_status(&provider.create("", &free).await, Code::InvalidArgument);
        expect_status(&provider.configure("", &binding, &free).await, Code::InvalidArgument);
        expect_status(&provider.drain("", 5, &free).await, Code::InvalidArgument);
        expect_status(&provider.try_get("").await, Code::InvalidArgument);

        let unknown = format!("unknown-{:x}", random.next());
        expect_status(&provider.try_get(&unknown).await, Code::NotFound);
        expect_status(&provider.create(&unknown, &free).await, Code::NotFound);
        expect_status(&provider.configure(&unknown, &binding, &free).await, Code::NotFound);
        expect_status(&provider.drain(&unknown, 5, &free).await, Code::NotFound);
        let huge = Shard::new("huge").at(i64::MAX - random.within(0, 99), i64::MAX - random.within(0, 99));
        expect_status(&provider.create(&unknown, &huge).await, Code::NotFound);
    }
}

/// B1205: large and odd arguments.
#[tokio::test]
async fn b1205_large_arguments_are_taken_whole() {
    let provider = Launch::new().start().await;
    let mut random = Random::new(6);
    let id = provider.configured(&Binding::to("c")).await;
    let grace = -random.within(1 << 40, i64::MAX);
    expect_status(
        &provider.drain(&id, grace, &Token::unfenced()).await,
        Code::InvalidArgument,
    );

    let keys = 400 + random.below(400);
    let metadata: Metadata = (0..keys)
        .map(|n| (format!("{n}-{}", random.text(6)), random.text(9)))
        .collect();
    let id = provider.configured(&Binding::to("c").metadata(metadata.clone())).await;
    assert_eq!(provider.get(&id).await.shard_metadata, metadata);

    let len = (64 << 10) + random.below(64 << 10);
    provider.configured(&Binding::to("c").blob(random.bytes(len))).await;

    let token = Shard::new("real").at(1, random.within(1, i64::MAX));
    operation(provider.create(&provider.pick_one().await, &token).await);
}

/// §4 by the oracle, over kills: what one process accepted the next one knows.
#[tokio::test]
async fn the_oracle_holds_over_restarts() {
    let directory = tempfile::TempDir::new().unwrap();
    let mut provider = Launch::on(directory.path().join("state")).start().await;
    let (id, shard) = (provider.idle().await, Shard::new("s"));
    let (mut random, mut mark) = (Random::new(7), None);
    for _ in 0..5 {
        for _ in 0..40 {
            let (epoch, sequence) = near(&mut random, mark.unwrap_or_default());
            mark = judge(&provider, &id, &shard.at(epoch, sequence), mark).await;
        }
        provider = provider.restart().await;
    }
    eventually("a settled machine", AWAIT, async || {
        provider.state(&id).await == S::Idle
    })
    .await;
}
