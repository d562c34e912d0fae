//! Real SQLite files.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use bigfleet_proto::MachineState::{Configured, Failed};
use providerkit::{Transition, store::Sqlite};
use tonic::Code;

use crate::{
    client::{Provider, refused},
    scripted::{Act, Scripted, Step},
};

fn state(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("durable-state.json")
}

async fn start(path: &Path, backend: &Arc<Scripted>) -> Provider {
    Provider::start(Sqlite::open(path).unwrap(), Arc::clone(backend)).await
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = state(&folder);
    let backend = Arc::new(Scripted::new(8));
    let p = start(&path, &backend).await;
    p.idle("m-1").await;
    let notes = [
        ("nul\0".to_owned(), "\u{1f600}".to_owned()),
        (String::new(), String::new()),
    ];
    p.idle("m-2").await;
    let (bound, _) = p
        .configure_with("m-2", "c\0-2", b"x", notes.into(), Some(("s", -3, i64::MIN)))
        .await
        .unwrap();
    p.reach("m-2", Configured).await;
    backend.act(Step::Do(Transition::Create), Act::Fail("no luck"));
    p.create("m-3", None).await.unwrap();
    p.reach("m-3", Failed).await;
    for (id, transition) in [("m-4", Transition::Create), ("m-5", Transition::Configure)] {
        backend.act(Step::Do(Transition::Create), Act::Succeed);
        if transition == Transition::Configure {
            p.idle(id).await;
        }
        backend.act(Step::Do(transition), Act::Never);
        match transition {
            Transition::Create => p.create(id, None).await.unwrap(),
            _ => p.configure(id, "c", None).await.unwrap(),
        };
    }
    refused(p.create("ghost", Some(("s", 5, 5))).await, Code::NotFound, &[]);
    let before = p.list(&[]).await;
    p.stop().await;

    let p = start(&path, &backend).await;
    let mut after = p.list(&[]).await;
    assert_eq!(after.machines, before.machines);
    assert_eq!(p.list(&before.revision).await.machines, []);
    let (again, machine) = p.configure("m-2", "c\0-2", None).await.unwrap();
    assert_eq!((again, machine), (bound, after.machines.remove(2)));
    refused(
        p.drain("m-2", 0, Some(("s", -3, i64::MIN))).await,
        Code::FailedPrecondition,
        &[],
    );
    refused(
        p.create("ghost", Some(("s", 5, 5))).await,
        Code::FailedPrecondition,
        &[],
    );
    p.stop().await;
}

#[tokio::test]
async fn the_file_is_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = state(&folder);
    let backend = Arc::new(Scripted::new(1));
    let p = start(&path, &backend).await;
    p.idle("m-0").await;
    let modes = |folder: &Path| -> Vec<_> {
        let files = fs::read_dir(folder).unwrap().map(Result::unwrap);
        files
            .map(|file| (file.file_name(), file.metadata().unwrap().permissions().mode() & 0o777))
            .collect()
    };
    let found = modes(folder.path());
    assert!(
        found.len() >= 3 && found.iter().all(|(_, mode)| *mode == 0o600),
        "{found:?}"
    );
    p.stop().await;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    start(&path, &backend).await.stop().await;
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_second_process_is_told_who_has_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = state(&folder);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let first = Sqlite::open(&path).unwrap();
    for way in [&path, &link] {
        let error = Sqlite::open(way).unwrap_err();
        assert_eq!(error.kind(), providerkit::store::ErrorKind::InUse);
        assert!(
            error.to_string().contains(&format!("process {}", std::process::id())),
            "{error}"
        );
    }
    drop(first);
    Sqlite::open(&link).unwrap();
}

/// Whether any of the state's files holds these bytes.
fn stored(folder: &Path, bytes: &[u8]) -> bool {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    // The log before the file it is copied into: read the other way round, a copy in between would hide from both.
    files.sort_by(|a, b| b.cmp(a));
    files
        .into_iter()
        .map(|path| fs::read(path).unwrap())
        .any(|content| content.windows(bytes.len()).any(|window| window == bytes))
}

#[tokio::test]
async fn a_bootstrap_blob_is_stored_while_it_is_needed_and_not_a_byte_longer() {
    const SECRET: &[u8] = b"token-0123456789abcdef-token";
    let folder = tempfile::tempdir().unwrap();
    let backend = Arc::new(Scripted::new(1));
    backend.act(Step::Do(Transition::Configure), Act::Gate);
    let p = start(&state(&folder), &backend).await;
    p.idle("m-0").await;
    p.configure_with("m-0", "c", SECRET, Default::default(), None)
        .await
        .unwrap();
    assert!(stored(folder.path(), SECRET), "a crash now must be survivable");
    backend.open_gate();
    p.reach("m-0", Configured).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while stored(folder.path(), SECRET) {
        assert!(Instant::now() < deadline, "the blob is still there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    p.stop().await;
}

#[tokio::test]
async fn profiles_that_nobody_has_any_more_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let path = state(&folder);
    let backend = Arc::new(Scripted::new(2));
    let profiles = |path: &Path| -> i64 {
        let copy = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        copy.query_row("SELECT count(*) FROM profile", [], |row| row.get(0))
            .unwrap()
    };
    for price in 1..4 {
        let offer = crate::scripted::profile().price_per_hour(f64::from(price));
        *backend.slots.lock().unwrap() = Ok((0..2)
            .map(|n| providerkit::Slot::new(format!("m-{n}"), offer.clone()))
            .collect());
        let p = start(&path, &backend).await;
        let deadline = Instant::now() + Duration::from_secs(20);
        // The look at start runs in the background where machines are known already.
        while p.get("m-1").await.unwrap().price_per_hour < f64::from(price) || profiles(&path) != 1 {
            assert!(Instant::now() < deadline, "{} profiles", profiles(&path));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        p.stop().await;
    }
}
