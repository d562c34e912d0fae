//! LC: the life of a machine (contract §2, §7).

use std::time::Duration;

use bigfleet_proto::{Machine, MachineState as S};

use crate::harness::{Binding, HOLD, Launch, Provider, Token, host_of, operation};

/// A provider whose transitions last long enough to be seen.
async fn provider() -> Provider {
    Launch::new().delay(Duration::from_millis(30)).start().await
}

fn states(trace: &[Machine]) -> Vec<S> {
    let mut states: Vec<_> = trace.iter().map(Machine::state).collect();
    states.dedup();
    states
}

#[track_caller]
fn assert_clean(machine: &Machine) {
    assert_eq!(machine.state(), S::Idle, "{machine:?}");
    assert_eq!(machine.cluster, "", "{machine:?}");
    assert!(machine.shard_metadata.is_empty(), "{machine:?}");
    assert_eq!(machine.last_error, "", "{machine:?}");
}

/// B101.
#[tokio::test]
async fn b101_every_cycle_leaves_a_clean_idle_machine() {
    let provider = provider().await;
    let id = provider.idle().await;
    assert_clean(&provider.get(&id).await);
    for cycle in 0..4 {
        let cluster = format!("cluster-{cycle}");
        let binding = Binding::to(&cluster).with("a", "1").with("b", cluster.as_str());
        provider.bind(&id, &binding).await;
        assert_eq!(provider.get(&id).await.cluster, cluster);
        provider.release(&id, 5).await;
        assert_clean(&provider.get(&id).await);
    }
}

/// B103.
#[tokio::test]
async fn b103_configure_passes_through_configuring_only() {
    let provider = provider().await;
    let id = provider.idle().await;
    let answer = provider.configure(&id, &Binding::to("c"), &Token::unfenced()).await;
    let trace = provider.trace(answer, S::Configured).await;
    assert_eq!(states(&trace), [S::Configuring, S::Configured]);
}

/// B104.
#[tokio::test]
async fn b104_drain_passes_through_draining_only() {
    let provider = provider().await;
    let id = provider.configured(&Binding::to("c")).await;
    let answer = provider.drain(&id, 5, &Token::unfenced()).await;
    let trace = provider.trace(answer, S::Idle).await;
    assert_eq!(states(&trace), [S::Draining, S::Idle]);
}

/// B105.
#[tokio::test]
async fn b105_a_whole_life_takes_only_legal_steps() {
    let provider = provider().await;
    let id = provider.pick_one().await;
    let mut seen = vec![provider.state(&id).await];
    let answer = provider.create(&id, &Token::unfenced()).await;
    seen.extend(states(&provider.trace(answer, S::Idle).await));
    let answer = provider.configure(&id, &Binding::to("c"), &Token::unfenced()).await;
    seen.extend(states(&provider.trace(answer, S::Configured).await));
    let answer = provider.drain(&id, 5, &Token::unfenced()).await;
    seen.extend(states(&provider.trace(answer, S::Idle).await));
    seen.dedup();
    let life = [
        S::Speculative,
        S::Creating,
        S::Idle,
        S::Configuring,
        S::Configured,
        S::Draining,
        S::Idle,
    ];
    assert_eq!(seen, life);
}

/// B106.
#[tokio::test]
async fn b106_the_cluster_is_there_from_configuring_until_the_drain_is_done() {
    let provider = provider().await;
    let id = provider.idle().await;
    assert_eq!(provider.get(&id).await.cluster, "");
    let answer = provider.configure(&id, &Binding::to("blue"), &Token::unfenced()).await;
    for machine in provider.trace(answer, S::Configured).await {
        assert_eq!(machine.cluster, "blue", "{machine:?}");
    }
    let answer = provider.drain(&id, 5, &Token::unfenced()).await;
    let mut trace = provider.trace(answer, S::Idle).await;
    assert_eq!(trace.pop().unwrap().cluster, "");
    for machine in trace {
        assert_eq!(machine.cluster, "blue", "{machine:?}");
    }
}

