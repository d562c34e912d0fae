//! FE: fencing (contract §4).

use bigfleet_proto::MachineState as S;
use tonic::Code;

use crate::harness::{Binding, Launch, Provider, Random, Shard, Token, expect_fenced, expect_status, only, operation};

/// Checks one Create against what it must do.
#[track_caller]
fn verdict(accepted: bool, answer: &Result<bigfleet_proto::TransitionAck, tonic::Status>, at: (i64, i64)) {
    match answer {
        Ok(_) => assert!(accepted, "{at:?} was accepted"),
        Err(status) => {
            assert!(!accepted, "{at:?} was refused: {status:?}");
            assert_eq!(status.code(), Code::FailedPrecondition, "{at:?}: {status:?}");
        }
    }
}

/// B301.
#[tokio::test]
async fn b301_machines_that_do_not_exist_have_marks() {
    let provider = Launch::new().start().await;
    let (id, shard) = ("ghost-b301", Shard::new("ghost-shard"));
    expect_status(&provider.create(id, &shard.at(5, 5)).await, Code::NotFound);
    let stale = shard.at(1, 1);
    expect_fenced(&provider.create(id, &stale).await);
    expect_fenced(&provider.configure(id, &Binding::to("c"), &stale).await);
    expect_fenced(&provider.drain(id, 5, &stale).await);
    expect_fenced(&provider.delete(id, &stale).await);
    expect_status(&provider.create(id, &shard.at(9, 9)).await, Code::NotFound);
}

/// B302, picked as the unmodified suite picks (trap 1): three capped lists without a mutation in between must not
/// all name the same machine first.
#[tokio::test]
async fn b302_machines_have_independent_fence_marks() {
    let provider = Launch::new().start().await;
    let a = provider.pick_one().await;
    let b = provider.pick_one().await;
    let c = provider.pick_one().await;
    assert!(a != b && b != c && a != c, "the same pick twice: {a}, {b}, {c}");
    let [sa, sb, sc, sd] = ["a", "b", "c", "d"].map(Shard::new);

    operation(provider.create(&a, &sa.at(9, 9)).await);
    operation(provider.create(&b, &sb.at(7, 3)).await);
    operation(provider.create(&c, &sc.at(1, 1)).await);
    expect_fenced(&provider.create(&a, &sa.at(1, 1)).await);
    expect_fenced(&provider.create(&b, &sb.at(7, 3)).await);
    expect_fenced(&provider.create(&c, &sc.at(1, 1)).await);
    operation(provider.create(&b, &sb.at(7, 4)).await);

    operation(provider.create(&a, &sd.at(5, 30)).await);
    operation(provider.create(&b, &sd.at(5, 7)).await);
    expect_fenced(&provider.create(&b, &sd.at(5, 7)).await);
    expect_fenced(&provider.create(&a, &sd.at(5, 30)).await);
    expect_fenced(&provider.create(&b, &sd.at(4, 999)).await);
}

