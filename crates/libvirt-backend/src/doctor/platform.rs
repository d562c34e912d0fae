//! What runs machines there: versions, KVM, machine type, firmware, size.

use libvirt_rpc::Connection;

use super::{Check, failed};
use crate::{
    failure::Doing as _,
    host::Facts,
    settings::{Accelerator, Firmware, Settings},
};

/// The oldest libvirt whose firmware can be chosen by name.
const OLDEST: u64 = 5_002_000;

pub(super) async fn look(
    connection: &Connection,
    settings: &Settings,
    tell: &mut (dyn FnMut(Check) + Send),
) -> Option<Facts> {
    match connection
        .library_version()
        .await
        .doing(|| "ask for libvirt's version".into())
    {
        Ok(version) if version < OLDEST => {
            let check = Check::warn("libvirt", format!("libvirt {} is older than 5.2", shown(version)));
            tell(check.remedy("upgrade the host: what machines are made of is not known to libvirt this old"));
        }
        Ok(version) => tell(Check::ok("libvirt", format!("libvirt {}", shown(version)))),
        Err(failure) => {
            tell(failed("libvirt", failure));
            return None;
        }
    }
    match connection
        .hypervisor_version()
        .await
        .doing(|| "ask for the version of QEMU".into())
    {
        Ok(version) => tell(Check::ok("qemu", format!("QEMU {}", shown(version)))),
        Err(failure) => {
            tell(failed("qemu", failure).remedy("install QEMU there (Debian: qemu-system-x86) and restart libvirtd"));
        }
    }
    let machine = &settings.machine;
    let facts = match Facts::ask(connection, machine).await {
        Ok(facts) => facts,
        Err(failure) => {
            tell(failed("hypervisor", failure));
            return None;
        }
    };
    let size = format!("{} CPUs, {} MiB of memory", facts.cpus, facts.memory_mib);
    tell(Check::ok("size", size));
    match &facts.platform {
        Err(reason) => tell(Check::fail("hypervisor", reason.as_str())),
        Ok(platform) => {
            let it = &platform.capabilities;
            let kvm = match (it.domain.as_str(), machine.accelerator) {
                ("kvm", _) => Check::ok("kvm", "KVM can be used"),
                (_, Accelerator::Qemu) => Check::ok("kvm", "machines are emulated, as `machine.accelerator` wants it"),
                _ => Check::warn("kvm", "there is no KVM: machines are emulated, some ten times slower")
                    .remedy("load the kvm module and let the qemu user open /dev/kvm"),
            };
            tell(kvm);
            let firmware = match machine.firmware {
                Firmware::Bios => "the architecture's own firmware",
                Firmware::Uefi => "UEFI",
                Firmware::UefiSecure => "UEFI with Secure Boot",
            };
            tell(Check::ok(
                "machine type",
                format!("{} is {} on {}", platform.machine_type, it.machine, it.arch),
            ));
            tell(Check::ok("firmware", firmware));
        }
    }
    Some(facts)
}

/// `9.0.0` of 9,000,000.
pub(super) fn shown(version: u64) -> String {
    format!("{}.{}.{}", version / 1_000_000, version / 1000 % 1000, version % 1000)
}
