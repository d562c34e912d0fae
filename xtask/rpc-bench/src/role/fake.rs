//! The fake daemon in a process of its own.

use std::path::Path;

use anyhow::{Context, Result};
use libvirt_rpc::fake::Daemon;

/// Listens until it is killed.
pub(super) fn serve(socket: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listening = Daemon::new().listen(socket);
        let listening = listening.with_context(|| format!("listening on {}", socket.display()))?;
        listening.await.context("the listener ended")
    })
}
