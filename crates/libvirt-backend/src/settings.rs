//! What an operator decides. The binary reads these from its configuration; nothing here reads a file.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use providerkit_backend::CapacityType;

use crate::{host::Endpoint, user_data::UserData};

/// All of it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The provider's name: part of every name and of every mark of ownership.
    pub provider: Arc<str>,
    /// The hosts of each zone.
    pub zones: BTreeMap<Arc<str>, Vec<HostSettings>>,
    /// What is for sale.
    pub offerings: Vec<Offering>,
    /// How machines are built.
    pub machine: MachineSettings,
    /// How guests are spoken to.
    pub guest: GuestSettings,
    /// How much of a host may be sold.
    pub budget: Budget,
}

impl Settings {
    /// How a bootstrap blob gets into a guest: only through the agent where Ignition, which looks at its configuration at
    /// the first boot alone, is what a seed would have to be for.
    pub(crate) fn delivery(&self) -> Delivery {
        match self.machine.user_data {
            UserData::CloudInit(_) => self.guest.delivery,
            UserData::Ignition(_) => Delivery::Agent,
        }
    }

    /// What a machine must have done to be IDLE: a cloud-init that has no seed is not waited for.
    pub(crate) fn idle_when(&self) -> IdleWhen {
        match self.machine.user_data {
            UserData::CloudInit(_) => self.guest.idle_when,
            UserData::Ignition(_) => self.guest.idle_when.min(IdleWhen::Agent),
        }
    }
}

/// One libvirt host.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// What people call it; unique within the provider.
    pub name: Arc<str>,
    /// Where its daemon is.
    pub endpoint: Endpoint,
    /// Whether it takes no new machines; those it has are left alone.
    pub cordon: bool,
}

/// Slots of one kind in one zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Offering {
    /// Where.
    pub zone: Arc<str>,
    /// What.
    pub instance_type: InstanceType,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// How many slots.
    pub count: u32,
    /// Any one currency; 0 for bare metal.
    pub price_per_hour: f64,
    /// The shape of a replica, where it is not the whole machine.
    pub resources: BTreeMap<String, String>,
    /// Scheduling labels.
    pub labels: BTreeMap<String, String>,
    /// The probability that a machine is taken away, which on hosts of one's own is 0. Only fake hosts sell spot.
    pub interruption_probability: f64,
    /// What the slots are called; derived from provider, zone and instance type when absent.
    pub naming: Option<Naming>,
}

/// What the slots of an offering are called: a prefix, a dash and a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    /// No other offering has both the same prefix and one of the same numbers.
    pub prefix: Arc<str>,
    /// The number of the first slot.
    pub first: u32,
    /// From one slot to the next.
    pub step: u32,
    /// Digits, with leading zeros.
    pub digits: usize,
}

/// A size of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceType {
    /// For example `kvm.small`.
    pub name: Arc<str>,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The disk's size in GiB; that of the image when it is larger or this is absent.
    pub disk_gib: Option<u64>,
}

/// How machines are built.
#[derive(Clone, Debug)]
pub struct MachineSettings {
    /// The pool of image, disks and seeds.
    pub pool: String,
    /// The golden image: a volume of the pool.
    pub image: String,
    /// Where each network card goes, the first first.
    pub networks: Vec<Network>,
    /// What boots the machine.
    pub firmware: Firmware,
    /// What runs it.
    pub accelerator: Accelerator,
    /// A machine type such as `q35`; the architecture's usual one when absent.
    pub machine_type: Option<String>,
    /// The CPU a guest sees; the closest to the host's when absent.
    pub cpu: Option<Cpu>,
    /// The bus of cloud-init's seed.
    pub seed_bus: Bus,
    /// What every machine gets at its first boot.
    pub user_data: UserData,
    /// Whether domains start with their host.
    pub autostart: bool,
    /// What a network that is not active is treated like: started, or an error.
    pub start_networks: bool,
}

/// Where a network card goes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Network {
    /// A network of libvirt's.
    Network(String),
    /// A bridge of the host's.
    Bridge(String),
}

