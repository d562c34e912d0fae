//! Opening: look before touching.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, config::DbConfig, ffi};

use super::{Error, ErrorKind, Sqlite, lock::Lock, schema};

/// Frames in the log before a commit copies it back into the file: 64 MiB. Larger than SQLite's default, so that
/// pages that many commits touch are copied once; a start after a crash still reads it in some 50 ms.
const LOG_FRAMES: i64 = 16_384;
/// KiB of pages kept in memory.
const CACHE_KIB: i64 = 16_384;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";

pub(super) fn open(path: &Path) -> Result<Sqlite, Error> {
    let path = resolve(path)?;
    let lock = Lock::take(&path)?;
    if !path.exists() {
        let log = beside(&path, "-wal");
        if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            return Err(orphaned(&path, &log));
        }
        create(&path)?;
    }
    examine(&path)?;
    let mut connection = connect(&path).map_err(|error| unusable(&path, error))?;
    // Again, because what is newer may be in the log still.
    let version = schema::version(&connection).map_err(|error| unusable(&path, error))?;
    known_version(&path, version)?;
    schema::migrate(&mut connection, schema::MIGRATIONS).map_err(|error| unusable(&path, error))?;
    Ok(Sqlite {
        connection,
        path,
        unsettled: true,
        lock,
    })
}

/// What kind of failure SQLite's is.
pub(super) fn kind_of(error: &rusqlite::Error) -> ErrorKind {
    match error.sqlite_error_code() {
        Some(ffi::ErrorCode::DatabaseCorrupt | ffi::ErrorCode::NotADatabase) => ErrorKind::Refused,
        Some(ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked) => ErrorKind::InUse,
        _ => ErrorKind::Io,
    }
}

pub(super) fn refused(path: &Path, why: &str) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!("state file `{}` {why}; it was left untouched", path.display()),
    )
}

/// SQLite would take such a log for the new file's own.
fn orphaned(path: &Path, log: &Path) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!(
            "log `{}` is there without its state file `{}`; put the file back, or move the log away to begin anew",
            log.display(),
            path.display()
        ),
    )
}

fn known_version(path: &Path, version: usize) -> Result<(), Error> {
    let known = schema::VERSION;
    if version > known {
        let why = format!("has schema version {version}, this program knows up to {known}: run a newer one");
        return Err(refused(path, &why));
    }
    Ok(())
}

/// A file that belongs to another one by its name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(super) fn unusable(path: &Path, error: rusqlite::Error) -> Error {
    match kind_of(&error) {
        ErrorKind::Refused => refused(
            path,
            "is damaged: restore it from a backup, or move it away to begin anew",
        )
        .with_source(error),
        kind => Error::new(kind, format!("state file `{}` cannot be opened", path.display())).with_source(error),
    }
}

/// One name for one file, so that two ways to it meet at one lock.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, Error> {
    if let Ok(real) = fs::canonicalize(path) {
        return Ok(real);
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = path
        .file_name()
        .ok_or_else(|| Error::new(ErrorKind::Io, format!("state path `{}` names no file", path.display())))?;
    let folder = fs::canonicalize(folder).map_err(|error| {
        Error::new(
            ErrorKind::Io,
            format!(
                "folder `{}` of the state file cannot be used; create it, writable for this user",
                folder.display()
            ),
        )
        .with_source(error)
    })?;
    Ok(folder.join(name))
}

/// Makes a new file elsewhere and moves it into place, so that there never is half a file of ours.
fn create(path: &Path) -> Result<(), Error> {
    let draft = beside(path, ".new");
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
        Error::new(
            ErrorKind::Io,
            format!("state file `{}` cannot be created; check its folder", path.display()),
        )
        .with_source(error)
    };
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error.into())),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft);
    let file = file.map_err(|error| failed(error.into()))?;
    prepare(&draft).map_err(|error| failed(error.into()))?;
    let moved = file.sync_all().and_then(|()| fs::rename(&draft, path)).and_then(|()| {
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        File::open(folder)?.sync_all()
    });
    moved.map_err(|error| failed(error.into()))
}

fn prepare(draft: &Path) -> rusqlite::Result<()> {
    let mut connection = Connection::open(draft)?;
    connection.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    schema::migrate(&mut connection, schema::MIGRATIONS)?;
    connection.close().map_err(|(_, error)| error)
}

/// Refuses what is not ours, and keeps it from others.
fn examine(path: &Path) -> Result<(), Error> {
    let (_, file) = recognize(path)?;
    let tightened = file
        .metadata()
        .map(|metadata| metadata.permissions())
        .and_then(|mut permissions| {
            if permissions.mode() & 0o077 == 0 {
                return Ok(());
            }
            permissions.set_mode(0o600);
            fs::set_permissions(path, permissions)
        });
    tightened.map_err(|error| unreadable(path, error))
}

/// The version and the file, if it is ours by its first bytes: before SQLite is let at it.
pub(super) fn recognize(path: &Path) -> Result<(usize, File), Error> {
    let mut file = File::open(path).map_err(|error| unreadable(path, error))?;
    let mut head = Vec::with_capacity(100);
    let read = file.by_ref().take(100).read_to_end(&mut head);
    read.map_err(|error| unreadable(path, error))?;
    if head.is_empty() {
        return Err(refused(
            path,
            "is empty: if there never was any state, remove it, or else restore a backup",
        ));
    }
    if !head.starts_with(MAGIC) {
        return Err(refused(path, "is not a state file of this provider: name another one"));
    }
    let number = |at: usize| {
        let bytes = head.get(at..).and_then(|rest| rest.first_chunk::<4>());
        bytes.map(|bytes| u32::from_be_bytes(*bytes))
    };
    let (Some(version), Some(application)) = (number(60), number(68)) else {
        return Err(refused(
            path,
            "is cut off: restore it from a backup, or move it away to begin anew",
        ));
    };
    if application != schema::APPLICATION_ID {
        return Err(refused(path, "is a SQLite file of another program: name another one"));
    }
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    known_version(path, version)?;
    Ok((version, file))
}

fn unreadable(path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("state file `{}` cannot be read", path.display())).with_source(error)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_PRIVATE_CACHE,
    )?;
    // Until close() says that all is well, closing writes nothing back: a refused file stays as it is.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "secure_delete", "ON")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", LOG_FRAMES, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}
