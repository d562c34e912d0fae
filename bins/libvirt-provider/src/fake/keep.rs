//! What the fake hosts remember, beside the state file: one SQLite file with a row for each piece of a host, written as
//! the piece changes (ADR 0015).
//!
//! It survives the end of the process, however that comes about, but not that of this machine: nothing is synced, since
//! nobody's workload is on a fake host. Blobs are in it for as long as they are in a guest, and overwritten then.

use std::{
    fs::OpenOptions,
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use libvirt_rpc::fake::{Daemon, Record};
use rusqlite::{Connection, OpenFlags, params};

/// What tells this file from any other of SQLite's.
const APPLICATION: i32 = 0x6266_6b68;

/// The file, for all hosts.
#[derive(Clone, Debug)]
pub(super) struct Shelf {
    path: PathBuf,
    connection: Arc<Mutex<Option<Connection>>>,
}

impl Shelf {
    /// Opens the file that goes with a state file, if there is one; made it is with the first change, so that none is left
    /// beside a state file that is refused. Whoever has that has this one.
    ///
    /// # Errors
    /// When it is another program's, damaged, or cannot be used.
    pub(super) fn open(state: &Path) -> anyhow::Result<Self> {
        let path = beside(state);
        let opened = path.exists().then(|| open(&path)).transpose().with_context(|| {
            format!(
                "`{}`, where the fake hosts are kept, cannot be used; with it moved away they begin anew, without \
                 machines",
                path.display()
            )
        })?;
        Ok(Self {
            path,
            connection: Arc::new(Mutex::new(opened)),
        })
    }

    /// Has a host go on as it was left, and keeps what becomes of it.
    ///
    /// # Errors
    /// When what is there is not what a host left.
    pub(super) fn keep(&self, host: &str, daemon: &Daemon) -> anyhow::Result<()> {
        let unusable = || format!("what is kept of it in `{}` cannot be used", self.path.display());
        let left = self.read(host).with_context(unusable)?;
        let (shelf, host) = (self.clone(), host.to_owned());
        let keeper = move |records: &[Record]| {
            shelf.write(&host, records).map_err(|error| {
                tracing::warn!(%host, error = %format!("{error:#}"), "a fake host cannot keep what changed, and hangs up");
                io::Error::other(error)
            })
        };
        daemon.live_on(left, keeper).with_context(unusable)
    }

    fn read(&self, host: &str) -> rusqlite::Result<Vec<Record>> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(connection) = &*connection else {
            return Ok(Vec::new());
        };
        let mut rows = connection.prepare("SELECT key, value FROM records WHERE host = ?1")?;
        let records = rows.query_map([host], |row| {
            Ok(Record {
                key: row.get(0)?,
                value: Some(row.get(1)?),
            })
        })?;
        records.collect()
    }

    fn write(&self, host: &str, records: &[Record]) -> anyhow::Result<()> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match &mut *connection {
            Some(connection) => connection,
            none => none.insert(open(&self.path)?),
        };
        Ok(write(connection, host, records)?)
    }
}

/// `state.json` has `state.json.hosts`.
fn beside(state: &Path) -> PathBuf {
    let mut name = state.as_os_str().to_owned();
    name.push(".hosts");
    name.into()
}

fn open(path: &Path) -> anyhow::Result<Connection> {
    // For nobody else, from the first byte on.
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    // A journal that is emptied and rows that are overwritten: no blob stays behind. A log would keep them for long.
    connection.pragma_update_and_check(None, "journal_mode", "truncate", |_| Ok(()))?;
    connection.pragma_update(None, "secure_delete", "ON")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    let making = connection.transaction()?;
    let tables: i64 = making.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables == 0 {
        making.pragma_update(None, "application_id", APPLICATION)?;
        making.execute_batch(
            "CREATE TABLE records (host TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (host, key)) \
             WITHOUT ROWID",
        )?;
    }
    let application: i32 = making.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    anyhow::ensure!(application == APPLICATION, "it is a file of another program");
    making.commit()?;
    Ok(connection)
}

/// All of it or nothing.
fn write(connection: &mut Connection, host: &str, records: &[Record]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for Record { key, value } in records {
        match value {
            Some(value) => transaction
                .prepare_cached("REPLACE INTO records (host, key, value) VALUES (?1, ?2, ?3)")?
                .execute(params![host, key, value])?,
            None => transaction
                .prepare_cached("DELETE FROM records WHERE host = ?1 AND key = ?2")?
                .execute(params![host, key])?,
        };
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn the_file_of_another_program_is_left_alone() {
        let directory = TempDir::new().unwrap();
        let state = directory.path().join("state");
        let path = beside(&state);
        let theirs = Connection::open(&path).unwrap();
        theirs.execute_batch("CREATE TABLE visits (url TEXT)").unwrap();
        drop(theirs);
        let before = fs::read(&path).unwrap();
        let refused = format!("{:#}", Shelf::open(&state).unwrap_err());
        assert!(
            refused.contains("state.hosts") && refused.contains("another program"),
            "{refused}"
        );
        assert_eq!(fs::read(&path).unwrap(), before);
        fs::write(&path, "certainly no database\n".repeat(1000)).unwrap();
        assert!(Shelf::open(&state).is_err());
    }

    #[test]
    fn rows_are_each_hosts_own_and_come_back() {
        let directory = TempDir::new().unwrap();
        let state = directory.path().join("state");
        let record = |key: &str, value: Option<&str>| Record {
            key: key.to_owned(),
            value: value.map(|value| value.as_bytes().to_vec()),
        };
        let shelf = Shelf::open(&state).unwrap();
        assert!(!beside(&state).exists());
        let put = |host, records: &[Record]| shelf.write(host, records).unwrap();
        put("a", &[record("k", Some("1")), record("gone", Some("x"))]);
        put("b", &[record("k", Some("2"))]);
        put("a", &[record("k", Some("3")), record("gone", None)]);
        drop(shelf);
        let shelf = Shelf::open(&state).unwrap();
        assert_eq!(shelf.read("a").unwrap(), [record("k", Some("3"))]);
        assert_eq!(shelf.read("b").unwrap(), [record("k", Some("2"))]);
    }
}