/// What boots a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Firmware {
    /// The architecture's own: BIOS on x86, UEFI elsewhere.
    #[default]
    Bios,
    /// UEFI without Secure Boot.
    Uefi,
    /// UEFI with Secure Boot and the usual keys.
    UefiSecure,
}

/// What runs a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Accelerator {
    /// KVM; a host without it is not used.
    #[default]
    Kvm,
    /// KVM where there is any, else emulation, which is some ten times slower.
    Auto,
    /// Emulation, wherever.
    Qemu,
}

/// The CPU a guest sees.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cpu {
    /// The host's own.
    HostPassthrough,
    /// The nearest model libvirt knows.
    HostModel,
    /// Everything the accelerator can do.
    Maximum,
    /// A model by name.
    Model(String),
}

/// The bus of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bus {
    /// A read-only virtio disk: seen by every kernel that sees its root disk.
    #[default]
    Virtio,
    /// A CD-ROM on SATA.
    Sata,
    /// A CD-ROM on SCSI.
    Scsi,
}

/// How guests are spoken to.
#[derive(Clone, Copy, Debug)]
pub struct GuestSettings {
    /// What a machine must have done to be IDLE.
    pub idle_when: IdleWhen,
    /// How a bootstrap blob gets into a guest.
    pub delivery: Delivery,
    /// How it is told that a node is Ready.
    pub readiness: Readiness,
    /// How long a guest may take to stop by itself when its machine is deleted.
    pub stop_grace: Duration,
    /// What Drain leaves.
    pub drain_reset: DrainReset,
    /// How much longer than its grace period a Drain may take.
    pub drain_margin: Duration,
    /// Whether a machine that was stopped is started again.
    pub restart: bool,
    /// Whether machines whose guests have the same `/etc/machine-id` are refused.
    pub unique_machine_id: bool,
}

impl Default for GuestSettings {
    fn default() -> Self {
        Self {
            idle_when: IdleWhen::default(),
            delivery: Delivery::default(),
            readiness: Readiness::default(),
            stop_grace: Duration::from_secs(10),
            drain_reset: DrainReset::default(),
            drain_margin: Duration::from_secs(60),
            restart: true,
            unique_machine_id: true,
        }
    }
}

/// What a machine must have done to be IDLE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum IdleWhen {
    /// It runs, and goes on running.
    Running,
    /// Its agent answers and may run programs.
    Agent,
    /// cloud-init has finished, too, where the image has it.
    #[default]
    CloudInit,
}

/// How a bootstrap blob gets into a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// Through the agent, or by seed where the image does not let it write files and run programs.
    #[default]
    Auto,
    /// Through the agent. An image that does not let it write files and run programs is refused.
    Agent,
    /// By a seed that carries it, with which the guest is started again.
    Seed,
}

/// How it is told that a node is Ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Readiness {
    /// By the image's `/opt/bigfleet/ready` where it has one, else by the node's own credentials.
    #[default]
    Auto,
    /// By the image's hook.
    Hook,
    /// By the node's own credentials.
    Kubelet,
    /// Not at all: CONFIGURED means that the bootstrap succeeded.
    None,
}

/// What Drain leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DrainReset {
    /// The same machine, out of its cluster, as clean as the image's hook makes it.
    #[default]
    Unjoin,
    /// A machine with a fresh disk.
    Recreate,
}

/// How much of a host may be sold.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Memory that is the host's own, in MiB; the larger of 2 GiB and a tenth when absent.
    pub memory_reserve_mib: Option<u64>,
    /// How often the rest may be sold.
    pub memory_overcommit: f64,
    /// How often a CPU may be sold.
    pub cpu_overcommit: f64,
    /// Bytes of a pool that stay free; the larger of 10 GiB and a twentieth when absent.
    pub pool_reserve: Option<u64>,
    /// How often a pool may be sold: disks are thin and grow.
    pub storage_overcommit: f64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            memory_reserve_mib: None,
            memory_overcommit: 1.0,
            cpu_overcommit: 4.0,
            pool_reserve: None,
            storage_overcommit: 2.0,
        }
    }
}
