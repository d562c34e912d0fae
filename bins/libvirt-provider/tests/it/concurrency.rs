//! CI: races and idempotency under them (contract §4, §5).

use std::{collections::BTreeSet, time::Duration};

use bigfleet_proto::{MachineState as S, TransitionAck};
use tokio::task::JoinSet;
use tonic::{Code, Status};

use crate::harness::{
    AWAIT, Binding, Client, Launch, Shard, Token, eventually, expect_fenced, expect_refused, only, operation,
    single_operation,
};

type Answer = Result<TransitionAck, Status>;

/// The width of a burst (contract §12.5).
const WIDTH: usize = 16;

fn free() -> Token {
    Token::unfenced()
}

/// Makes so many calls at the same time.
async fn burst<F>(width: usize, call: impl Fn(usize) -> F) -> Vec<Answer>
where
    F: Future<Output = Answer> + Send + 'static,
{
    let mut calls = JoinSet::new();
    for number in 0..width {
        calls.spawn(call(number));
    }
    calls.join_all().await
}

/// So many identical Configures at the same time, one connection after the other.
async fn configures(clients: &[Client], id: &str, binding: &Binding) -> Vec<Answer> {
    burst(WIDTH, |number| {
        let client = clients[number % clients.len()].clone();
        let (id, binding) = (id.to_owned(), binding.clone());
        async move { client.configure(&id, &binding, &free()).await }
    })
    .await
}

/// How often the machine is in the list of this state.
async fn listed(client: &Client, id: &str, state: S) -> usize {
    let machines = client.list(only(&[state])).await.machines;
    machines.iter().filter(|machine| machine.id == id).count()
}

/// B401.
#[tokio::test]
async fn b401_racing_creates_are_one_operation() {
    let provider = Launch::new().start().await;
    let id = provider.pick_one().await;
    let answers = burst(WIDTH, |_| {
        let (client, id) = (provider.client(), id.clone());
        async move { client.create(&id, &free()).await }
    })
    .await;
    single_operation(&answers);
    provider.reach(&id, S::Idle).await;
    assert_eq!(listed(&provider, &id, S::Idle).await, 1);
}

/// B402.
#[tokio::test]
async fn b402_racing_configures_are_one_operation() {
    let provider = Launch::new().start().await;
    let (id, binding) = (provider.idle().await, Binding::to("race").with("k", "v"));
    single_operation(&configures(&[provider.client()], &id, &binding).await);
    let machine = provider.reach(&id, S::Configured).await;
    assert_eq!(
        (machine.cluster.as_str(), machine.shard_metadata),
        ("race", binding.metadata)
    );
}

/// B403.
#[tokio::test]
async fn b403_racing_drains_are_one_operation() {
    let provider = Launch::new().start().await;
    let id = provider.configured(&Binding::to("race").with("k", "v")).await;
    let answers = burst(WIDTH, |_| {
        let (client, id) = (provider.client(), id.clone());
        async move { client.drain(&id, 0, &free()).await }
    })
    .await;
    single_operation(&answers);
    let machine = provider.reach(&id, S::Idle).await;
    assert!(
        machine.cluster.is_empty() && machine.shard_metadata.is_empty(),
        "{machine:?}"
    );
}

/// B404, ten times: each round the race may go either way.
#[tokio::test]
async fn b404_a_configure_racing_a_drain_leaves_one_consistent_outcome() {
    let provider = Launch::new().start().await;
    let binding = Binding::to("race");
    for _ in 0..10 {
        let id = provider.configured(&binding).await;
        let (token, client) = (free(), provider.client());
        let (configure, drain) = tokio::join!(client.configure(&id, &binding, &token), provider.drain(&id, 0, &token));
        for answer in [configure, drain] {
            if answer.is_err() {
                expect_refused(&answer);
            }
        }
        eventually("a stable state", AWAIT, async || {
            matches!(provider.state(&id).await, S::Idle | S::Configured)
        })
        .await;
        let rest = provider.get(&id).await;
        provider.stays(&id, rest.state(), Duration::from_millis(50)).await;
        assert_eq!(rest.cluster.is_empty(), rest.state() == S::Idle, "{rest:?}");
    }
}

