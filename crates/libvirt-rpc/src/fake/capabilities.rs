//! What host and hypervisor can do, as XML.

use super::{
    call::{Call, Refusal},
    host::{Host, Virtualization},
};
use crate::wire::{
    constant::error::ErrorNumber,
    remote::connect::{
        ConnectGetCapabilities, ConnectGetCapabilitiesRet, ConnectGetDomainCapabilities,
        ConnectGetDomainCapabilitiesRet,
    },
};

const EMULATOR: &str = "/usr/bin/qemu-system-x86_64";
/// Short names of machines and what they stand for.
const MACHINES: [(&str, &str); 2] = [("pc", "pc-i440fx-9.2"), ("q35", "pc-q35-9.2")];
const FIRMWARE: &str = "/usr/share/OVMF/OVMF_CODE_4M.fd";

pub(super) fn answer(call: &mut Call<'_>) {
    call.on::<ConnectGetCapabilities>(|world, ()| {
        Ok(ConnectGetCapabilitiesRet {
            capabilities: host(&world.host).into(),
        })
    });
    call.on::<ConnectGetDomainCapabilities>(|world, args| {
        let given = |text: &Option<crate::wire::xdr::Text>, otherwise: &str| {
            text.as_ref().map_or_else(|| otherwise.to_owned(), ToString::to_string)
        };
        let kvm = world.host.virtualization == Virtualization::Kvm;
        let kind = given(&args.virttype, if kvm { "kvm" } else { "qemu" });
        if kind == "kvm" && !kvm {
            let message = format!("invalid argument: KVM is not supported by '{EMULATOR}' on this host");
            return Err(Refusal::new(ErrorNumber::ERR_INVALID_ARG, message));
        }
        let arch = given(&args.arch, "x86_64");
        if arch != "x86_64" {
            let message = format!("invalid argument: unable to find any emulator to serve '{arch}' architecture");
            return Err(Refusal::new(ErrorNumber::ERR_INVALID_ARG, message));
        }
        let machine = given(&args.machine, "pc");
        let Some((_, machine)) = MACHINES
            .iter()
            .find(|(short, full)| [*short, *full].contains(&&*machine))
        else {
            let message =
                format!("invalid argument: the machine '{machine}' is not supported by emulator '{EMULATOR}'");
            return Err(Refusal::new(ErrorNumber::ERR_INVALID_ARG, message));
        };
        Ok(ConnectGetDomainCapabilitiesRet {
            capabilities: domain(&kind, machine).into(),
        })
    });
}

fn host(host: &Host) -> String {
    let each = host.memory_kib / u64::try_from(host.cells).unwrap_or(1);
    let cpus = host.cpus / host.cells;
    let cell = |id: i32| {
        let list: String = (id * cpus..(id + 1) * cpus)
            .map(|cpu| format!("<cpu id='{cpu}' socket_id='0' die_id='0' core_id='{cpu}' siblings='{cpu}'/>"))
            .collect();
        format!("<cell id='{id}'><memory unit='KiB'>{each}</memory><cpus num='{cpus}'>{list}</cpus></cell>")
    };
    let cells: String = (0..host.cells).map(cell).collect();
    let machines: String = MACHINES
        .iter()
        .map(|(short, full)| {
            format!(
                "<machine maxCpus='288'>{full}</machine><machine canonical='{full}' maxCpus='288'>{short}</machine>"
            )
        })
        .collect();
    let kvm = match host.virtualization {
        Virtualization::Kvm => "<domain type='kvm'/>",
        Virtualization::Qemu => "",
    };
    format!(
        "<capabilities><host><uuid>fafafafa-fafa-fafa-fafa-fafafafafafa</uuid><cpu><arch>x86_64</arch>\
         <model>EPYC-Milan</model><vendor>AMD</vendor>\
         <topology sockets='1' dies='1' cores='{cpus}' threads='1'/></cpu>\
         <topology><cells num='{}'>{cells}</cells></topology></host>\
         <guest><os_type>hvm</os_type><arch name='x86_64'><wordsize>64</wordsize><emulator>{EMULATOR}</emulator>\
         {machines}<domain type='qemu'/>{kvm}</arch></guest></capabilities>",
        host.cells
    )
}

fn domain(kind: &str, machine: &str) -> String {
    let list = |name: &str, values: &[&str]| {
        let values: String = values.iter().map(|value| format!("<value>{value}</value>")).collect();
        format!("<enum name='{name}'>{values}</enum>")
    };
    let passthrough = if kind == "kvm" { "yes" } else { "no" };
    let firmware = list("firmware", &["bios", "efi"]);
    let loader = list("type", &["rom", "pflash"]) + &list("readonly", &["yes", "no"]) + &list("secure", &["yes", "no"]);
    let disk = list("diskDevice", &["disk", "cdrom", "floppy", "lun"])
        + &list("bus", &["fdc", "scsi", "virtio", "usb", "sata"])
        + &list("model", &["virtio", "virtio-transitional", "virtio-non-transitional"]);
    format!(
        "<domainCapabilities><path>{EMULATOR}</path><domain>{kind}</domain><machine>{machine}</machine>\
         <arch>x86_64</arch><vcpu max='288'/><iothreads supported='yes'/>\
         <os supported='yes'>{firmware}<loader supported='yes'><value>{FIRMWARE}</value>{loader}</loader></os>\
         <cpu><mode name='host-passthrough' supported='{passthrough}'/><mode name='maximum' supported='yes'/>\
         <mode name='host-model' supported='yes'><model fallback='forbid'>EPYC-Milan</model><vendor>AMD</vendor></mode>\
         <mode name='custom' supported='yes'><model usable='yes' vendor='unknown'>qemu64</model>\
         <model usable='yes' vendor='AMD'>EPYC-Milan</model></mode></cpu>\
         <devices><disk supported='yes'>{disk}</disk><rng supported='yes'/>\
         <hostdev supported='yes'/><channel supported='yes'>{}</channel></devices></domainCapabilities>",
        list("type", &["pty", "unix", "spicevmc"])
    )
}
