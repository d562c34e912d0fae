//! DR: what was acknowledged is there after a SIGKILL (contract §4, §5, §9.3, trap 8).

use std::{collections::BTreeMap, fs, path::Path};

use bigfleet_proto::{ListFilter, MachineState as S};
use tempfile::TempDir;

use crate::harness::{Binding, Launch, Provider, Shard, Token, by_id, expect_fenced, operation, since};

/// A provider with its state in a directory.
async fn provider(directory: &TempDir) -> Provider {
    Launch::on(state(directory.path())).start().await
}

/// The name the certification gives the file; it is a name, not a format.
fn state(directory: &Path) -> std::path::PathBuf {
    directory.join("durable-state.json")
}

/// B1001.
#[tokio::test]
async fn b1001_a_stale_token_is_fenced_after_a_kill() {
    let directory = TempDir::new().unwrap();
    let provider = provider(&directory).await;
    let (id, shard) = (provider.pick_one().await, Shard::new("durA"));
    operation(provider.create(&id, &shard.at(3, 7)).await);
    provider.reach(&id, S::Idle).await;
    let provider = provider.restart().await;
    expect_fenced(&provider.create(&id, &shard.at(3, 7)).await);
    operation(provider.create(&id, &shard.at(3, 8)).await);
}

/// B1002.
#[tokio::test]
async fn b1002_a_replay_after_a_kill_has_the_same_operation_id() {
    let directory = TempDir::new().unwrap();
    let provider = provider(&directory).await;
    let binding = Binding::to("c").with("a", "1").with("b", "2");
    let id = provider.idle().await;
    let configure = provider.bind(&id, &binding).await;
    let provider = provider.restart().await;
    let replay = operation(provider.configure(&id, &binding, &Token::unfenced()).await);
    assert_eq!(replay, configure);
}

/// B1003, on List too as its title says.
#[tokio::test]
async fn b1003_the_binding_is_there_after_a_kill() {
    let directory = TempDir::new().unwrap();
    let provider = provider(&directory).await;
    let binding = Binding::to("kept").with("nul\0", "\0").with("empty", "");
    let id = provider.configured(&binding).await;
    let provider = provider.restart().await;
    for machine in [provider.get(&id).await, provider.fleet().await[&id].clone()] {
        assert_eq!(
            (machine.cluster.as_str(), &machine.shard_metadata),
            ("kept", &binding.metadata)
        );
    }
}

/// B1004, of whole records.
#[tokio::test]
async fn b1004_the_inventory_is_identical_after_a_kill() {
    let directory = TempDir::new().unwrap();
    let provider = provider(&directory).await;
    let [a, b, _] = provider.idles().await;
    provider.bind(&a, &Binding::to("c").with("k", "v")).await;
    provider.give_back(&b).await;
    let before = provider.fleet().await;
    let provider = provider.restart().await;
    assert_eq!(provider.fleet().await, before);
    let provider = provider.restart().await;
    assert_eq!(provider.fleet().await, before);
}

/// B1005.
#[tokio::test]
async fn b1005_operation_ids_are_fresh_after_a_kill() {
    let directory = TempDir::new().unwrap();
    let provider = provider(&directory).await;
    let id = provider.pick_one().await;
    let mut ids = vec![operation(provider.create(&id, &Token::unfenced()).await)];
    provider.reach(&id, S::Idle).await;
    ids.push(provider.bind(&id, &Binding::to("c")).await);
    ids.push(provider.release(&id, 0).await);
    let provider = provider.restart().await;
    assert!(!provider.revision().await.is_empty());
    let fresh = operation(provider.create(&provider.pick_one().await, &Token::unfenced()).await);
    assert!(!ids.contains(&fresh), "{fresh} again");
}

/// B1007.
#[tokio::test]
async fn b1007_a_new_shard_is_accepted_after_a_kill() {
    let directory = TempDir::new().unwrap();
    let provider = provider(&directory).await;
    let id = provider.pick_one().await;
    operation(provider.create(&id, &Shard::new("durA").at(3, 7)).await);
    let provider = provider.restart().await;
    let id = provider.pick_one().await;
    operation(provider.create(&id, &Shard::new("durB").at(1, 1)).await);
}