/// B303.
#[tokio::test]
async fn b303_tokens_are_ordered_by_epoch_then_sequence() {
    let provider = Launch::new().start().await;
    let (id, shard) = (provider.pick_one().await, Shard::new("order"));
    let sequence = [
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
    for (epoch, number, accepted) in sequence {
        let answer = provider.create(&id, &shard.at(epoch, number)).await;
        verdict(accepted, &answer, (epoch, number));
    }
}

/// B305.
#[tokio::test]
async fn b305_reads_are_never_fenced() {
    let provider = Launch::new().start().await;
    let (id, shard) = (provider.pick_one().await, Shard::new("reader"));
    operation(provider.create(&id, &shard.at(7, 7)).await);
    provider.reach(&id, S::Idle).await;
    for number in 0..4 {
        expect_fenced(&provider.create(&id, &shard.at(1, number)).await);
        assert_eq!(provider.get(&id).await.id, id);
        assert!(!provider.fleet().await.is_empty());
        assert!(!provider.list(only(&[S::Idle])).await.machines.is_empty());
    }
    assert_eq!(provider.state(&id).await, S::Idle);
}

/// B306.
#[tokio::test]
async fn b306_a_stale_configure_is_fenced_before_it_is_a_replay() {
    let provider = Launch::new().start().await;
    let (id, shard, binding) = (provider.idle().await, Shard::new("s"), Binding::to("c"));
    let first = operation(provider.configure(&id, &binding, &shard.at(5, 5)).await);
    provider.reach(&id, S::Configured).await;
    expect_fenced(&provider.configure(&id, &binding, &shard.at(1, 1)).await);
    let replay = operation(provider.configure(&id, &binding, &shard.at(5, 6)).await);
    assert_eq!(replay, first);
    assert_eq!(provider.state(&id).await, S::Configured);
}

/// B307.
#[tokio::test]
async fn b307_a_stale_drain_is_fenced_before_it_is_a_replay() {
    let provider = Launch::new().start().await;
    let (id, shard) = (provider.configured(&Binding::to("c")).await, Shard::new("s"));
    let first = operation(provider.drain(&id, 0, &shard.at(5, 5)).await);
    provider.reach(&id, S::Idle).await;
    expect_fenced(&provider.drain(&id, 0, &shard.at(1, 1)).await);
    assert_eq!(operation(provider.drain(&id, 0, &shard.at(5, 6)).await), first);
    assert_eq!(provider.state(&id).await, S::Idle);
}

/// B308.
#[tokio::test]
async fn b308_the_zero_token_is_never_fenced() {
    let provider = Launch::new().start().await;
    let id = provider.idle().await;
    operation(provider.create(&id, &Token::unfenced()).await);
    assert_eq!(provider.state(&id).await, S::Idle);
    provider.idle().await;
}

/// Creates or configures or drains, awaited.
async fn step(provider: &Provider, id: &str, to: S, token: &Token) {
    let answer = match (provider.state(id).await, to) {
        (S::Speculative, S::Idle) => provider.create(id, token).await,
        (S::Idle, S::Configured) => provider.configure(id, &Binding::to("c"), token).await,
        (S::Configured, S::Idle) => provider.drain(id, 0, token).await,
        (S::Idle, S::Speculative) => provider.delete(id, token).await,
        (from, to) => panic!("no step from {from:?} to {to:?}"),
    };
    operation(answer);
    provider.reach(id, to).await;
}

/// B309.
#[tokio::test]
async fn b309_one_shard_leads_a_machine_with_rising_sequence_numbers() {
    let provider = Launch::new().start().await;
    let (id, shard) = (provider.pick_one().await, Shard::new("steady"));
    let life = [S::Idle, S::Configured, S::Idle, S::Configured, S::Idle];
    for (number, state) in (1..).zip(life) {
        step(&provider, &id, state, &shard.at(1, number)).await;
    }
    expect_fenced(&provider.configure(&id, &Binding::to("c"), &shard.at(1, 1)).await);
}

/// B310.
#[tokio::test]
async fn b310_marks_outlive_a_delete() {
    let provider = Launch::new().start().await;
    let (id, shard, binding) = (provider.pick_one().await, Shard::new("s"), Binding::to("c"));
    for (number, state) in (1..).zip([S::Idle, S::Speculative, S::Idle]) {
        step(&provider, &id, state, &shard.at(1, number)).await;
    }
    expect_fenced(&provider.configure(&id, &binding, &shard.at(1, 1)).await);
    expect_fenced(&provider.configure(&id, &binding, &shard.at(1, 3)).await);
    step(&provider, &id, S::Configured, &shard.at(2, 1)).await;
}

/// B311.
#[tokio::test]
async fn b311_a_refused_call_advances_the_mark() {
    let provider = Launch::new().start().await;
    let (id, shard) = (provider.pick_one().await, Shard::new("s"));
    crate::harness::expect_refused(&provider.drain(&id, 5, &shard.at(5, 5)).await);
    expect_fenced(&provider.create(&id, &shard.at(5, 4)).await);
    operation(provider.create(&id, &shard.at(5, 6)).await);
}

/// B312.
#[tokio::test]
async fn b312_200_tokens_near_the_mark_are_judged_by_the_running_maximum() {
    let provider = Launch::new().start().await;
    for seed in 1..=3 {
        let (id, shard) = (provider.pick_one().await, Shard::new(format!("walk-{seed}")));
        let mut random = Random::new(seed);
        let mut mark: Option<(i64, i64)> = None;
        let mut accepts = 0;
        for _ in 0..200 {
            let (epoch, number) = mark.unwrap_or_default();
            let token = (
                (epoch + random.within(-1, 2)).max(0),
                (number + random.within(-3, 4)).max(0),
            );
            let accepted = mark.is_none_or(|mark| token > mark);
            verdict(
                accepted,
                &provider.create(&id, &shard.at(token.0, token.1)).await,
                token,
            );
            if accepted {
                mark = Some(token);
                accepts += 1;
            }
        }
        assert!(
            (50..=190).contains(&accepts),
            "seed {seed} tests little: {accepts} accepts"
        );
    }
}

/// §4: fencing comes first, so a stale caller does not even learn whether the machine exists.
#[tokio::test]
async fn a_stale_token_hears_the_same_for_a_known_and_an_unknown_machine() {
    let provider = Launch::new().start().await;
    let (id, shard) = (provider.pick_one().await, Shard::new("s"));
    expect_status(&provider.delete("ghost", &shard.at(3, 3)).await, Code::NotFound);
    operation(provider.create(&id, &shard.at(3, 3)).await);
    let known = provider.drain(&id, 0, &shard.at(3, 2)).await.unwrap_err();
    let unknown = provider.drain("ghost", 0, &shard.at(3, 2)).await.unwrap_err();
    assert_eq!(known.code(), Code::FailedPrecondition);
    assert_eq!(known.message().replace(&id, "ghost"), unknown.message());
}

/// §4: anybody can invent machines, and must not fill the memory with them; marks that protect something are kept.
#[tokio::test]
async fn marks_of_ghosts_are_bounded_and_those_of_machines_are_not() {
    let directory = tempfile::TempDir::new().unwrap();
    let launch = Launch::on(directory.path().join("state")).flag("--set=transitions.ghost_marks=20");
    let provider = launch.start().await;
    let shard = Shard::new("s");
    let ids: [String; 40] = provider.pick().await;
    for id in &ids {
        crate::harness::expect_refused(&provider.drain(id, 0, &shard.at(5, 5)).await);
    }
    for number in 0..40 {
        let answer = provider.create(&format!("ghost-{number}"), &shard.at(5, 5)).await;
        expect_status(&answer, Code::NotFound);
    }
    let provider = provider.restart().await;
    for id in &ids {
        expect_fenced(&provider.create(id, &shard.at(5, 5)).await);
    }
    for number in 20..40 {
        expect_fenced(&provider.create(&format!("ghost-{number}"), &shard.at(1, 1)).await);
    }
    for number in 0..20 {
        let answer = provider.create(&format!("ghost-{number}"), &shard.at(1, 1)).await;
        expect_status(&answer, Code::NotFound);
    }
}
