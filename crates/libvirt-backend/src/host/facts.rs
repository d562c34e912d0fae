//! What a host is: asked once per connection.

use libvirt_rpc::{Connection, wire::constant::domain::ConnectGetDomainCapabilitiesFlags};

use crate::{
    failure::{Doing as _, Failure},
    settings::{Accelerator, Cpu, Firmware, MachineSettings},
    xml::{self, DomainCapabilities},
};

/// What a host is.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// All its memory, in MiB.
    pub(crate) memory_mib: u64,
    pub(crate) cpus: u32,
    /// What machines of ours will run on, or why they cannot.
    pub(crate) platform: Result<Platform, String>,
}

/// What machines will run on.
#[derive(Clone, Debug)]
pub(crate) struct Platform {
    pub(crate) capabilities: DomainCapabilities,
    /// As it is to be asked for: an alias, so that a newer host may resolve it anew.
    pub(crate) machine_type: String,
    pub(crate) cpu: Cpu,
}

impl Facts {
    pub(crate) async fn ask(control: &Connection, machine: &MachineSettings) -> Result<Self, Failure> {
        let node = control.node_info().await.doing(|| "ask for the host's size".into())?;
        let platform = match platform(control, machine).await {
            Ok(platform) => Ok(platform),
            Err(failure) if failure.is_connection() => return Err(failure),
            Err(failure) => Err(providerkit_backend::Error::from(failure).report()),
        };
        Ok(Self {
            memory_mib: node.memory_kib / 1024,
            cpus: node.cpus.max(1).unsigned_abs(),
            platform,
        })
    }
}

async fn platform(control: &Connection, machine: &MachineSettings) -> Result<Platform, Failure> {
    let capabilities = control
        .capabilities()
        .await
        .doing(|| "ask what the host can do".into())?;
    let arch = xml::host_arch(&capabilities)
        .ok_or_else(|| Failure::told("the host does not tell its architecture; is the driver of the URI `qemu`?"))?;
    let machine_type = machine
        .machine_type
        .clone()
        .unwrap_or_else(|| usual_machine_type(&arch).to_owned());
    let kinds: &[&str] = match machine.accelerator {
        Accelerator::Kvm => &["kvm"],
        Accelerator::Auto => &["kvm", "qemu"],
        Accelerator::Qemu => &["qemu"],
    };
    let mut refusal = None;
    for kind in kinds {
        let asked = control.domain_capabilities(
            None,
            Some(&arch),
            Some(&machine_type),
            Some(kind),
            ConnectGetDomainCapabilitiesFlags::empty(),
        );
        match asked.await {
            Ok(xml) => {
                let capabilities = DomainCapabilities::parse(&xml)
                    .ok_or_else(|| Failure::told("the host's domain capabilities cannot be read"))?;
                return Platform::new(capabilities, machine_type, machine);
            }
            Err(error) => refusal = Some((kind, error)),
        }
    }
    Err(match refusal {
        Some((&"kvm", source)) if source.daemon().is_some() => Failure::Host {
            doing: format!(
                "find KVM for machine type `{machine_type}`: load the kvm module, let the qemu user open /dev/kvm and \
                 restart libvirtd, or set `machine.accelerator = \"auto\"` to emulate"
            ),
            source,
        },
        Some((kind, source)) => Failure::Host {
            doing: format!(
                "use machine type `{machine_type}` with `{kind}`; set `machine.machine_type` to one the host has"
            ),
            source,
        },
        // invariant: `kinds` is not empty.
        None => Failure::told("the host was asked for nothing"),
    })
}

impl Platform {
    fn new(capabilities: DomainCapabilities, machine_type: String, machine: &MachineSettings) -> Result<Self, Failure> {
        let efi = capabilities.firmware.iter().any(|firmware| firmware == "efi");
        if machine.firmware != Firmware::Bios && !efi {
            return Err(Failure::told(
                "the host has no UEFI firmware; install it (Debian: ovmf) or set `machine.firmware = \"bios\"`",
            ));
        }
        let cpu = match &machine.cpu {
            Some(cpu) => cpu.clone(),
            None => {
                let has = |mode: &str| capabilities.cpu_modes.iter().any(|known| known == mode);
                if capabilities.domain == "kvm" && has("host-passthrough") {
                    Cpu::HostPassthrough
                } else if has("maximum") {
                    Cpu::Maximum
                } else {
                    Cpu::HostModel
                }
            }
        };
        Ok(Self {
            capabilities,
            machine_type,
            cpu,
        })
    }
}

fn usual_machine_type(arch: &str) -> &'static str {
    match arch {
        "x86_64" | "i686" => "q35",
        "s390x" => "s390-ccw-virtio",
        "ppc64" | "ppc64le" => "pseries",
        _ => "virt",
    }
}
