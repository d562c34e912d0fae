//! Messages above 4 MiB, which the shard sends and reads and no Go provider takes (contract §1.4).

use bigfleet_proto::{ListFilter, MachineState as S};
use prost::Message as _;

use crate::harness::{Binding, Launch, Metadata, by_id, since};

#[tokio::test]
async fn a_blob_of_8_mib_is_taken() {
    let provider = Launch::new().start().await;
    let id = provider.configured(&Binding::to("c").blob(vec![7; 8 << 20])).await;
    assert_eq!(provider.get(&id).await.cluster, "c");
}

#[tokio::test]
async fn a_list_above_4_mib_is_answered_whole() {
    let provider = Launch::new().start().await;
    let cursor = provider.revision().await;
    let ids: [String; 10] = provider.idles().await;
    for (number, id) in ids.iter().enumerate() {
        let value = char::from(b'a' + u8::try_from(number).unwrap())
            .to_string()
            .repeat(512 << 10);
        provider.bind(id, &Binding::to("c").with("k", value)).await;
    }
    for filter in [ListFilter::default(), since(cursor)] {
        let list = provider.list(filter).await;
        assert!(list.encoded_len() > 5 << 20, "{}", list.encoded_len());
        let machines = by_id(list.machines);
        for (number, id) in ids.iter().enumerate() {
            let value = &machines[id].shard_metadata["k"];
            assert_eq!(value.len(), 512 << 10);
            assert!(value.bytes().all(|byte| usize::from(byte - b'a') == number));
        }
    }
}

#[tokio::test]
async fn a_machine_above_4_mib_survives_a_kill() {
    let directory = tempfile::TempDir::new().unwrap();
    let provider = Launch::on(directory.path().join("state")).start().await;
    let metadata: Metadata = (0..5).map(|n| (format!("k{n}"), "é".repeat(512 << 10))).collect();
    let id = provider.configured(&Binding::to("c").metadata(metadata.clone())).await;
    assert_eq!(provider.get(&id).await.shard_metadata, metadata);
    let provider = provider.restart().await;
    let machine = provider.get(&id).await;
    assert_eq!(machine.state(), S::Configured);
    assert_eq!(machine.shard_metadata, metadata);
}