/// §4: marks of refused calls and of machines that do not exist are kept as well.
#[tokio::test]
async fn marks_of_refused_calls_are_there_after_a_kill() {
    let directory = TempDir::new().unwrap();
    let provider = provider(&directory).await;
    let (id, shard) = (provider.pick_one().await, Shard::new("s"));
    provider.drain(&id, 0, &shard.at(4, 4)).await.unwrap_err();
    provider.create("ghost", &shard.at(6, 6)).await.unwrap_err();
    let provider = provider.restart().await;
    expect_fenced(&provider.create(&id, &shard.at(4, 4)).await);
    expect_fenced(&provider.create("ghost", &shard.at(6, 6)).await);
    operation(provider.create(&id, &shard.at(4, 5)).await);
}

/// §12.2: the seeds are the same at every boot, so a larger seed count only adds.
#[tokio::test]
async fn known_machines_stay_when_more_are_seeded() {
    let directory = TempDir::new().unwrap();
    let provider = provider(&directory).await;
    let id = provider.configured(&Binding::to("c")).await;
    let before = provider.fleet().await;
    let provider = provider.kill().seeds(80).start().await;
    let after = provider.fleet().await;
    for (id, machine) in &before {
        assert_eq!(after.get(id), Some(machine));
    }
    assert_eq!(after[&id].cluster, "c");
}

/// §9.3: what was exact stays exact.
#[tokio::test]
async fn a_cursor_stays_exact_over_a_kill() {
    let directory = TempDir::new().unwrap();
    let provider = provider(&directory).await;
    let [a, b] = provider.idles().await;
    let old = provider.revision().await;
    provider.bind(&a, &Binding::to("c")).await;
    let head = provider.revision().await;
    let provider = provider.restart().await;
    assert!(provider.list(since(head.clone())).await.machines.is_empty());
    let delta = by_id(provider.list(since(old)).await.machines);
    assert_eq!(delta.into_keys().collect::<Vec<_>>(), [a]);
    provider.give_back(&b).await;
    let delta = by_id(provider.list(since(head)).await.machines);
    assert_eq!(delta.into_keys().collect::<Vec<_>>(), [b]);
}

/// §9.3: after state was lost, an old cursor must not hide anything.
#[tokio::test]
async fn a_cursor_of_another_state_file_lists_everything() {
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let one = provider(&first).await;
    let two = provider(&second).await;
    one.idle().await;
    two.idle().await;
    for (cursor, other) in [(one.revision().await, &two), (two.revision().await, &one)] {
        let all = other.fleet().await;
        assert_eq!(by_id(other.list(since(cursor)).await.machines), all);
    }
}

/// §9.3: after a backup was restored, a cursor from after the backup must not hide anything either.
#[tokio::test]
async fn a_cursor_from_after_a_restored_backup_hides_nothing() {
    let directory = TempDir::new().unwrap();
    let provider = provider(&directory).await;
    let id = provider.idle().await;
    let (_, launch) = provider.terminate().await;
    let (file, backup) = (state(directory.path()), directory.path().join("backup"));
    fs::copy(&file, &backup).unwrap();

    let provider = launch.start().await;
    provider.bind(&id, &Binding::to("lost")).await;
    let cursor = provider.revision().await;
    let (_, launch) = provider.terminate().await;
    fs::copy(&backup, &file).unwrap();

    let provider = launch.start().await;
    for _ in 0..3 {
        provider.idle().await;
    }
    let fleet = provider.fleet().await;
    assert_eq!(by_id(provider.list(since(cursor)).await.machines), fleet);
    assert_eq!((fleet[&id].state(), fleet[&id].cluster.as_str()), (S::Idle, ""));
}

/// §9.3: without a file every start is a new incarnation.
#[tokio::test]
async fn a_cursor_of_an_earlier_life_in_memory_lists_everything() {
    let provider = Launch::new().start().await;
    provider.idle().await;
    let cursor = provider.revision().await;
    let provider = provider.restart().await;
    let all = provider.fleet().await;
    let delta: BTreeMap<_, _> = by_id(provider.list(since(cursor)).await.machines);
    assert_eq!(delta, all);
    assert!(
        provider
            .list(ListFilter::default())
            .await
            .machines
            .iter()
            .all(|m| m.state() == S::Speculative)
    );
}

/// §12.2: the port of a killed provider is bound again at once, whatever its old connections are doing.
#[tokio::test]
async fn the_port_of_a_killed_provider_can_be_bound_again() {
    let directory = TempDir::new().unwrap();
    let provider = provider(&directory).await;
    provider.idle().await;
    let port = provider.address().port();
    let provider = provider.kill().port(port).start().await;
    provider.idle().await;
}
