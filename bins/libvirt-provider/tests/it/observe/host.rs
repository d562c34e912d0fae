//! Hosts for the real binary: libvirtds in memory behind real sockets.

use std::path::PathBuf;

use libvirt_rpc::fake::{Daemon, ExecResult, Guest};
use tempfile::TempDir;

use crate::harness::Launch;

/// A host whose machines are IDLE as soon as their agent answers.
pub(super) struct Host {
    pub(super) daemon: Daemon,
    socket: PathBuf,
    _folder: TempDir,
}

impl Host {
    pub(super) async fn start() -> Self {
        let daemon = Daemon::new();
        daemon.set_guest(Guest::new().on_exec(|_| ExecResult::default()));
        let connection = daemon.connect().await.unwrap();
        let pool = connection.storage_pool_lookup_by_name("default").await.unwrap();
        let image = "<volume><name>golden.qcow2</name><capacity>1073741824</capacity>\
                     <target><format type='qcow2'/></target></volume>";
        connection
            .volume_create(&pool, image, Default::default())
            .await
            .unwrap();
        Self::at_new_address(daemon)
    }

    /// The same host under another address.
    pub(super) fn again(&self) -> Self {
        Self::at_new_address(self.daemon.clone())
    }

    fn at_new_address(daemon: Daemon) -> Self {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("libvirt-sock");
        drop(daemon.listen(&socket).unwrap());
        Self {
            daemon,
            socket,
            _folder: folder,
        }
    }

    pub(super) fn uri(&self) -> String {
        format!("qemu+unix:///system?socket={}", self.socket.display())
    }
}

/// A provider on hosts, as far as flags go.
pub(super) fn on_hosts() -> Launch {
    Launch::new()
        .without_fake()
        .flag("--image=golden.qcow2")
        .flag("--set=guest.idle_when=agent")
        .flag("--set=guest.unique_machine_id=false")
}
