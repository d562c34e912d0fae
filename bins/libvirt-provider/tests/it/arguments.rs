//! Arguments that no suite sends: what the contract leaves open and this provider decided (contract §3, §16).

use std::time::Duration;

use bigfleet_proto::MachineState as S;
use tonic::Code;

use crate::harness::{Binding, HOLD, Launch, Shard, Token, expect_fenced, expect_ok, expect_status, operation, since};

/// In bytes, of machines, clusters and shards.
const LONGEST_NAME: usize = 1024;

fn free() -> Token {
    Token::unfenced()
}

/// §16.5: the letter of the contract. The operation is the machine's, and its snapshot shows what it is bound to.
#[tokio::test]
async fn a_configure_with_other_arguments_is_a_replay_of_the_first() {
    let provider = Launch::new().start().await;
    let first = Binding::to("first").with("k", "v");
    let id = provider.idle().await;
    let operation_id = provider.bind(&id, &first).await;
    let others = [
        Binding::to("second").with("k", "v"),
        Binding::to("first").with("k", "other"),
        Binding::to("first").with("k", "v").blob("other"),
    ];
    for other in others {
        let ack = expect_ok(provider.configure(&id, &other, &free()).await);
        assert_eq!(ack.operation_id, operation_id);
        let machine = ack.machine.unwrap();
        assert_eq!(machine.state(), S::Configured);
        assert_eq!(
            (machine.cluster.as_str(), &machine.shard_metadata),
            ("first", &first.metadata)
        );
    }
    let machine = provider.get(&id).await;
    assert_eq!(
        (machine.cluster.as_str(), machine.shard_metadata),
        ("first", first.metadata)
    );
}

/// §3: CONFIGURED without a cluster is a record that the shard rejects.
#[tokio::test]
async fn an_empty_cluster_is_an_invalid_argument_and_changes_nothing() {
    let provider = Launch::new().start().await;
    let id = provider.idle().await;
    let (before, revision) = (provider.get(&id).await, provider.revision().await);
    let answer = provider.configure(&id, &Binding::to("").with("k", "v"), &free()).await;
    expect_status(&answer, Code::InvalidArgument);
    provider.stays(&id, S::Idle, HOLD).await;
    assert_eq!(provider.get(&id).await, before);
    assert!(provider.list(since(revision)).await.machines.is_empty());
    provider.bind(&id, &Binding::to("c")).await;
}

/// §16.7: an empty shard id means unfenced, whatever the numbers.
#[tokio::test]
async fn an_empty_shard_is_unfenced_whatever_its_numbers() {
    let provider = Launch::new().start().await;
    let (id, nobody) = (provider.pick_one().await, Shard::new(""));
    let first = operation(provider.create(&id, &nobody.at(9, 9)).await);
    for (epoch, sequence) in [(9, 9), (1, 1), (0, 0), (-1, -1), (i64::MIN, i64::MIN)] {
        assert_eq!(
            operation(provider.create(&id, &nobody.at(epoch, sequence)).await),
            first
        );
    }
}

/// §4: first contact is accepted whatever its numbers, zero included, and builds a mark.
#[tokio::test]
async fn the_first_token_of_a_shard_may_be_zero() {
    let provider = Launch::new().start().await;
    let (id, shard) = (provider.pick_one().await, Shard::new("zero"));
    operation(provider.create(&id, &shard.at(0, 0)).await);
    expect_fenced(&provider.create(&id, &shard.at(0, 0)).await);
    expect_fenced(&provider.create(&id, &shard.at(-1, 7)).await);
    operation(provider.create(&id, &shard.at(0, 1)).await);
}

/// §1.3: names are text, not identifiers; none of them is special.
#[tokio::test]
async fn odd_names_are_names() {
    let provider = Launch::new().start().await;
    let longest = "x".repeat(LONGEST_NAME);
    for name in ["a\0b", " ", "\u{1f600}", "../../etc/passwd", "';--", &longest] {
        let token = Shard::new(name).at(1, 1);
        expect_status(&provider.create(name, &token).await, Code::NotFound);
        expect_fenced(&provider.create(name, &token).await);
        let id = provider.configured(&Binding::to(name)).await;
        assert_eq!(provider.get(&id).await.cluster, name);
    }
}

/// What nobody needs and everybody could send.
#[tokio::test]
async fn endless_names_are_invalid_arguments_and_leave_no_trace() {
    let provider = Launch::new().start().await;
    let id = provider.idle().await;
    let before = provider.get(&id).await;
    let endless = "x".repeat(LONGEST_NAME + 1);
    let answers = [
        provider.create(&endless, &free()).await,
        provider.create(&id, &Shard::new(&endless).at(1, 1)).await,
        provider.configure(&id, &Binding::to(&endless), &free()).await,
    ];
    for answer in answers {
        expect_status(&answer, Code::InvalidArgument);
    }
    assert_eq!(provider.get(&id).await, before);
}

/// A blob may be empty: what to make of it is the image's business.
#[tokio::test]
async fn an_empty_blob_is_taken() {
    let provider = Launch::new().start().await;
    provider.configured(&Binding::to("c").blob("")).await;
}

/// Grace is BigFleet's to choose, and is kept with the transition.
#[tokio::test]
async fn the_longest_grace_is_taken_and_survives_a_kill() {
    let directory = tempfile::TempDir::new().unwrap();
    let launch = Launch::on(directory.path().join("state"));
    let provider = launch.delay(Duration::from_millis(300)).start().await;
    let id = provider.configured(&Binding::to("c")).await;
    let drain = operation(provider.drain(&id, i64::MAX, &free()).await);
    let provider = provider.restart().await;
    provider.reach(&id, S::Idle).await;
    assert_eq!(operation(provider.drain(&id, 0, &free()).await), drain);
}
