//! One line for every change that was granted.

use serde_json::Value;

use crate::{
    harness::{AWAIT, Launch, Provider, Shard, eventually, expect_ok},
    tls::Authority,
};

fn lines(provider: &Provider) -> Vec<Value> {
    let text = provider.log_text();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["target"] == "audit").collect()
}

#[tokio::test]
async fn every_change_that_was_granted_is_one_line_and_a_refused_one_is_none() {
    let provider = Launch::new()
        .flag("--log-level=error")
        .flag("--log-format=text")
        .start()
        .await;
    let id = provider.pick_one().await;
    let shard = Shard::new("shard-7");
    let acked = expect_ok(provider.create(&id, &shard.at(3, 11)).await);
    assert!(provider.create(&id, &shard.at(3, 11)).await.is_err(), "fenced");
    expect_ok(provider.create(&id, &shard.at(3, 12)).await);
    eventually("two lines", AWAIT, async || lines(&provider).len() == 2).await;
    let [first, second] = &lines(&provider)[..] else {
        unreachable!()
    };
    let wanted = [
        ("method", "Create"),
        ("machine_id", &*id),
        ("op_id", &*acked.operation_id),
        ("shard", "shard-7"),
        ("outcome", "accepted"),
    ];
    for (key, value) in wanted {
        assert_eq!(first[key], value, "{key} in {first}");
    }
    assert_eq!((&first["epoch"], &first["sequence"]), (&3.into(), &11.into()));
    assert!(first["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{first}");
    assert_eq!(first.get("who"), None, "nobody can be known without TLS: {first}");
    assert_eq!(
        (&second["outcome"], &second["op_id"]),
        (&"repeated".into(), &first["op_id"])
    );
}

#[tokio::test]
async fn a_client_certificate_says_who_it_was() {
    let authority = Authority::new();
    let provider = authority.mutual().start().await;
    let leaf = authority.client(&["bigfleet://shard/shard-7"]);
    let client = authority.connect(&provider, Some(&leaf)).await;
    let id = client.pick_one().await;
    expect_ok(client.create(&id, &Shard::new("shard-7").at(1, 1)).await);
    eventually("a line", AWAIT, async || lines(&provider).len() == 1).await;
    assert_eq!(lines(&provider)[0]["who"], "bigfleet://shard/shard-7");
}
