//! The upstream baseline (contract §14): fencing. Each test has the name of its original, `TestConformance_…`.

use bigfleet_proto::ListFilter;

use crate::harness::{Launch, Shard, expect_fenced, operation};

#[tokio::test]
async fn baseline_fencing_unknown_shard_accepted() {
    let provider = Launch::new().start().await;
    let (id, token) = (provider.pick_one().await, Shard::new("new").at(1, 1));
    operation(provider.create(&id, &token).await);
    expect_fenced(&provider.create(&id, &token).await);
}

#[tokio::test]
async fn baseline_fencing_stale_epoch_rejected() {
    let provider = Launch::new().start().await;
    let (id, shard) = (provider.pick_one().await, Shard::new("s"));
    operation(provider.create(&id, &shard.at(2, 1)).await);
    expect_fenced(&provider.create(&id, &shard.at(1, 99)).await);
}

#[tokio::test]
async fn baseline_fencing_stale_sequence_rejected() {
    let provider = Launch::new().start().await;
    let (id, shard) = (provider.pick_one().await, Shard::new("s"));
    operation(provider.create(&id, &shard.at(1, 5)).await);
    expect_fenced(&provider.create(&id, &shard.at(1, 5)).await);
    expect_fenced(&provider.create(&id, &shard.at(1, 4)).await);
}

#[tokio::test]
async fn baseline_fencing_per_machine_isolation() {
    let provider = Launch::new().start().await;
    let ([a, b], shard) = (provider.pick().await, Shard::new("s"));
    operation(provider.create(&a, &shard.at(1, 30)).await);
    operation(provider.create(&b, &shard.at(1, 7)).await);
    expect_fenced(&provider.create(&b, &shard.at(1, 7)).await);
    expect_fenced(&provider.create(&a, &shard.at(1, 30)).await);
    expect_fenced(&provider.create(&b, &shard.at(0, 999)).await);
}

#[tokio::test]
async fn baseline_fencing_new_epoch_resets_sequence() {
    let provider = Launch::new().start().await;
    let (id, shard) = (provider.pick_one().await, Shard::new("s"));
    operation(provider.create(&id, &shard.at(1, 1000)).await);
    operation(provider.create(&id, &shard.at(2, 1)).await);
}

#[tokio::test]
async fn baseline_fencing_reads_unaffected() {
    let provider = Launch::new().start().await;
    let (id, shard) = (provider.pick_one().await, Shard::new("s"));
    operation(provider.create(&id, &shard.at(9, 9)).await);
    expect_fenced(&provider.create(&id, &shard.at(1, 1)).await);
    assert_eq!(provider.get(&id).await.id, id);
    assert!(!provider.list(ListFilter::default()).await.machines.is_empty());
}
