//! MD: what BigFleet notes on a binding comes back byte for byte (contract §7).

use std::time::Duration;

use bigfleet_proto::MachineState as S;

use crate::harness::{Binding, Client, Launch, Metadata, Token, by_id, only, operation};

/// The keys of B501: everything a protobuf string may hold.
fn odd_metadata() -> Metadata {
    let mut metadata: Metadata = (0..40).map(|n| (format!("plain-{n}"), format!("value {n}"))).collect();
    let odd = [
        ("nul\0key", "nul\0value"),
        ("\0", "\0\0\0"),
        ("tab\tkey", "\t\r\n"),
        ("c0", "\u{1}\u{2}\u{1f}\u{7f}"),
        ("c1\u{85}", "\u{80}\u{9f}"),
        ("emoji \u{1f680}", "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}"),
        ("empty value", ""),
        ("", "empty key"),
        ("trailing space ", "value  "),
        (" leading", "  value"),
        ("bom\u{feff}", "\u{feff}"),
        ("rtl", "\u{202e}abc"),
        ("combining e\u{301}", "é"),
        ("quote\"back\\slash", "'\"`\\"),
        ("last plane", "\u{10ffff}"),
    ];
    metadata.extend(odd.map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert_eq!(metadata.len(), 55);
    metadata
}

/// The metadata as List has it.
async fn listed(client: &Client, id: &str) -> Metadata {
    let mut machines = by_id(client.list(only(&[S::Configured])).await.machines);
    machines.remove(id).unwrap().shard_metadata
}

/// B501.
#[tokio::test]
async fn b501_odd_keys_and_values_come_back_verbatim() {
    let provider = Launch::new().start().await;
    let metadata = odd_metadata();
    let id = provider.idle().await;
    let binding = Binding::to("c").metadata(metadata.clone());
    let ack = provider.configure(&id, &binding, &Token::unfenced()).await.unwrap();
    assert_eq!(ack.machine.unwrap().shard_metadata, metadata);
    provider.reach(&id, S::Configured).await;
    for _ in 0..4 {
        assert_eq!(provider.get(&id).await.shard_metadata, metadata);
    }
    assert_eq!(listed(&provider, &id).await, metadata);
}

/// B502.
#[tokio::test]
async fn b502_a_new_configure_replaces_the_whole_map() {
    let provider = Launch::new().start().await;
    let first = Binding::to("one").with("a", "1").with("b", "2").with("c", "3");
    let id = provider.configured(&first).await;
    assert_eq!(provider.get(&id).await.shard_metadata, first.metadata);
    provider.release(&id, 5).await;
    let drained = provider.get(&id).await;
    assert!(
        drained.cluster.is_empty() && drained.shard_metadata.is_empty(),
        "{drained:?}"
    );
    let second = Binding::to("two").with("c", "other").with("d", "4");
    provider.bind(&id, &second).await;
    let machine = provider.get(&id).await;
    assert_eq!(
        (machine.cluster.as_str(), machine.shard_metadata),
        ("two", second.metadata)
    );
}

/// B503.
#[tokio::test]
async fn b503_2_mib_of_metadata_come_back_verbatim() {
    let provider = Launch::new().start().await;
    let metadata: Metadata = (0..256)
        .map(|n| (format!("key-{n}"), format!("{n:08}").repeat(1024)))
        .collect();
    let id = provider.idle().await;
    let binding = Binding::to("c").metadata(metadata.clone());
    operation(provider.configure(&id, &binding, &Token::unfenced()).await);
    provider.reach_within(&id, S::Configured, Duration::from_secs(30)).await;
    assert_eq!(provider.get(&id).await.shard_metadata, metadata);
    provider.release(&id, 0).await;
    assert!(provider.get(&id).await.shard_metadata.is_empty());
}

/// B504.
#[tokio::test]
async fn b504_metadata_is_there_while_configuring() {
    let provider = Launch::new().delay(Duration::from_millis(50)).start().await;
    let id = provider.idle().await;
    let binding = Binding::to("c").with("a", "1").with("b", "").with("c\0", "\0");
    let answer = provider.configure(&id, &binding, &Token::unfenced()).await;
    let trace = provider.trace(answer, S::Configured).await;
    assert_eq!(trace[0].state(), S::Configuring);
    for machine in trace {
        assert_eq!(machine.shard_metadata, binding.metadata, "{machine:?}");
    }
}

/// B505: over a real wire the caller's map is out of reach, so this is about two reads being equal.
#[tokio::test]
async fn b505_what_the_caller_does_to_its_map_afterwards_does_not_matter() {
    let provider = Launch::new().start().await;
    let mut binding = Binding::to("c").with("a", "1").with("b", "2");
    let original = binding.metadata.clone();
    let id = provider.configured(&binding).await;
    binding.metadata.insert("a".into(), "changed".into());
    binding.metadata.remove("b");
    for _ in 0..2 {
        assert_eq!(provider.get(&id).await.shard_metadata, original);
    }
}

/// §7: a binding without metadata is as good as any.
#[tokio::test]
async fn an_empty_map_is_kept_empty() {
    let provider = Launch::new().start().await;
    let id = provider.configured(&Binding::to("c")).await;
    let machine = provider.get(&id).await;
    assert_eq!(machine.cluster, "c");
    assert!(machine.shard_metadata.is_empty());
}
