//! Transitions that do not end in time, and what becomes of their slots (contract §6, §11.4). The failures that only a
//! backend can cause are tested with the fault provider.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bigfleet_proto::{Machine, MachineState as S};
use tempfile::TempDir;

use crate::{
    fields::assert_sound,
    harness::{
        AWAIT, Binding, HOLD, Launch, Provider, Token, by_id, eventually, expect_refused, only, operation, since,
    },
};

/// Far longer than any time limit here.
const NEVER: Duration = Duration::from_secs(3600);

fn free() -> Token {
    Token::unfenced()
}

/// A provider on which a Configure never ends, with a machine that is IDLE.
async fn stuck(directory: &TempDir, timeout: &str, flags: &[&str]) -> (Provider, String) {
    let mut launch = Launch::on(directory.path().join("state.json")).flag(format!("--configure-timeout={timeout}"));
    for flag in flags {
        launch = launch.flag(*flag);
    }
    let provider = launch.delay(Duration::ZERO).start().await;
    let id = provider.idle().await;
    let provider = provider.kill().delay(NEVER).start().await;
    (provider, id)
}

/// B703, B705, B707: as far as a black box can be brought to it.
#[tokio::test]
async fn a_transition_that_takes_too_long_fails_for_good_and_says_why() {
    let directory = TempDir::new().unwrap();
    let (provider, id) = stuck(&directory, "500ms", &[]).await;
    let binding = Binding::to("c").with("k", "v");
    operation(provider.configure(&id, &binding, &free()).await);
    let failed = provider.reach_within(&id, S::Failed, Duration::from_secs(5)).await;
    assert_sound(&failed);
    assert!(failed.last_error.contains("Configure"), "{:?}", failed.last_error);
    let (host, cluster) = (failed.host.clone(), failed.cluster.clone());
    assert!(host.is_some() && cluster == "c", "{failed:?}");
    expect_refused(&provider.configure(&id, &binding, &free()).await);
    expect_refused(&provider.drain(&id, 0, &free()).await);
    expect_refused(&provider.delete(&id, &free()).await);
    expect_refused(&provider.create(&id, &free()).await);
    let listed = provider.list(only(&[S::Failed])).await.machines;
    assert_eq!(listed, std::slice::from_ref(&failed));
    provider.stays(&id, S::Failed, HOLD).await;
    let provider = provider.restart().await;
    assert_eq!(provider.get(&id).await, failed);
}

/// A deadline is the transition's, not the process's: a provider that is restarted all the time must not be one on
/// which nothing ever ends.
#[tokio::test]
async fn a_restart_does_not_prolong_a_deadline() {
    let directory = TempDir::new().unwrap();
    let (mut provider, id) = stuck(&directory, "3s", &[]).await;
    operation(provider.configure(&id, &Binding::to("c"), &free()).await);
    let accepted = Instant::now();
    while accepted.elapsed() < Duration::from_millis(2000) {
        provider = provider.restart().await;
        assert_eq!(provider.state(&id).await, S::Configuring);
    }
    provider.reach(&id, S::Failed).await;
    let took = accepted.elapsed();
    assert!(took > Duration::from_millis(2500), "failed early, after {took:?}");
    assert!(took < Duration::from_millis(4800), "failed late, after {took:?}");
}

/// The machine that took a failed one's place: everything of it but the id is as the slot was seeded.
fn fresh<'a>(fleet: &'a BTreeMap<String, Machine>, before: &BTreeMap<String, Machine>) -> Option<&'a Machine> {
    let mut new = fleet.values().filter(|machine| !before.contains_key(&machine.id));
    let machine = new.next();
    assert!(new.next().is_none(), "two for one");
    machine
}

/// §11.4: the only shape that every mode of the shard understands.
#[tokio::test]
async fn a_failed_slot_comes_back_under_a_fresh_id_after_a_hold() {
    let directory = TempDir::new().unwrap();
    let hold = "--set=transitions.failed_hold=700ms";
    let (provider, id) = stuck(&directory, "200ms", &[hold]).await;
    let before = provider.fleet().await;
    operation(provider.configure(&id, &Binding::to("c"), &free()).await);
    provider.reach(&id, S::Failed).await;
    let failed = Instant::now();
    let cursor = provider.revision().await;
    eventually("the failed id is gone", AWAIT, async || {
        !provider.fleet().await.contains_key(&id)
    })
    .await;
    assert!(
        failed.elapsed() > Duration::from_millis(500),
        "gone after {:?}",
        failed.elapsed()
    );
    let fleet = provider.fleet().await;
    assert_eq!(fleet.len(), before.len());
    let fresh = fresh(&fleet, &before).expect("nothing took its place").clone();
    assert_sound(&fresh);
    assert_eq!(fresh.state(), S::Speculative);
    let old = &before[&id];
    assert_eq!((&fresh.instance_type, &fresh.zone), (&old.instance_type, &old.zone));
    let delta = by_id(provider.list(since(cursor)).await.machines);
    assert!(delta.contains_key(&fresh.id) && !delta.contains_key(&id), "{delta:?}");

    // And it stays gone, also for the next process, which is told of all slots once more.
    let provider = provider.kill().delay(Duration::ZERO).start().await;
    assert_eq!(provider.fleet().await, fleet);
    operation(provider.create(&fresh.id, &free()).await);
    provider.reach(&fresh.id, S::Idle).await;
}

/// A kill between the failure and the return of the slot.
#[tokio::test]
async fn a_failed_slot_comes_back_after_a_kill_too() {
    let directory = TempDir::new().unwrap();
    let hold = "--set=transitions.failed_hold=700ms";
    let (provider, id) = stuck(&directory, "200ms", &[hold]).await;
    let before = provider.fleet().await;
    operation(provider.configure(&id, &Binding::to("c"), &free()).await);
    provider.reach(&id, S::Failed).await;
    let provider = provider.restart().await;
    eventually("the failed id is gone", AWAIT, async || {
        !provider.fleet().await.contains_key(&id)
    })
    .await;
    let fleet = provider.fleet().await;
    assert_eq!(fleet.len(), before.len());
    assert!(fresh(&fleet, &before).is_some());
    let provider = provider.restart().await;
    assert_eq!(provider.fleet().await, fleet);
}

#[tokio::test]
async fn a_failed_slot_stays_where_that_is_asked_for() {
    let directory = TempDir::new().unwrap();
    let flags = ["--set=transitions.failed_hold=10ms", "--failed-slots=keep"];
    let (provider, id) = stuck(&directory, "100ms", &flags).await;
    operation(provider.configure(&id, &Binding::to("c"), &free()).await);
    provider.reach(&id, S::Failed).await;
    provider.stays(&id, S::Failed, 2 * HOLD).await;
}