/// B405.
#[tokio::test]
async fn b405_racing_tokens_are_judged_as_if_one_after_the_other() {
    let provider = Launch::new().start().await;
    let (id, shard) = (provider.pick_one().await, Shard::new("race"));
    operation(provider.create(&id, &shard.at(1, 1000)).await);
    provider.reach(&id, S::Idle).await;
    let answers = burst(24, |number| {
        let number = i64::try_from(number).unwrap();
        let token = if number < 12 {
            shard.at(1, number)
        } else {
            shard.at(2, 88 + number)
        };
        let (client, id) = (provider.client(), id.clone());
        async move {
            let answer = client.create(&id, &token).await;
            match (&answer, token.epoch) {
                (Ok(_), 1) => panic!("{token:?} was accepted"),
                (Err(status), _) => assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}"),
                (Ok(_), _) => {}
            }
            answer
        }
    })
    .await;
    let accepted = answers.iter().filter(|answer| answer.is_ok()).count();
    assert!((1..=12).contains(&accepted), "{accepted} accepted");
    expect_fenced(&provider.create(&id, &shard.at(1, 9)).await);
    expect_fenced(&provider.create(&id, &shard.at(2, 111)).await);
    operation(provider.create(&id, &shard.at(2, 9999)).await);
}

/// B406.
#[tokio::test]
async fn b406_connections_share_one_operation() {
    let provider = Launch::new().start().await;
    let (id, binding) = (provider.idle().await, Binding::to("race").with("k", "v"));
    let clients = [provider.client(), provider.connect().await];
    let first = single_operation(&configures(&clients, &id, &binding).await);
    provider.reach(&id, S::Configured).await;
    assert_eq!(listed(&provider, &id, S::Configured).await, 1);
    for client in &clients {
        assert_eq!(operation(client.configure(&id, &binding, &free()).await), first);
    }
}

/// B407.
#[tokio::test]
async fn b407_machines_never_share_an_operation() {
    let provider = Launch::new().start().await;
    let ids: [String; 8] = provider.pick().await;
    let answers = burst(ids.len(), |number| {
        let (client, id) = (provider.client(), ids[number].clone());
        async move { client.create(&id, &free()).await }
    })
    .await;
    let operations: BTreeSet<_> = answers.into_iter().map(operation).collect();
    assert_eq!(operations.len(), 8);
    for id in &ids {
        let machine = provider.reach_within(id, S::Idle, Duration::from_secs(30)).await;
        assert!(
            machine.cluster.is_empty() && machine.shard_metadata.is_empty(),
            "{machine:?}"
        );
    }
}

/// B408.
#[tokio::test]
async fn b408_every_snapshot_of_a_race_is_of_the_one_transition() {
    let provider = Launch::new().start().await;
    let (id, binding) = (provider.idle().await, Binding::to("race").with("k", "v"));
    let answers = configures(&[provider.client()], &id, &binding).await;
    single_operation(&answers);
    for machine in answers.into_iter().flatten().filter_map(|ack| ack.machine) {
        assert!(matches!(machine.state(), S::Configuring | S::Configured), "{machine:?}");
        assert_eq!(
            (machine.cluster.as_str(), &machine.shard_metadata),
            ("race", &binding.metadata)
        );
    }
    provider.reach(&id, S::Configured).await;
    assert_eq!(listed(&provider, &id, S::Configured).await, 1);
}

/// B409.
#[tokio::test]
async fn b409_racing_deletes_are_one_operation() {
    let provider = Launch::new().start().await;
    let id = provider.idle().await;
    let answers = burst(WIDTH, |_| {
        let (client, id) = (provider.client(), id.clone());
        async move { client.delete(&id, &free()).await }
    })
    .await;
    single_operation(&answers);
    provider.reach(&id, S::Speculative).await;
    assert_eq!(listed(&provider, &id, S::Speculative).await, 1);
}
