//! Looking at a state file that a provider may have open: it keeps its lock, and no byte of file or log is changed.

use std::{
    fs::{File, TryLockError},
    io::Read as _,
    path::Path,
};

use rusqlite::{Connection, OpenFlags, config::DbConfig};

use super::{
    Error, ErrorKind, Snapshot,
    open::{beside, recognize, refused, resolve, unusable},
    read, schema,
};

/// A state file as it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// The version of its schema.
    pub schema: usize,
    /// The version that this program writes; older files are brought up to it at the next start.
    pub newest_schema: usize,
    /// Who has it open, such as `process 4711`.
    pub holder: Option<String>,
}

/// What is at this path; nothing where there is no file.
///
/// # Errors
/// When it cannot be read, or is no state file of this or an older version.
pub(super) fn find(path: &Path) -> Result<Option<Found>, Error> {
    let path = resolve(path)?;
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some(Found {
        schema: recognize(&path)?.0,
        newest_schema: schema::VERSION,
        holder: holder(&path)?,
    }))
}

/// Everything in it.
pub(super) fn read(path: &Path) -> Result<Snapshot, Error> {
    let path = resolve(path)?;
    recognize(&path)?;
    let connection = connect(&path).map_err(|error| unusable(&path, error))?;
    // Again, because what is newer may be in the log still.
    let version = schema::version(&connection).map_err(|error| unusable(&path, error))?;
    if version != schema::VERSION {
        let known = schema::VERSION;
        let why = format!("has schema version {version}, and only {known} can be looked at: start its provider once");
        return Err(refused(&path, &why));
    }
    read::snapshot(&connection, &path)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = if beside(path, "-shm").exists() || beside(path, "-wal").exists() {
        Connection::open_with_flags(path, flags)?
    } else {
        // Nobody has it open: without this, SQLite would leave an empty log behind.
        let uri = format!("file:{}?immutable=1", escaped(path));
        Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?
    };
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

/// A path as a URI has it.
fn escaped(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let bytes = path.as_os_str().as_bytes().iter();
    bytes.fold(String::new(), |text, byte| {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            text + &char::from(*byte).to_string()
        } else {
            format!("{text}%{byte:02X}")
        }
    })
}

/// Asks for the lock beside all others who only look, and lets go of it at once.
fn holder(state: &Path) -> Result<Option<String>, Error> {
    let path = beside(state, ".lock");
    let failed = |error| {
        Error::new(
            ErrorKind::Io,
            format!("looking at lock file `{}` failed; check its folder", path.display()),
        )
        .with_source(error)
    };
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            file.read_to_string(&mut holder).map_err(failed)?;
            let holder = holder.trim();
            Ok(Some(
                if holder.is_empty() { "another process" } else { holder }.to_owned(),
            ))
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}
