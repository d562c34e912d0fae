//! The binary on a real host with real guests, killed at every step of every transition (architecture §5, ring four).

use std::time::Duration;

use bigfleet_proto::MachineState as S;
use tempfile::TempDir;

use crate::{
    harness::{Binding, Launch, Provider, Step, Token, eventually, operation},
    lab::Host,
};

/// Guests are emulated, on a machine that has other things to do.
const PATIENT: Duration = Duration::from_secs(300);

fn on(host: &Host, directory: &TempDir) -> Launch {
    let types = directory.path().join("types.json");
    std::fs::write(&types, r#"{"tiny": {"vcpu": 1, "memory_mib": 128}}"#).unwrap();
    let offerings = directory.path().join("offerings.json");
    std::fs::write(
        &offerings,
        r#"[{"instance_type": "tiny", "zone": "local", "count": 2}]"#,
    )
    .unwrap();
    Launch::on(directory.path().join("state.db"))
        .without_fake()
        .flag(format!("--connect={}", host.uri()))
        .flag("--image=tiny.qcow2")
        .flag(format!("--instance-types={}", types.display()))
        .flag(format!("--offerings={}", offerings.display()))
        .flag("--set=machine.accelerator=qemu")
        .flag("--set=budget.pool_reserve_gib=0")
}

/// Takes a step, kills the provider after each of these times, and starts it again; the operation stays the same.
async fn through_kills(mut provider: Provider, step: Step, id: &str, binding: &Binding, after: &[u64]) -> Provider {
    let asked = operation(step.call(&provider, id, binding, &Token::unfenced()).await);
    for milliseconds in after {
        tokio::time::sleep(Duration::from_millis(*milliseconds)).await;
        provider = provider.restart().await;
        let again = operation(step.call(&provider, id, binding, &Token::unfenced()).await);
        assert_eq!(again, asked, "{step:?} goes on as the same operation");
    }
    provider.reach_within(id, step.target(), PATIENT).await;
    provider
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_machine_outlives_kills_of_its_provider() {
    let Some(host) = Host::start("a_real_machine_outlives_kills_of_its_provider").await else {
        return;
    };
    let directory = TempDir::new().unwrap();
    let provider = on(&host, &directory).start().await;
    eventually("a slot is offered", PATIENT, async || {
        !provider.fleet().await.is_empty()
    })
    .await;
    let id = provider.pick_one().await;
    let blob = "#!/bin/sh\necho once >>/etc/bigfleet/runs\nsleep 4\n";
    let binding = Binding::to("blue").with("k", "v").blob(blob);

    let provider = through_kills(provider, Step::Create, &id, &binding, &[60, 150, 400, 1000, 3000]).await;
    assert_eq!((host.domains().len(), host.volumes().len()), (1, 2));
    let domain = host.domains().remove(0);

    let provider = through_kills(provider, Step::Configure, &id, &binding, &[100, 500, 1500, 1500]).await;
    assert_eq!(host.run_in_guest(&domain, "cat /etc/bigfleet/runs"), "once");
    assert_eq!(provider.get(&id).await.cluster, "blue");

    let provider = through_kills(provider, Step::Drain, &id, &binding, &[50, 300, 800]).await;
    assert_eq!(host.run_in_guest(&domain, "ls /etc/bigfleet"), "");

    let provider = through_kills(provider, Step::Delete, &id, &binding, &[30, 200, 600]).await;
    assert_eq!((host.domains(), host.volumes()), (vec![], vec![]));
    assert_eq!(provider.state(&id).await, S::Speculative);
}

/// A state file that is lost costs the fence marks, not the machines.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_are_found_again_without_their_state_file() {
    let Some(host) = Host::start("machines_are_found_again_without_their_state_file").await else {
        return;
    };
    let directory = TempDir::new().unwrap();
    let provider = on(&host, &directory).start().await;
    eventually("slots are offered", PATIENT, async || provider.fleet().await.len() == 2).await;
    let [bound, idle] = provider.pick().await;
    let binding = Binding::to("blue").with("k", "v\u{1}<&>");
    for id in [&bound, &idle] {
        operation(Step::Create.call(&provider, id, &binding, &Token::unfenced()).await);
    }
    for id in [&bound, &idle] {
        provider.reach_within(id, S::Idle, PATIENT).await;
    }
    operation(
        Step::Configure
            .call(&provider, &bound, &binding, &Token::unfenced())
            .await,
    );
    provider.reach_within(&bound, S::Configured, PATIENT).await;
    let before = provider.fleet().await;
    drop(provider);
    for entry in std::fs::read_dir(directory.path()).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("state.db") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    let provider = on(&host, &directory).start().await;
    eventually("both are there again", PATIENT, async || {
        provider.fleet().await == before
    })
    .await;
    let provider = through_kills(provider, Step::Drain, &bound, &binding, &[]).await;
    for id in [&bound, &idle] {
        operation(Step::Delete.call(&provider, id, &binding, &Token::unfenced()).await);
        provider.reach_within(id, S::Speculative, PATIENT).await;
    }
    assert_eq!((host.domains(), host.volumes()), (vec![], vec![]));
}
