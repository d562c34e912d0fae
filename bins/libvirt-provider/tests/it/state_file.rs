//! The file given as `--state`: who may have it, and what it must be (issue 2, point 4).

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use bigfleet_proto::MachineState as S;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::harness::{AWAIT, Binding, Client, Exit, Launch, Random, eventually, fresh_port, operation};

/// A directory and a state file that a provider has used and left.
async fn used() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("state.db");
    let provider = Launch::on(&path).start().await;
    provider.configured(&Binding::to("c").with("k", "v")).await;
    let (exit, _) = provider.terminate().await;
    assert_eq!(exit.code(), Some(0), "{}", exit.output);
    (directory, path)
}

/// Whatever is in the directory, but for locks, which say nothing.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_none_or(|extension| extension != "lock"))
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Starts on a file that must be refused and left as it is.
async fn refused(path: &Path) -> Exit {
    let directory = path.parent().unwrap();
    let before = contents(directory);
    let exit = Launch::on(path).run().await;
    assert!(!exit.status.success(), "{}", exit.output);
    assert!(exit.code().is_some(), "ended by a signal: {exit:?}");
    assert!(!exit.output.contains("panicked"), "{}", exit.output);
    assert!(
        exit.output.contains(&path.display().to_string()),
        "the file is not named: {}",
        exit.output
    );
    let mut after = contents(directory);
    // SQLite may have looked for a log; an empty one says nothing.
    after.retain(|(path, content)| {
        before.iter().any(|(known, _)| known == path)
            || !(path.extension().is_some_and(|name| name == "db-shm") || content.is_empty())
    });
    let names = |files: &[(PathBuf, Vec<u8>)]| files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before));
    assert!(after == before, "the file was changed");
    exit
}

/// Refuses a file with this content.
async fn refused_content(content: &[u8]) -> Exit {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("state.db");
    fs::write(&path, content).unwrap();
    refused(&path).await
}

#[tokio::test]
async fn a_text_file_is_refused_and_left_alone() {
    refused_content(b"{\"machines\": []}\n").await;
    refused_content("certainly no database\n".repeat(1000).as_bytes()).await;
}

/// Trap of the reference: a file cut to nothing was taken for a first boot, and reopened every fence.
#[tokio::test]
async fn an_empty_file_is_refused_and_left_alone() {
    refused_content(b"").await;
}

#[tokio::test]
async fn a_truncated_header_is_refused_and_left_alone() {
    let (_directory, path) = used().await;
    let whole = fs::read(path).unwrap();
    for len in [1, 16, 50, 99, 100, 1000] {
        refused_content(&whole[..len]).await;
    }
}

#[tokio::test]
async fn a_truncated_file_is_refused_and_left_alone() {
    let (_directory, path) = used().await;
    let whole = fs::read(path).unwrap();
    refused_content(&whole[..whole.len() / 2]).await;
}

#[tokio::test]
async fn the_database_of_somebody_else_is_refused_and_left_alone() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("browser-history.sqlite");
    let theirs = Connection::open(&path).unwrap();
    theirs
        .execute_batch("CREATE TABLE visits (url TEXT); INSERT INTO visits VALUES ('https://example');")
        .unwrap();
    drop(theirs);
    refused(&path).await;
}

#[tokio::test]
async fn an_empty_database_of_somebody_else_is_refused_and_left_alone() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("other.sqlite");
    let theirs = Connection::open(&path).unwrap();
    theirs
        .execute_batch("PRAGMA user_version = 1; PRAGMA application_id = 7; VACUUM;")
        .unwrap();
    drop(theirs);
    refused(&path).await;
}

/// A downgrade must not damage what a newer version wrote.
#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let (_directory, path) = used().await;
    let newer = Connection::open(&path).unwrap();
    let version: i64 = newer.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert!(version > 0, "the schema has no version");
    newer.pragma_update(None, "user_version", version + 1).unwrap();
    drop(newer);
    let exit = refused(&path).await;
    let found = (version + 1).to_string();
    assert!(
        exit.output.contains(&found),
        "version {found} is not named: {}",
        exit.output
    );
}

