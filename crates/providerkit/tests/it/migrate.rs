//! State files of older versions.

use std::{path::Path, sync::Arc, time::Duration};

use bigfleet_proto::MachineState::{self, Configured, Failed, Speculative};
use providerkit::store::Sqlite;
use tonic::Code;

use crate::{
    client::{Provider, refused},
    scripted::{Act, Scripted, Step},
};

fn old_file(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("state");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch(include_str!("state_v1.sql")).unwrap();
    connection
        .pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))
        .unwrap();
    connection.close().unwrap();
    path
}

fn version(path: &Path) -> i64 {
    let file = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    file.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn the_first_versions_file_is_brought_forward_with_everything_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = old_file(folder.path());
    let backend = Arc::new(Scripted::new(6));
    backend.act(Step::Cleanup, Act::Never);
    let p = Provider::start(Sqlite::open(&path).unwrap(), Arc::clone(&backend)).await;
    let states: Vec<(String, MachineState)> = {
        let machines = p.list(&[]).await.machines;
        machines
            .iter()
            .map(|machine| (machine.id.clone(), machine.state()))
            .collect()
    };
    let rested = [
        ("m-0", Speculative),
        ("m-1", Speculative),
        ("m-2", Configured),
        ("m-3", Failed),
        ("m-5", Speculative),
    ];
    for (id, state) in rested {
        assert!(states.contains(&(id.to_owned(), state)), "{id}: {states:?}");
    }
    assert_eq!(states.len(), 6);
    let bound = p.get("m-2").await.unwrap();
    assert_eq!((&*bound.cluster, &*bound.shard_metadata["k"]), ("c-2", "v"));
    assert_eq!(p.get("m-3").await.unwrap().last_error, "no luck");
    // Its deadline has passed long ago.
    p.reach("m-4", Failed).await;
    refused(
        p.create("ghost", Some(("s", 5, 5))).await,
        Code::FailedPrecondition,
        &[],
    );
    refused(
        p.drain("m-2", 0, Some(("s", 2, 6))).await,
        Code::FailedPrecondition,
        &[],
    );
    let (operation, _) = p.delete("m-1", None).await.unwrap();
    assert_eq!(operation, "01a22d42-de2d-71ad-afed-0e7a3542a981");
    p.stop().await;
    assert_eq!(version(&path), 2);
}

#[tokio::test]
async fn slots_of_an_older_file_can_be_withheld() {
    let folder = tempfile::tempdir().unwrap();
    let path = old_file(folder.path());
    let backend = Arc::new(Scripted::new(0));
    backend.act(Step::Cleanup, Act::Never);
    let full = Some("full");
    backend.offer(&[("m-0", full), ("m-1", full), ("m-2", full), ("m-5", None)]);
    let p = Provider::start(Sqlite::open(&path).unwrap(), Arc::clone(&backend)).await;
    let looked = async {
        while p.engine.summary().withheld < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looked).await.unwrap();
    p.stop().await;
    let p = Provider::start(Sqlite::open(&path).unwrap(), backend).await;
    assert_eq!(p.ids().await, ["m-2", "m-3", "m-4", "m-5"]);
    p.stop().await;
}
