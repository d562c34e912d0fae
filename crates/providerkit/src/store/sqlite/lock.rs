//! One process a state file.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::Duration,
};

use super::{Error, ErrorKind, open::beside};

/// Whoever only looks (see `look`) holds it for a moment.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);

/// Held by an open file handle, so that the kernel frees it however the process ends. A file of its own, because
/// closing any second handle on a SQLite file would drop SQLite's own locks on it.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(state: &Path) -> Result<Self, Error> {
        let path = beside(state, ".lock");
        let failed = |what: &str, error| {
            Error::new(
                ErrorKind::Io,
                format!("{what} lock file `{}` failed; check its folder", path.display()),
            )
            .with_source(error)
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| failed("opening", error))?;
        let mut tried = file.try_lock();
        for _ in 1..TRIES {
            let Err(TryLockError::WouldBlock) = tried else { break };
            std::thread::sleep(PAUSE);
            tried = file.try_lock();
        }
        match tried {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Whoever holds it may not have written its name yet.
                file.read_to_string(&mut holder).ok();
                let holder = holder.trim();
                let holder = if holder.is_empty() { "another process" } else { holder };
                return Err(Error::new(
                    ErrorKind::InUse,
                    format!(
                        "state file `{}` is in use by {holder}; stop it, or give this one another file",
                        state.display()
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed("locking", error)),
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "process {}", std::process::id()))
            .map_err(|error| failed("writing", error))?;
        Ok(Self { _file: file })
    }
}
