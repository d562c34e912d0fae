//! The hosts of `--use-fake-backend`: they outlive the provider and its state, and fail where that is asked for.

use std::{fs, path::Path};

use bigfleet_proto::MachineState as S;
use tempfile::TempDir;

use crate::{
    fields::assert_sound,
    harness::{AWAIT, Binding, Launch, Provider, Token, eventually, host_of, operation},
};

/// Removes what begins with a name in a directory, or all but that.
fn remove(directory: &Path, beginning: &str, those: bool) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with(beginning) == those {
            fs::remove_file(path).unwrap();
        }
    }
}

#[tokio::test]
async fn a_provider_that_lost_its_state_finds_its_machines_on_the_hosts() {
    let directory = TempDir::new().unwrap();
    let provider = Launch::on(directory.path().join("state")).start().await;
    let binding = Binding::to("kept").with("k", "v\0ü");
    let (idle, bound) = (provider.idle().await, provider.configured(&binding).await);
    let before = provider.fleet().await;
    let launch = provider.kill();
    remove(directory.path(), "state.hosts", false);

    let provider = launch.start().await;
    let after = provider.fleet().await;
    assert_eq!(
        (after[&idle].state(), host_of(&after[&idle])),
        (S::Idle, host_of(&before[&idle]))
    );
    let found = &after[&bound];
    assert_eq!(
        (found.state(), host_of(found)),
        (S::Configured, host_of(&before[&bound]))
    );
    assert_eq!(
        (&found.cluster, &found.shard_metadata),
        (&binding.cluster, &binding.metadata)
    );
    provider.release(&bound, 0).await;
    provider.give_back(&bound).await;
}

#[tokio::test]
async fn machines_whose_hosts_were_lost_are_retired() {
    let directory = TempDir::new().unwrap();
    let provider = Launch::on(directory.path().join("state")).start().await;
    let id = provider.configured(&Binding::to("c")).await;
    let launch = provider.kill();
    remove(directory.path(), "state.hosts", true);

    let provider = launch.start().await;
    eventually("another machine in its slot", AWAIT, async || {
        let fleet = provider.fleet().await;
        fleet.len() == 64 && !fleet.contains_key(&id)
    })
    .await;
    assert!(
        provider
            .fleet()
            .await
            .values()
            .all(|machine| machine.state() == S::Speculative)
    );
}

#[tokio::test]
async fn what_another_program_keeps_there_is_left_alone() {
    let directory = TempDir::new().unwrap();
    let state = directory.path().join("state");
    let hosts = directory.path().join("state.hosts");
    fs::write(&hosts, "certainly no database\n".repeat(1000)).unwrap();
    let before = fs::read(&hosts).unwrap();
    let exit = Launch::on(&state).run().await;
    assert!(
        !exit.status.success() && exit.output.contains("state.hosts"),
        "{}",
        exit.output
    );
    assert_eq!(fs::read(&hosts).unwrap(), before);
}

async fn faulty() -> Provider {
    let launch = Launch::new()
        .flag("--set=fake.faults=true")
        .flag("--transition-timeout=2s");
    launch.start().await
}

/// Configures a machine onto a cluster that fails it.
async fn broken(provider: &Provider, cluster: &str) -> String {
    let id = provider.idle().await;
    operation(provider.configure(&id, &Binding::to(cluster), &Token::unfenced()).await);
    let failed = provider.reach(&id, S::Failed).await;
    assert_sound(&failed);
    failed.last_error
}

/// B701, B702, B703, B708.
#[tokio::test]
async fn failures_are_told_in_the_words_of_those_who_failed() {
    let provider = faulty().await;
    let fleet = provider.fleet().await;
    let label = |machine: &bigfleet_proto::Machine| machine.labels.get("conformance.fault/create").cloned();
    let failing: Vec<_> = fleet
        .values()
        .filter(|machine| label(machine).as_deref() == Some("error"))
        .collect();
    assert_eq!((fleet.len(), failing.len()), (64 + 8, 8));
    operation(provider.create(&failing[0].id, &Token::unfenced()).await);
    let error = provider.reach(&failing[0].id, S::Failed).await.last_error;
    assert!(
        error.contains("could not start domain") && error.contains("QEMU ended"),
        "{error}"
    );

    let (failed, stuck, unready) = tokio::join!(
        broken(&provider, "fault-error"),
        broken(&provider, "fault-timeout"),
        broken(&provider, "fault-readiness-block")
    );
    assert!(
        failed.contains("exit code 1") && failed.contains("cannot join"),
        "{failed}"
    );
    assert!(stuck.contains("/opt/bigfleet/bootstrap to end in the guest"), "{stuck}");
    assert!(unready.contains("kubelet is not posting ready"), "{unready}");
}

/// B704, B706: a Drain whose hook fails makes the machine anew.
#[tokio::test]
async fn what_comes_too_late_is_discarded_and_a_failed_drain_leaves_a_clean_machine() {
    let provider = faulty().await;
    let late = broken(&provider, "fault-slow-ok").await;
    assert!(late.contains("deadline"), "{late}");
    let id = provider
        .configured(&Binding::to("fault-drain-error").with("k", "v"))
        .await;
    let host = host_of(&provider.get(&id).await).cloned();
    operation(provider.drain(&id, 0, &Token::unfenced()).await);
    let machine = provider.reach(&id, S::Idle).await;
    assert_sound(&machine);
    assert_eq!((machine.cluster.as_str(), host_of(&machine).cloned()), ("", host));
    assert!(provider.log_text().contains("did not leave its cluster by itself"));
}

/// Nobody gets a fault who did not ask for one.
#[tokio::test]
async fn without_faults_their_names_are_names() {
    let provider = Launch::new().start().await;
    assert!(provider.fleet().await.values().all(|machine| machine.labels.is_empty()));
    let id = provider.configured(&Binding::to("fault-error")).await;
    assert_eq!(provider.get(&id).await.cluster, "fault-error");
}
