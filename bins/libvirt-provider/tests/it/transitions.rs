//! TM: calls out of place, unknown machines, and extreme arguments (contract §3).

use std::time::Duration;

use bigfleet_proto::MachineState as S;
use tonic::Code;

use crate::harness::{
    Binding, HOLD, Launch, Metadata, Shard, Token, expect_fenced, expect_ok, expect_refused, expect_status, operation,
};

fn free() -> Token {
    Token::unfenced()
}

/// B201.
#[tokio::test]
async fn b201_create_of_a_configured_machine_is_refused_and_changes_nothing() {
    let provider = Launch::new().start().await;
    let id = provider.configured(&Binding::to("c")).await;
    expect_refused(&provider.create(&id, &free()).await);
    provider.stays(&id, S::Configured, HOLD).await;
    assert_eq!(provider.get(&id).await.cluster, "c");
}

/// B202.
#[tokio::test]
async fn b202_configure_of_a_speculative_machine_is_refused_and_leaks_nothing() {
    let provider = Launch::new().start().await;
    let id = provider.pick_one().await;
    let before = provider.get(&id).await;
    let answer = provider.configure(&id, &Binding::to("c").with("k", "v"), &free()).await;
    expect_refused(&answer);
    provider.stays(&id, S::Speculative, HOLD).await;
    assert_eq!(provider.get(&id).await, before);
}

/// B203.
#[tokio::test]
async fn b203_drain_of_an_idle_machine_changes_nothing() {
    let provider = Launch::new().start().await;
    let id = provider.idle().await;
    expect_refused(&provider.drain(&id, 5, &free()).await);
    provider.stays(&id, S::Idle, HOLD).await;
}

/// B204.
#[tokio::test]
async fn b204_delete_of_a_speculative_or_configured_machine_changes_nothing() {
    let provider = Launch::new().start().await;
    let [speculative] = provider.pick().await;
    expect_refused(&provider.delete(&speculative, &free()).await);
    provider.stays(&speculative, S::Speculative, HOLD).await;
    let configured = provider.configured(&Binding::to("c")).await;
    expect_refused(&provider.delete(&configured, &free()).await);
    provider.stays(&configured, S::Configured, HOLD).await;
}

/// B205.
#[tokio::test]
async fn b205_a_replay_at_the_target_shows_the_target_and_starts_nothing() {
    let provider = Launch::new().start().await;
    let binding = Binding::to("c").with("k", "v");
    let id = provider.configured(&binding).await;
    let ack = expect_ok(provider.configure(&id, &binding, &free()).await);
    assert_eq!(ack.machine.unwrap().state(), S::Configured);
    provider.never(&id, &[S::Configuring, S::Draining], 2 * HOLD).await;

    let idle = provider.idle().await;
    let ack = expect_ok(provider.create(&idle, &free()).await);
    assert_eq!(ack.machine.unwrap().state(), S::Idle);
    provider.never(&idle, &[S::Creating], HOLD).await;
    assert_eq!(provider.state(&idle).await, S::Idle);
}

/// B206.
#[tokio::test]
async fn b206_a_replay_has_the_operation_id_of_the_first_call() {
    let provider = Launch::new().start().await;
    let id = provider.pick_one().await;
    let create = operation(provider.create(&id, &free()).await);
    provider.reach(&id, S::Idle).await;
    assert_eq!(operation(provider.create(&id, &free()).await), create);

    let binding = Binding::to("c");
    let configure = provider.bind(&id, &binding).await;
    assert_ne!(configure, create);
    assert_eq!(operation(provider.configure(&id, &binding, &free()).await), configure);
}

/// B207.
#[tokio::test]
async fn b207_an_unknown_machine_is_not_found_and_not_made() {
    let provider = Launch::new().start().await;
    let id = "nobody-4711";
    expect_status(&provider.create(id, &free()).await, Code::NotFound);
    expect_status(
        &provider.configure(id, &Binding::to("c"), &free()).await,
        Code::NotFound,
    );
    expect_status(&provider.drain(id, 5, &free()).await, Code::NotFound);
    expect_status(&provider.try_get(id).await, Code::NotFound);
    assert!(!provider.fleet().await.contains_key(id));
}

/// B208.
#[tokio::test]
async fn b208_an_empty_machine_id_is_an_invalid_argument() {
    let provider = Launch::new().start().await;
    expect_status(&provider.try_get("").await, Code::InvalidArgument);
    expect_status(&provider.create("", &free()).await, Code::InvalidArgument);
    expect_status(
        &provider.configure("", &Binding::to("c"), &free()).await,
        Code::InvalidArgument,
    );
    expect_status(&provider.drain("", 5, &free()).await, Code::InvalidArgument);
    expect_status(&provider.delete("", &free()).await, Code::InvalidArgument);
}

/// B209: half a mebibyte of metadata is kept whole.
#[tokio::test]
async fn b209_512_keys_of_1_kib_come_back_verbatim() {
    let provider = Launch::new().start().await;
    let metadata: Metadata = (0..512).map(|n| (format!("key-{n:04}"), "x".repeat(1024))).collect();
    let id = provider.configured(&Binding::to("c").metadata(metadata.clone())).await;
    assert_eq!(provider.get(&id).await.shard_metadata, metadata);
}

