//! Files that are no valid state: refused with a sentence, and left as they are.

use std::{
    fs,
    io::{Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use providerkit::{
    Engine,
    store::{ErrorKind, Sqlite},
};

use crate::{
    client::{Provider, options},
    scripted::Scripted,
};

async fn valid(folder: &Path) -> PathBuf {
    let path = folder.join("state");
    let backend = Arc::new(Scripted::new(400));
    Provider::start(Sqlite::open(&path).unwrap(), backend)
        .await
        .stop()
        .await;
    path
}

fn patch(path: &Path, at: u64, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

async fn assert_refused(path: &Path, parts: &[&str]) {
    let before = fs::read(path).unwrap();
    let error = match Sqlite::open(path) {
        Err(error) => error,
        Ok(store) => match Engine::start(options(), Box::new(store), Arc::new(Scripted::new(1))).await {
            Err(providerkit::StartError::Store(error)) => error,
            other => panic!("{} was taken: {other:?}", path.display()),
        },
    };
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    for part in parts.iter().chain(&["left untouched", "state file"]) {
        assert!(error.to_string().contains(part), "`{part}` is not in: {error}");
    }
    assert_eq!(fs::read(path).unwrap(), before, "{} was touched", path.display());
}

#[tokio::test]
async fn what_is_not_ours_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("empty"), b"").unwrap();
    assert_refused(&at("empty"), &["is empty"]).await;
    fs::write(at("json"), br#"{"machines": {}}"#).unwrap();
    assert_refused(&at("json"), &["is not a state file"]).await;
    fs::write(at("short"), b"SQLite format 3\0").unwrap();
    assert_refused(&at("short"), &["is cut off"]).await;
    rusqlite::Connection::open(at("other"))
        .unwrap()
        .execute_batch("CREATE TABLE t (x)")
        .unwrap();
    assert_refused(&at("other"), &["another program"]).await;
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = valid(folder.path()).await;
    patch(&path, 60, &99_u32.to_be_bytes());
    assert_refused(&path, &["schema version 99", "newer"]).await;
}

#[tokio::test]
async fn a_damaged_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = valid(folder.path()).await;
    let whole = fs::read(&path).unwrap();
    assert!(whole.len() > 8 * 4096, "{}", whole.len());
    // Every page but the first, whose header is looked at before: a page of another kind, then one that is not there.
    let mut refused = 0;
    for page in 1..whole.len() / 4096 {
        let mut damaged = whole.clone();
        damaged[page * 4096..page * 4096 + 16].fill(0xff);
        fs::write(&path, &damaged).unwrap();
        assert_refused(&path, &["is damaged"]).await;
        refused += 1;
    }
    assert!(refused >= 8);
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert_refused(&path, &["is damaged"]).await;
    fs::write(&path, &whole).unwrap();
    Sqlite::open(&path).unwrap();
}

#[tokio::test]
async fn values_that_we_never_wrote_are_refused() {
    let statements = [
        "UPDATE machine SET state = 99 WHERE ordinal = 3",
        "UPDATE machine SET state = 2 WHERE ordinal = 3",
        "UPDATE machine SET state = 8 WHERE ordinal = 3",
        "UPDATE machine SET profile = 77 WHERE ordinal = 3",
        "UPDATE machine SET id = '' WHERE ordinal = 3",
        "UPDATE machine SET host_provider = 'half' WHERE ordinal = 3",
        "UPDATE machine SET create_operation = x'00' WHERE ordinal = 3",
        "UPDATE machine SET metadata = '{' WHERE ordinal = 3",
        "UPDATE profile SET body = '{}'",
        "INSERT INTO running VALUES (3, zeroblob(16), 0, 0, 0, 1, NULL, NULL)",
        "INSERT INTO running VALUES (99999, zeroblob(16), 0, 0, 0, 1, NULL, NULL)",
        "DROP TABLE mark",
    ];
    for statement in statements {
        let folder = tempfile::tempdir().unwrap();
        let path = valid(folder.path()).await;
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute_batch(statement).unwrap();
        connection.close().unwrap();
        assert_refused(&path, &["is damaged"]).await;
    }
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = Sqlite::open(folder.path().join("missing/state")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(
        error.to_string().contains("missing") && error.to_string().contains("create it"),
        "{error}"
    );
    let error = Sqlite::open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
}
