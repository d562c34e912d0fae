//! The tables, by version.

use rusqlite::Connection;

/// Tells our files from other SQLite files: "BFPK" as a number, in the file's header.
pub(super) const APPLICATION_ID: u32 = 0x4246_504b;

/// What leads from each version to the next; the file's `user_version` is how many have been run.
pub(super) const MIGRATIONS: &[&str] = &[V1, V2];

/// The version this code writes.
pub(super) const VERSION: usize = MIGRATIONS.len();

const V1: &str = "
    CREATE TABLE counter (
        name TEXT NOT NULL PRIMARY KEY,
        value INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE boot (
        number INTEGER PRIMARY KEY,
        tag INTEGER NOT NULL,
        base INTEGER NOT NULL,
        started_ms INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE profile (
        number INTEGER PRIMARY KEY,
        body TEXT NOT NULL
    ) STRICT;
    CREATE TABLE machine (
        ordinal INTEGER PRIMARY KEY,
        id TEXT NOT NULL,
        slot TEXT,                  -- NULL: the same as id
        generation INTEGER NOT NULL,
        hosted INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        state INTEGER NOT NULL,
        profile INTEGER NOT NULL,
        host_provider TEXT,
        host_reference TEXT,
        cluster TEXT,
        metadata TEXT,              -- JSON object; NULL: empty
        last_error TEXT,
        create_operation BLOB NOT NULL,     -- zeros: none yet
        configure_operation BLOB NOT NULL,
        drain_operation BLOB NOT NULL,
        delete_operation BLOB NOT NULL,
        failed_operation BLOB,
        failed_transition INTEGER,
        failed_ms INTEGER,
        cleaned INTEGER
    ) STRICT;
    CREATE TABLE mark (
        machine TEXT NOT NULL,
        shard TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        sequence INTEGER NOT NULL,
        touched INTEGER NOT NULL,
        PRIMARY KEY (machine, shard)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE running (
        ordinal INTEGER PRIMARY KEY,
        operation BLOB NOT NULL,
        transition INTEGER NOT NULL,
        accepted_ms INTEGER NOT NULL,
        deadline_ms INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        bootstrap BLOB,
        grace_s INTEGER
    ) STRICT;
";

/// Before it, nothing was withheld; a machine that came back to SPECULATIVE may have changed since, which is later than
/// its return, so a delta may carry it once too often, never too seldom.
const V2: &str = "
    ALTER TABLE machine ADD COLUMN returned INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE machine ADD COLUMN withheld TEXT;
    UPDATE machine SET returned = revision WHERE state = 1 AND delete_operation <> zeroblob(16);
";

/// Runs what is missing, all or nothing.
pub(super) fn migrate(connection: &mut Connection, migrations: &[&str]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let done = version(&transaction)?;
    for migration in migrations.iter().skip(done) {
        transaction.execute_batch(migration)?;
    }
    if done < migrations.len() {
        transaction.pragma_update(None, "user_version", migrations.len() as i64)?;
    }
    transaction.commit()
}

/// How many migrations were run on it.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<usize> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_brought_forward_step_by_step_and_only_once() {
        let mut connection = Connection::open_in_memory().unwrap();
        let steps = [
            "CREATE TABLE a (x)",
            "ALTER TABLE a ADD COLUMN y",
            "INSERT INTO a VALUES (1, 2)",
        ];
        for upto in [1, 3, 3] {
            migrate(&mut connection, &steps[..upto]).unwrap();
        }
        let rows: i64 = connection
            .query_row("SELECT count(y) FROM a", [], |row| row.get(0))
            .unwrap();
        assert_eq!(rows, 1);
    }

    #[test]
    fn a_migration_that_fails_leaves_the_version_before() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &["CREATE TABLE a (x)"]).unwrap();
        migrate(
            &mut connection,
            &["CREATE TABLE a (x)", "CREATE TABLE b (x)", "nonsense"],
        )
        .unwrap_err();
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .unwrap();
        let version: i64 = connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap();
        assert_eq!((tables, version), (1, 1));
    }
}
