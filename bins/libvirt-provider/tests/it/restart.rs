//! Transitions that a restart finds half done (contract §6, B1006; architecture §4).

use std::time::Duration;

use bigfleet_proto::MachineState as S;
use tempfile::TempDir;

use crate::{
    fields::assert_sound,
    harness::{AWAIT, Binding, Launch, Provider, Step, Token, host_of, operation, since},
};

/// Long enough that a kill meets the transition, short enough to wait for.
const DELAY: Duration = Duration::from_millis(800);

async fn call(step: Step, provider: &Provider, id: &str) -> String {
    operation(step.call(provider, id, &binding(), &Token::unfenced()).await)
}

fn binding() -> Binding {
    Binding::to("kept").with("k", "v\0").blob("join kept")
}

/// Starts with instant transitions, walks a machine to where the step may begin, then starts again with slow ones and
/// takes the step: answers the provider, the machine and the operation id.
async fn half_done(step: Step, directory: &TempDir, flag: &str) -> (Provider, String, String) {
    let launch = Launch::on(directory.path().join("state.json")).flag(flag);
    let provider = launch.clone().delay(Duration::ZERO).start().await;
    let id = match step {
        Step::Create => provider.pick_one().await,
        Step::Configure | Step::Delete => provider.idle().await,
        Step::Drain => provider.configured(&binding()).await,
    };
    drop(provider);
    let provider = launch.delay(DELAY).start().await;
    let operation_id = call(step, &provider, &id).await;
    assert_eq!(provider.state(&id).await, step.running());
    (provider, id, operation_id)
}

/// Kills in the middle of a step: it must be seen running again, end well, and keep its operation id throughout.
async fn resumes(step: Step) {
    let directory = TempDir::new().unwrap();
    let (provider, id, operation_id) = half_done(step, &directory, "--on-restart=resume").await;
    let before = provider.get(&id).await;
    let provider = provider.restart().await;
    let after = provider.get(&id).await;
    assert_eq!(after, before);
    assert_sound(&after);
    assert_eq!(call(step, &provider, &id).await, operation_id);
    let end = provider.reach(&id, step.target()).await;
    assert_sound(&end);
    assert_eq!(call(step, &provider, &id).await, operation_id);
    let bound = matches!(step, Step::Configure);
    assert_eq!(end.cluster == "kept", bound);
    assert_eq!(end.shard_metadata == binding().metadata, bound);
    let provider = provider.restart().await;
    assert_eq!(provider.get(&id).await, end);
}

#[tokio::test]
async fn a_create_is_driven_on_after_a_kill() {
    resumes(Step::Create).await;
}

#[tokio::test]
async fn a_configure_is_driven_on_after_a_kill() {
    resumes(Step::Configure).await;
}

#[tokio::test]
async fn a_drain_is_driven_on_after_a_kill() {
    resumes(Step::Drain).await;
}

#[tokio::test]
async fn a_delete_is_driven_on_after_a_kill() {
    resumes(Step::Delete).await;
}

/// Being killed again and again must not lose it either.
#[tokio::test]
async fn a_transition_is_driven_on_after_many_kills() {
    let directory = TempDir::new().unwrap();
    let (mut provider, id, operation_id) = half_done(Step::Configure, &directory, "--on-restart=resume").await;
    for _ in 0..4 {
        provider = provider.restart().await;
        assert_eq!(call(Step::Configure, &provider, &id).await, operation_id);
        assert_eq!(provider.state(&id).await, S::Configuring);
    }
    let end = provider.reach(&id, S::Configured).await;
    assert_eq!((end.cluster.as_str(), end.shard_metadata), ("kept", binding().metadata));
}

/// B1006 as it is coded: FAILED with the reason at the first look, and for good.
async fn fails(step: Step) {
    let directory = TempDir::new().unwrap();
    let (provider, id, _) = half_done(step, &directory, "--on-restart=fail").await;
    let before = provider.get(&id).await;
    let cursor = provider.revision().await;
    let provider = provider.restart().await;
    let failed = provider.get(&id).await;
    assert_eq!(failed.state(), S::Failed, "{failed:?}");
    assert!(
        failed.last_error.contains("restart"),
        "{:?} does not say why",
        failed.last_error
    );
    assert_sound(&failed);
    assert_eq!(host_of(&failed), host_of(&before));
    let delta = provider.list(since(cursor)).await.machines;
    assert_eq!(delta, std::slice::from_ref(&failed));
    let provider = provider.restart().await;
    assert_eq!(provider.get(&id).await, failed);
}

#[tokio::test]
async fn b1006_a_create_fails_at_once_where_that_is_asked_for() {
    fails(Step::Create).await;
}

#[tokio::test]
async fn b1006_a_configure_fails_at_once_where_that_is_asked_for() {
    fails(Step::Configure).await;
}

#[tokio::test]
async fn b1006_a_drain_fails_at_once_where_that_is_asked_for() {
    fails(Step::Drain).await;
}

#[tokio::test]
async fn b1006_a_delete_fails_at_once_where_that_is_asked_for() {
    fails(Step::Delete).await;
}

/// A rolling update: nothing that runs is lost, and the process ends by itself and in peace.
#[tokio::test]
async fn sigterm_leaves_a_running_transition_to_the_next_start() {
    let directory = TempDir::new().unwrap();
    let (provider, id, operation_id) = half_done(Step::Configure, &directory, "--on-restart=resume").await;
    let (exit, launch) = provider.terminate().await;
    assert_eq!(exit.code(), Some(0), "{}", exit.output);
    let provider = launch.start().await;
    let machine = provider.get(&id).await;
    assert!(matches!(machine.state(), S::Configuring | S::Configured), "{machine:?}");
    let end = provider.reach_within(&id, S::Configured, AWAIT).await;
    assert_eq!((end.cluster.as_str(), end.shard_metadata), ("kept", binding().metadata));
    assert_eq!(call(Step::Configure, &provider, &id).await, operation_id);
}
