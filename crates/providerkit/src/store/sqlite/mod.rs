//! The durable store: one SQLite file in WAL mode with `synchronous=FULL`.
//!
//! - One commit of the engine is one transaction, so a group of calls costs one sync of the disk.
//! - The file is ours alone: a lock file beside it names the process that has it, both are of mode 0600.
//! - What is no valid file of ours is refused before anything is written to it.
//! - Inputs of a transition (bootstrap blobs) are zeroed in the file when it ends (`secure_delete`), and
//!   [`settle`](Store::settle) then empties the write-ahead log, where they would stay until overwritten.

mod lock;
mod look;
mod open;
mod read;
mod schema;
mod write;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, config::DbConfig};

pub use self::look::Found;
use super::{Change, Error, ErrorKind, Snapshot, Store};

/// See the module.
pub struct Sqlite {
    connection: Connection,
    path: PathBuf,
    /// Whether inputs were erased since the log was last emptied.
    unsettled: bool,
    /// Held as long as the file is open.
    lock: lock::Lock,
}

impl Sqlite {
    /// Opens the state at this path, of any name, or creates it where nothing is.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] when another process has it, [`ErrorKind::Refused`] when what is there is not a valid
    /// state of this or an older version (it is left untouched), [`ErrorKind::Io`] when the disk does not play along.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        open::open(path.as_ref())
    }

    /// What is at this path, without opening it for good; nothing where there is no file.
    ///
    /// # Errors
    /// As [`open`](Self::open), but never [`ErrorKind::InUse`].
    pub fn find(path: impl AsRef<Path>) -> Result<Option<Found>, Error> {
        look::find(path.as_ref())
    }

    /// Everything in the file at this path, which a provider may have open: its lock is not touched, and no byte of
    /// file or log is changed.
    ///
    /// # Errors
    /// As [`open`](Self::open), but never [`ErrorKind::InUse`]; also when the file is of an older version.
    pub fn read(path: impl AsRef<Path>) -> Result<Snapshot, Error> {
        look::read(path.as_ref())
    }

    fn failed(&self, what: &str, source: rusqlite::Error) -> Error {
        let kind = open::kind_of(&source);
        let remedy = match kind {
            ErrorKind::Refused => "restore it from a backup, or move it away to begin anew",
            _ => "check that its disk has space and works",
        };
        Error::new(
            kind,
            format!("{what} state file `{}` failed; {remedy}", self.path.display()),
        )
        .with_source(source)
    }
}

impl Store for Sqlite {
    fn load(&mut self) -> Result<Snapshot, Error> {
        read::snapshot(&self.connection, &self.path)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), Error> {
        let erased = write::commit(&mut self.connection, changes).map_err(|error| self.failed("writing", error))?;
        self.unsettled |= erased;
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Error> {
        let busy: i64 = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
            .map_err(|error| self.failed("emptying the log of", error))?;
        // Busy: a reader of the file (somebody's sqlite3) holds the log; the next call tries again.
        self.unsettled = busy != 0;
        Ok(())
    }

    fn unsettled(&self) -> bool {
        self.unsettled
    }

    fn size(&self) -> Option<u64> {
        let file = std::fs::metadata(&self.path).ok()?.len();
        // Not there until something was written.
        let log = std::fs::metadata(open::beside(&self.path, "-wal")).map_or(0, |log| log.len());
        Some(file + log)
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        let Self {
            connection, path, lock, ..
        } = *self;
        // Only a file that was opened well is written back to.
        let result = connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            .and_then(|_| connection.close().map_err(|(_, error)| error));
        drop(lock);
        result.map_err(|error| {
            Error::new(ErrorKind::Io, format!("closing state file `{}` failed", path.display())).with_source(error)
        })
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