/// B107.
#[tokio::test]
async fn b107_a_machine_has_a_host_from_idle_on() {
    let provider = provider().await;
    let id = provider.pick_one().await;
    let seed = provider.get(&id).await;
    assert_eq!(seed.state(), S::Speculative);
    assert!(seed.host.is_none(), "{seed:?}");
    operation(provider.create(&id, &Token::unfenced()).await);
    let idle = provider.reach(&id, S::Idle).await;
    assert!(host_of(&idle).is_some(), "{idle:?}");
    provider.bind(&id, &Binding::to("c")).await;
    assert!(host_of(&provider.get(&id).await).is_some());
    provider.release(&id, 0).await;
    assert!(host_of(&provider.get(&id).await).is_some());
}

/// B108.
#[tokio::test]
async fn b108_a_stable_machine_moves_only_when_told() {
    let provider = provider().await;
    let id = provider.configured(&Binding::to("c")).await;
    let transitional = [S::Creating, S::Configuring, S::Draining, S::Deleting];
    let window = Duration::from_millis(300);
    provider.stays(&id, S::Configured, window).await;
    provider.never(&id, &transitional, 4 * window).await;
    provider.release(&id, 0).await;
    provider.stays(&id, S::Idle, window).await;
    provider.never(&id, &transitional, 4 * window).await;
}

/// B109.
#[tokio::test]
async fn b109_delete_passes_through_deleting_and_ends_without_a_host() {
    let provider = provider().await;
    let id = provider.idle().await;
    let answer = provider.delete(&id, &Token::unfenced()).await;
    let trace = provider.trace(answer, S::Speculative).await;
    assert_eq!(states(&trace), [S::Deleting, S::Speculative]);
    for machine in &trace {
        assert_eq!(
            host_of(machine).is_some(),
            machine.state() == S::Deleting,
            "{machine:?}"
        );
    }
}

/// §14b: also with a backend whose work is instant.
#[tokio::test]
async fn an_ack_shows_the_machine_already_in_transition() {
    let provider = Launch::new().delay(Duration::ZERO).start().await;
    let id = provider.pick_one().await;
    let ack = provider.create(&id, &Token::unfenced()).await.unwrap();
    let machine = ack.machine.unwrap();
    assert_eq!((machine.state(), machine.host), (S::Creating, None));
    provider.reach(&id, S::Idle).await;

    let binding = Binding::to("c").with("k", "v");
    let machine = provider
        .configure(&id, &binding, &Token::unfenced())
        .await
        .unwrap()
        .machine
        .unwrap();
    assert_eq!(machine.state(), S::Configuring);
    assert_eq!(
        (machine.cluster.as_str(), &machine.shard_metadata),
        ("c", &binding.metadata)
    );
    provider.reach(&id, S::Configured).await;

    let machine = provider
        .drain(&id, 0, &Token::unfenced())
        .await
        .unwrap()
        .machine
        .unwrap();
    assert_eq!((machine.state(), machine.cluster.as_str()), (S::Draining, "c"));
    provider.reach(&id, S::Idle).await;

    let machine = provider.delete(&id, &Token::unfenced()).await.unwrap().machine.unwrap();
    assert_eq!(machine.state(), S::Deleting);
    assert!(host_of(&machine).is_some(), "{machine:?}");
}

/// §6: the transition belongs to the provider, not to the call that asked for it.
#[tokio::test]
async fn a_transition_goes_on_when_the_caller_hangs_up() {
    let provider = provider().await;
    let id = provider.pick_one().await;
    let caller = provider.connect().await;
    operation(caller.create(&id, &Token::unfenced()).await);
    drop(caller);
    provider.reach(&id, S::Idle).await;
    provider.stays(&id, S::Idle, HOLD).await;
}
