//! The daemon and its hypervisor as a whole.

use super::calls;
use crate::wire::{
    constant::domain::ConnectGetDomainCapabilitiesFlags,
    remote::connect::{
        ConnectGetCapabilities, ConnectGetDomainCapabilities, ConnectGetDomainCapabilitiesArgs, ConnectGetHostname,
        ConnectGetLibVersion, ConnectGetMaxVcpus, ConnectGetMaxVcpusArgs, ConnectGetSysinfo, ConnectGetSysinfoArgs,
        ConnectGetType, ConnectGetUri, ConnectGetVersion, ConnectIsSecure, ConnectSupportsFeature,
        ConnectSupportsFeatureArgs,
    },
    xdr::Text,
};

calls! {
    /// The driver: `QEMU`, `TEST`.
    hypervisor_type() -> String = ConnectGetType () => |r| r.kind.into_string_lossy();
    /// The hypervisor's version as major × 1,000,000 + minor × 1,000 + release.
    hypervisor_version() -> u64 = ConnectGetVersion () => |r| r.hv_ver;
    /// The daemon's version, counted like [`hypervisor_version`](Self::hypervisor_version).
    library_version() -> u64 = ConnectGetLibVersion () => |r| r.lib_ver;
    /// The name of the host.
    hostname() -> String = ConnectGetHostname () => |r| r.hostname.into_string_lossy();
    /// The URI that was opened, which the daemon may have chosen.
    uri() -> String = ConnectGetUri () => |r| r.uri.into_string_lossy();
    /// What host and hypervisor can do, as XML.
    capabilities() -> String = ConnectGetCapabilities () => |r| r.capabilities.into_string_lossy();
    /// What domains of a kind can have, as XML; `None` leaves the choice to the daemon.
    domain_capabilities(
        emulator: Option<&str>, arch: Option<&str>, machine: Option<&str>, virt_type: Option<&str>,
        flags: ConnectGetDomainCapabilitiesFlags,
    ) -> String = ConnectGetDomainCapabilities (ConnectGetDomainCapabilitiesArgs {
        emulatorbin: emulator.map(Text::from),
        arch: arch.map(Text::from),
        machine: machine.map(Text::from),
        virttype: virt_type.map(Text::from),
        flags: flags.bits(),
    }) => |r| r.capabilities.into_string_lossy();
    /// The host's SMBIOS tables, as XML.
    sysinfo() -> String = ConnectGetSysinfo (ConnectGetSysinfoArgs { flags: 0 }) => |r| r.sysinfo.into_string_lossy();
    /// Whether the daemon considers this connection encrypted or local.
    is_secure() -> bool = ConnectIsSecure () => |r| r.secure != 0;
    /// The most virtual CPUs a domain of a type may have.
    max_vcpus(virt_type: Option<&str>) -> i32
        = ConnectGetMaxVcpus (ConnectGetMaxVcpusArgs { kind: virt_type.map(Text::from) }) => |r| r.max_vcpus;
    /// Whether the daemon has a feature of the protocol, by its number.
    supports_feature(feature: i32) -> bool
        = ConnectSupportsFeature (ConnectSupportsFeatureArgs { feature }) => |r| r.supported != 0;
}
