//! The guests of fake hosts: how long they take, and what they find at a boot.

use libvirt_rpc::fake::{Files, Guest};
use uuid::Uuid;

use super::{hook::Hooks, shell};

/// Which boot it is, and since when: what the kernel knows in a real guest.
pub(super) const BOOT: &str = "/run/boot";
pub(super) const MACHINE_ID: &str = "/etc/machine-id";

pub(super) fn new(hooks: Hooks) -> Guest {
    Guest::new()
        .agent_time(hooks.delay)
        .shutdown_time(hooks.delay)
        .on_boot(|_, files| boot(files))
        .program("/bin/sh", move |exec, files| shell::run(exec, files, hooks))
}

/// What a generalised image does at its first boot, and any at each.
fn boot(files: &mut Files) {
    if files.read(MACHINE_ID).is_none() {
        files.write(MACHINE_ID, format!("{}\n", Uuid::new_v4().simple()));
    }
    files.write(BOOT, format!("{} {}", Uuid::new_v4(), shell::now()));
}
