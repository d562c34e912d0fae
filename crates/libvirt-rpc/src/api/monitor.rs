//! QEMU's monitor, past libvirt. It taints the domain.

use super::calls;
use crate::wire::{
    constant::qemu::DomainQemuMonitorCommandFlags,
    qemu::{DomainMonitorCommand, DomainMonitorCommandArgs},
    remote::record::DomainRef,
};

calls! {
    /// Sends a command, JSON unless the flags say otherwise, and returns the answer.
    domain_monitor_command(domain: &DomainRef, command: &str, flags: DomainQemuMonitorCommandFlags) -> String
        = DomainMonitorCommand (DomainMonitorCommandArgs { dom: domain.clone(), cmd: command.into(), flags: flags.bits() })
        => |r| r.result.into_string_lossy();
}