/// A newer version was killed before it copied its log into the file, so that the file's header is still old.
#[tokio::test]
async fn a_newer_schema_in_the_log_is_refused_and_left_alone() {
    let (_directory, path) = used().await;
    let newer = Connection::open(&path).unwrap();
    let version: i64 = newer.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    newer.pragma_update(None, "user_version", version + 1).unwrap();
    let directory = TempDir::new().unwrap();
    let killed = directory.path().join("state.db");
    fs::copy(&path, &killed).unwrap();
    let log = fs::copy(path.with_extension("db-wal"), killed.with_extension("db-wal")).unwrap();
    assert!(log > 0, "there is no log to be read");
    let exit = refused(&killed).await;
    let found = (version + 1).to_string();
    assert!(
        exit.output.contains(&found),
        "version {found} is not named: {}",
        exit.output
    );
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_left_alone() {
    let (_directory, path) = used().await;
    let mut content = fs::read(path).unwrap();
    content[4096..].fill(0x55);
    refused_content(&content).await;
}

#[tokio::test]
async fn a_directory_is_refused() {
    let directory = TempDir::new().unwrap();
    let exit = Launch::on(directory.path()).run().await;
    assert!(!exit.status.success(), "{}", exit.output);
    assert!(
        exit.output.contains(&directory.path().display().to_string()),
        "{}",
        exit.output
    );
}

#[tokio::test]
async fn a_missing_folder_is_named() {
    let directory = TempDir::new().unwrap();
    let exit = Launch::on(directory.path().join("missing/state.db")).run().await;
    assert!(!exit.status.success(), "{}", exit.output);
    let folder = directory.path().join("missing").display().to_string();
    assert!(exit.output.contains(&folder), "{}", exit.output);
}

/// The second would overwrite what the first knows.
#[tokio::test]
async fn a_file_belongs_to_one_process_and_the_second_is_told_which() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("state.json");
    let first = Launch::on(&path).start().await;
    let id = first.idle().await;
    let exit = Launch::on(&path).run().await;
    assert!(!exit.status.success(), "{}", exit.output);
    let pid = first.pid().to_string();
    assert!(
        exit.output.contains(&pid),
        "process {pid} is not named: {}",
        exit.output
    );
    assert_eq!(first.state(&id).await, S::Idle);
    first.bind(&id, &Binding::to("c")).await;
    // And once it is gone, however it went, the file is free.
    drop(first);
    let second = Launch::on(&path).start().await;
    assert_eq!(second.state(&id).await, S::Configured);
}

/// Also when there is no file yet, and all of them would make it.
#[tokio::test]
async fn of_many_that_start_at_once_one_gets_the_file() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("state.json");
    let launches: Vec<_> = (0..4).map(|_| Launch::on(&path)).collect();
    let mut running: Vec<_> = launches.iter().map(|launch| launch.spawn(fresh_port())).collect();
    eventually("one is left", AWAIT, async || {
        running.retain_mut(|process| !process.has_ended());
        running.len() == 1
    })
    .await;
    let client = Client::connect(running[0].address()).await;
    client.idle().await;
    assert!(!running[0].has_ended());
}

/// Wherever the kill meets the making of the file, the next start finds nothing or a whole one.
#[tokio::test]
async fn a_first_start_that_was_killed_is_no_obstacle() {
    let mut random = Random::new(u64::from(std::process::id()));
    for _ in 0..10 {
        let directory = TempDir::new().unwrap();
        let launch = Launch::on(directory.path().join("state.json"));
        let mut first = launch.spawn(fresh_port());
        // The random moment is what is tested.
        tokio::time::sleep(Duration::from_millis(random.below(60) as u64)).await;
        first.kill();
        let provider = launch.start().await;
        assert_eq!(provider.fleet().await.len(), 64);
        provider.idle().await;
    }
}

/// Who moves a file away to begin anew may forget its log: what is in there belongs to the file that is gone.
#[tokio::test]
async fn a_log_without_its_file_is_not_mixed_into_a_new_one() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("state.db");
    let log = path.with_extension("db-wal");
    let launch = Launch::on(&path);
    let provider = launch.start().await;
    let id = provider.configured(&Binding::to("old")).await;
    // The blob is erased by emptying the log; what comes after that is a part of the whole.
    eventually("an empty log", AWAIT, async || {
        fs::metadata(&log).is_ok_and(|log| log.len() == 0)
    })
    .await;
    provider.release(&id, 0).await;
    let launch = provider.kill();
    assert!(fs::metadata(&log).unwrap().len() > 0);
    fs::remove_file(&path).unwrap();

    let mut running = launch.spawn(fresh_port());
    let client = Client::lazily(running.address());
    let mut fleet = None;
    eventually("an answer or an end", AWAIT, async || {
        fleet = client.try_list(Default::default()).await.ok();
        fleet.is_some() || running.has_ended()
    })
    .await;
    match fleet {
        // Refused, then, and it is said what is in the way.
        None => assert!(running.log_text().contains("db-wal"), "{}", running.log_text()),
        Some(fleet) => {
            assert_eq!(fleet.machines.len(), 64);
            let fresh = fleet.machines.iter().all(|machine| machine.state() == S::Speculative);
            assert!(fresh, "{:?}", fleet.machines);
        }
    }
}

/// A link is another name of the same file, not another file.
#[tokio::test]
async fn another_name_of_the_same_file_does_not_help() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("state.db");
    let first = Launch::on(&path).start().await;
    first.idle().await;
    let link = directory.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let exit = Launch::on(&link).run().await;
    assert!(!exit.status.success(), "{}", exit.output);
}

#[tokio::test]
async fn only_the_owner_can_read_the_state() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("state.json");
    let provider = Launch::on(&path).start().await;
    provider.configured(&Binding::to("c")).await;
    for entry in fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{:?} has mode {mode:o}", entry.file_name());
    }
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "{mode:o}");
}

/// Any name will do, and none implies a format.
#[tokio::test]
async fn odd_file_names_work() {
    let directory = TempDir::new().unwrap();
    for name in ["state.json", "no-extension", "a b ü.db", "q?mode=ro#x%41"] {
        let path = directory.path().join(name);
        let provider = Launch::on(&path).start().await;
        let id = provider.pick_one().await;
        operation(provider.create(&id, &crate::harness::Token::unfenced()).await);
        provider.reach(&id, S::Idle).await;
        let provider = provider.restart().await;
        assert_eq!(provider.state(&id).await, S::Idle, "{name}");
        assert!(path.is_file(), "{name}");
    }
}
