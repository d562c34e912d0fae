//! The upstream baseline (contract §14): lifecycle, idempotency, lists, metadata. Each test has the name of its
//! original, `TestConformance_…`.

use std::time::{Duration, Instant};

use bigfleet_proto::{ListFilter, MachineState as S};
use tonic::Code;

use crate::harness::{Binding, Launch, Token, by_id, capped, expect_refused, expect_status, only, operation};

const SOON: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(30);

fn free() -> Token {
    Token::unfenced()
}

#[tokio::test]
async fn baseline_full_lifecycle() {
    let provider = Launch::new().start().await;
    let began = Instant::now();
    let id = provider.pick_one().await;
    operation(provider.create(&id, &free()).await);
    provider.reach_within(&id, S::Idle, SOON).await;
    operation(provider.configure(&id, &Binding::to("c"), &free()).await);
    provider.reach_within(&id, S::Configured, SOON).await;
    operation(provider.drain(&id, 5, &free()).await);
    provider.reach_within(&id, S::Idle, LONG).await;
    operation(provider.delete(&id, &free()).await);
    provider.reach_within(&id, S::Speculative, SOON).await;
    assert!(began.elapsed() < LONG);
}

#[tokio::test]
async fn baseline_create_idempotent() {
    let provider = Launch::new().start().await;
    let id = provider.pick_one().await;
    let first = operation(provider.create(&id, &free()).await);
    assert_eq!(operation(provider.create(&id, &free()).await), first);
}

#[tokio::test]
async fn baseline_configure_idempotent() {
    let provider = Launch::new().start().await;
    let (id, binding) = (provider.idle().await, Binding::to("c"));
    let first = operation(provider.configure(&id, &binding, &free()).await);
    assert_eq!(operation(provider.configure(&id, &binding, &free()).await), first);
}

#[tokio::test]
async fn baseline_drain_idempotent() {
    let provider = Launch::new().start().await;
    let id = provider.configured(&Binding::to("c")).await;
    let first = operation(provider.drain(&id, 30, &free()).await);
    assert_eq!(operation(provider.drain(&id, 30, &free()).await), first);
}

#[tokio::test]
async fn baseline_delete_idempotent() {
    let provider = Launch::new().start().await;
    let id = provider.idle().await;
    let first = operation(provider.delete(&id, &free()).await);
    assert_eq!(operation(provider.delete(&id, &free()).await), first);
}

#[tokio::test]
async fn baseline_get_unknown_machine() {
    let provider = Launch::new().start().await;
    expect_status(&provider.try_get("does-not-exist").await, Code::NotFound);
}

#[tokio::test]
async fn baseline_delete_unknown_machine() {
    let provider = Launch::new().start().await;
    expect_status(&provider.delete("does-not-exist", &free()).await, Code::NotFound);
}

#[tokio::test]
async fn baseline_list_filters_by_state() {
    let provider = Launch::new().start().await;
    provider.idle().await;
    let idle = provider.list(only(&[S::Idle])).await.machines;
    assert!(!idle.is_empty() && idle.iter().all(|machine| machine.state() == S::Idle));
}

#[tokio::test]
async fn baseline_list_max_results() {
    let provider = Launch::new().start().await;
    assert_eq!(provider.list(capped(1)).await.machines.len(), 1);
}

#[tokio::test]
async fn baseline_label_shape() {
    let provider = Launch::new().start().await;
    for machine in provider.list(ListFilter::default()).await.machines {
        assert!(!machine.instance_type.is_empty() && machine.state() != S::Unspecified);
    }
}

#[tokio::test]
async fn baseline_cost_field_bounds() {
    let provider = Launch::new().start().await;
    for machine in provider.list(ListFilter::default()).await.machines {
        assert!(machine.price_per_hour >= 0.0, "{machine:?}");
        assert!((0.0..=1.0).contains(&machine.interruption_probability), "{machine:?}");
    }
}

#[tokio::test]
async fn baseline_list_revision_advances() {
    let provider = Launch::new().start().await;
    let before = provider.revision().await;
    let id = provider.pick_one().await;
    operation(provider.create(&id, &free()).await);
    provider.reach_within(&id, S::Idle, Duration::from_secs(5)).await;
    assert_ne!(provider.revision().await, before);
}

#[tokio::test]
async fn baseline_drain_on_speculative() {
    let provider = Launch::new().start().await;
    let id = provider.pick_one().await;
    expect_refused(&provider.drain(&id, 5, &free()).await);
}

#[tokio::test]
async fn baseline_transitional_state_observability() {
    let provider = Launch::new().start().await;
    let id = provider.pick_one().await;
    let answer = provider.create(&id, &free()).await;
    for machine in provider.trace(answer, S::Idle).await {
        let legal = [S::Speculative, S::Creating, S::Idle];
        assert!(legal.contains(&machine.state()), "{machine:?}");
    }
}

#[tokio::test]
async fn baseline_drain_grace_timeout() {
    let provider = Launch::new().start().await;
    let id = provider.configured(&Binding::to("c")).await;
    operation(provider.drain(&id, 0, &free()).await);
    provider.reach_within(&id, S::Idle, SOON).await;
}

#[tokio::test]
async fn baseline_delete_on_configured() {
    let provider = Launch::new().start().await;
    let id = provider.configured(&Binding::to("c")).await;
    expect_refused(&provider.delete(&id, &free()).await);
    assert_eq!(provider.state(&id).await, S::Configured);
}

#[tokio::test]
async fn baseline_metadata_echoed_on_get_and_list() {
    let provider = Launch::new().start().await;
    let binding = Binding::to("echo").with("a", "1").with("group", "x\0y").with("c", "3");
    let id = provider.configured(&binding).await;
    let listed = by_id(provider.list(only(&[S::Configured])).await.machines)
        .remove(&id)
        .unwrap();
    for machine in [provider.get(&id).await, listed] {
        assert_eq!(
            (machine.cluster.as_str(), &machine.shard_metadata),
            ("echo", &binding.metadata)
        );
    }
}

#[tokio::test]
async fn baseline_metadata_and_binding_clear_on_drain() {
    let provider = Launch::new().start().await;
    let id = provider.configured(&Binding::to("c").with("k", "v")).await;
    provider.release(&id, 5).await;
    let machine = provider.get(&id).await;
    assert!(
        machine.cluster.is_empty() && machine.shard_metadata.is_empty(),
        "{machine:?}"
    );
}

#[tokio::test]
async fn baseline_metadata_unknown_keys_preserved_verbatim() {
    let provider = Launch::new().start().await;
    let binding = Binding::to("c").with("κλειδί", "τιμή\tκαι tab").with("empty", "");
    let id = provider.configured(&binding).await;
    assert_eq!(provider.get(&id).await.shard_metadata, binding.metadata);
}