/// B210, and this provider's choice of the two allowed: refused, unchanged.
#[tokio::test]
async fn b210_a_negative_grace_period_is_an_invalid_argument() {
    let provider = Launch::new().start().await;
    let id = provider.configured(&Binding::to("c").with("k", "v")).await;
    let before = provider.get(&id).await;
    expect_status(&provider.drain(&id, -5, &free()).await, Code::InvalidArgument);
    expect_status(&provider.drain(&id, i64::MIN, &free()).await, Code::InvalidArgument);
    provider.stays(&id, S::Configured, HOLD).await;
    assert_eq!(provider.get(&id).await, before);
}

/// B211, as trap 2 demands: negative numbers are numbers.
#[tokio::test]
async fn b211_negative_tokens_are_compared_as_signed_numbers() {
    let provider = Launch::new().start().await;
    for (epoch, sequence) in [(-1, 1), (1, -1), (-7, -3)] {
        let id = provider.pick_one().await;
        let shard = Shard::new(format!("negative-{epoch}-{sequence}"));
        operation(provider.create(&id, &shard.at(epoch, sequence)).await);
        provider.reach(&id, S::Idle).await;
        expect_fenced(&provider.create(&id, &shard.at(epoch, sequence)).await);
        expect_fenced(&provider.create(&id, &shard.at(epoch, sequence - 1)).await);
        operation(provider.create(&id, &shard.at(epoch + 1, i64::MIN)).await);
    }
}

/// B212.
#[tokio::test]
async fn b212_the_greatest_token_is_a_mark_like_any_other() {
    let provider = Launch::new().start().await;
    let id = provider.idle().await;
    let shard = Shard::new("max");
    let greatest = shard.at(i64::MAX, i64::MAX);
    operation(provider.configure(&id, &Binding::to("c"), &greatest).await);
    assert_eq!(provider.reach(&id, S::Configured).await.cluster, "c");
    expect_fenced(&provider.create(&id, &greatest).await);
    expect_fenced(&provider.create(&id, &shard.at(i64::MAX - 1, i64::MAX)).await);
}

/// B213.
#[tokio::test]
async fn b213_a_blob_of_3_mib_is_taken() {
    let provider = Launch::new().start().await;
    let binding = Binding::to("c").with("k", "v").blob(vec![0xa5; 3 << 20]);
    let id = provider.configured(&binding).await;
    assert_eq!(provider.get(&id).await.cluster, "c");
}

/// B214.
#[tokio::test]
async fn b214_every_transition_of_a_machine_has_its_own_operation_id() {
    let provider = Launch::new().start().await;
    let id = provider.pick_one().await;
    let mut ids = vec![operation(provider.create(&id, &free()).await)];
    provider.reach(&id, S::Idle).await;
    ids.push(provider.bind(&id, &Binding::to("one")).await);
    ids.push(provider.release(&id, 0).await);
    ids.push(provider.bind(&id, &Binding::to("two").with("k", "v")).await);
    ids.push(provider.release(&id, 0).await);
    assert_eq!(operation(provider.drain(&id, 0, &free()).await), ids[4]);
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), 5, "{ids:?}");

    let gone = provider.give_back(&id).await;
    let again = operation(provider.create(&id, &free()).await);
    assert!(!ids.contains(&gone) && !ids.contains(&again) && gone != again);
}

/// B215.
#[tokio::test]
async fn b215_get_and_delete_of_an_unknown_machine_are_not_found() {
    let provider = Launch::new().start().await;
    expect_status(&provider.try_get("nobody").await, Code::NotFound);
    expect_status(&provider.delete("nobody", &free()).await, Code::NotFound);
}

/// §3, row 6: whoever reads the answer knows what was wrong and what would be right.
#[tokio::test]
async fn a_call_out_of_place_names_the_machine_its_state_and_what_would_be_legal() {
    let provider = Launch::new().start().await;
    let id = provider.configured(&Binding::to("c")).await;
    let create = expect_refused(&provider.create(&id, &free()).await);
    let delete = expect_refused(&provider.delete(&id, &free()).await);
    for status in [create, delete] {
        let message = status.message();
        assert!(message.contains(&id), "{message:?} names no machine");
        assert!(message.contains("CONFIGURED"), "{message:?} names no state");
    }
    let configure = provider
        .configure(&provider.pick_one().await, &Binding::to("c"), &free())
        .await;
    let message = expect_refused(&configure).message().to_owned();
    assert!(
        message.contains("SPECULATIVE") && message.contains("IDLE"),
        "{message:?}"
    );
}

/// §3: while one transition runs every other call is out of place, and the running one is not disturbed.
#[tokio::test]
async fn calls_into_a_running_transition_are_refused_or_replayed() {
    let provider = Launch::new().delay(Duration::from_secs(1)).start().await;
    let id = provider.pick_one().await;
    let create = operation(provider.create(&id, &free()).await);
    expect_refused(&provider.configure(&id, &Binding::to("c"), &free()).await);
    expect_refused(&provider.drain(&id, 0, &free()).await);
    expect_refused(&provider.delete(&id, &free()).await);
    let ack = expect_ok(provider.create(&id, &free()).await);
    assert_eq!((ack.operation_id, ack.machine.unwrap().state()), (create, S::Creating));
    let idle = provider.reach(&id, S::Idle).await;
    assert_eq!(idle.cluster, "");
}
