//! Many at once.

use std::{collections::BTreeSet, num::NonZeroUsize, sync::Arc};

use bigfleet_proto::MachineState::Idle;
use providerkit::store::Memory;
use tonic::Code;

use crate::{
    client::{Provider, options, refused},
    scripted::Scripted,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_calls_have_one_order() {
    let p = Arc::new(Provider::start(Memory::default(), Arc::new(Scripted::new(1))).await);
    p.create("m-0", Some(("s", 1, 1000))).await.unwrap();
    let race: Vec<_> = (0..24)
        .map(|n| {
            let p = Arc::clone(&p);
            let (epoch, sequence) = if n % 2 == 0 { (1, n / 2) } else { (2, 100 + n / 2) };
            tokio::spawn(async move { (epoch, sequence, p.create("m-0", Some(("s", epoch, sequence))).await) })
        })
        .collect();
    let mut accepted = Vec::new();
    for call in race {
        let (epoch, sequence, result) = call.await.unwrap();
        match result {
            Ok((id, _)) => accepted.push((epoch, sequence, id)),
            Err(status) => assert_eq!(status.code(), Code::FailedPrecondition),
        }
    }
    assert!(!accepted.is_empty() && accepted.iter().all(|(epoch, _, _)| *epoch == 2));
    assert_eq!(accepted.iter().map(|(_, _, id)| id).collect::<BTreeSet<_>>().len(), 1);
    let newest = accepted.iter().map(|(_, sequence, _)| *sequence).max().unwrap();
    refused(
        p.create("m-0", Some(("s", 2, newest))).await,
        Code::FailedPrecondition,
        &[],
    );
    p.create("m-0", Some(("s", 2, newest + 1))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn machines_and_shards_have_marks_of_their_own() {
    let p = Provider::start(Memory::default(), Arc::new(Scripted::new(3))).await;
    let mut a = p.create("m-0", Some(("a", 9, 9))).await.unwrap().0;
    let b = p.create("m-1", Some(("b", 7, 3))).await.unwrap().0;
    assert_ne!(a, b);
    for (machine, shard, epoch, sequence) in [("m-0", "a", 1, 1), ("m-1", "b", 7, 3)] {
        refused(
            p.create(machine, Some((shard, epoch, sequence))).await,
            Code::FailedPrecondition,
            &[shard, machine],
        );
    }
    for (machine, epoch, sequence) in [("m-0", 5, 30), ("m-1", 5, 7)] {
        a = p.create(machine, Some(("d", epoch, sequence))).await.unwrap().0;
    }
    assert!(!a.is_empty());
}

#[tokio::test(start_paused = true)]
async fn ghosts_are_fenced_and_their_marks_are_bounded_also_in_the_store() {
    let store = Memory::default();
    let mut few = options();
    few.ghost_marks = NonZeroUsize::new(3).unwrap();
    let p = Provider::start_with(few.clone(), store.clone(), Arc::new(Scripted::new(1))).await;
    refused(p.create("ghost", Some(("s", 5, 5))).await, Code::NotFound, &["`ghost`"]);
    for result in [
        p.create("ghost", Some(("s", 1, 1))).await,
        p.configure("ghost", "c", Some(("s", 1, 1))).await,
        p.drain("ghost", 0, Some(("s", 1, 1))).await,
        p.delete("ghost", Some(("s", 1, 1))).await,
    ] {
        refused(result, Code::FailedPrecondition, &[]);
    }
    p.create("m-0", Some(("s", 5, 5))).await.unwrap();
    p.reach("m-0", Idle).await;
    for n in 0..10 {
        refused(
            p.create(&format!("ghost-{n}"), Some(("s", 5, 5))).await,
            Code::NotFound,
            &[],
        );
    }
    // One more commit carries out what the last one had to forget.
    refused(p.create("ghost-9", Some(("s", 6, 6))).await, Code::NotFound, &[]);
    p.stop().await;

    let p = Provider::start_with(few, store, Arc::new(Scripted::new(1))).await;
    refused(p.create("m-0", Some(("s", 5, 5))).await, Code::FailedPrecondition, &[]);
    refused(
        p.create("ghost-9", Some(("s", 6, 6))).await,
        Code::FailedPrecondition,
        &[],
    );
    refused(p.create("ghost", Some(("s", 1, 1))).await, Code::NotFound, &[]);
}

#[tokio::test(start_paused = true)]
async fn requests_are_refused_before_anything_is_looked_at() {
    let p = Provider::start(Memory::default(), Arc::new(Scripted::new(1))).await;
    p.configured("m-0", "c").await;
    let before = p.list(&[]).await;
    let token = Some(("s", 1, 1));
    refused(p.create("", token).await, Code::InvalidArgument, &["machine_id"]);
    refused(p.get("").await, Code::InvalidArgument, &["machine_id"]);
    refused(
        p.configure("m-0", "", token).await,
        Code::InvalidArgument,
        &["cluster_id"],
    );
    refused(p.drain("m-0", -5, token).await, Code::InvalidArgument, &["-5"]);
    refused(
        p.create(&"x".repeat(2000), token).await,
        Code::InvalidArgument,
        &["machine_id", "2000"],
    );
    refused(
        p.create("m-0", Some((&"x".repeat(2000), 1, 1))).await,
        Code::InvalidArgument,
        &["shard_id", "2000"],
    );
    refused(p.get("nobody").await, Code::NotFound, &["`nobody`"]);
    assert_eq!(p.list(&[]).await, before);
    // Not even a fence mark was left.
    p.drain("m-0", 0, token).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_empty_shard_is_unfenced_whatever_its_numbers() {
    let p = Provider::start(Memory::default(), Arc::new(Scripted::new(1))).await;
    for (epoch, sequence) in [(9, 9), (1, 1), (0, 0), (9, 9)] {
        p.create("m-0", Some(("", epoch, sequence))).await.unwrap();
    }
}
