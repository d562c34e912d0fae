//! What the engine knew at its last look, and which machines are being worked on.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use providerkit_backend::{Known, MachineId};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

#[derive(Debug, Default)]
pub(crate) struct Watched {
    known: Mutex<Arc<HashMap<MachineId, Known>>>,
    /// When that was, in seconds since 1970.
    at: AtomicU64,
    turns: Mutex<HashMap<MachineId, Arc<AsyncMutex<()>>>>,
}

impl Watched {
    /// Takes over what the engine knows.
    pub(crate) fn look(&self, known: &[Known]) {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        self.at.store(now.as_secs(), Ordering::Relaxed);
        let known = known
            .iter()
            .map(|known| (known.machine.id.clone(), known.clone()))
            .collect();
        *lock(&self.known) = Arc::new(known);
    }

    /// Whether the engine could know of a domain of that time: what was defined since, it was not asked about.
    pub(crate) fn is_newer_than(&self, since: u64) -> bool {
        self.at.load(Ordering::Relaxed) > since
    }

    /// What the engine knew.
    pub(crate) fn known(&self) -> Arc<HashMap<MachineId, Known>> {
        Arc::clone(&lock(&self.known))
    }

    /// Waits until nothing else works on a machine, and keeps everything else from it.
    pub(crate) async fn turn(&self, machine: &MachineId) -> OwnedMutexGuard<()> {
        self.mutex(machine).lock_owned().await
    }

    /// Takes a machine that nothing works on.
    pub(crate) fn try_turn(&self, machine: &MachineId) -> Option<OwnedMutexGuard<()>> {
        self.mutex(machine).try_lock_owned().ok()
    }

    fn mutex(&self, machine: &MachineId) -> Arc<AsyncMutex<()>> {
        let mut turns = lock(&self.turns);
        // Those that nobody holds are made anew when they are wanted.
        if turns.len() > 1024 {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(turns.entry(machine.clone()).or_default())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
