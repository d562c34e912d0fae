//! What libvirt asks the guest, its agent or the DHCP server.
//!
//! Those that ask the agent wait for ever by default: set
//! [`domain_agent_set_timeout`](crate::Connection::domain_agent_set_timeout) after each start.

use super::{AgentTimeout, Params, calls};
use crate::wire::{
    constant::domain::{
        DomainAuthorizedSSHKeysSetFlags, DomainGetHostnameFlags, DomainGuestInfoTypes, DomainInterfaceAddressesSource,
        DomainSetUserPasswordFlags,
    },
    remote::{
        domain::{
            DomainAgentSetResponseTimeout, DomainAgentSetResponseTimeoutArgs, DomainAuthorizedSshKeysGet,
            DomainAuthorizedSshKeysGetArgs, DomainAuthorizedSshKeysSet, DomainAuthorizedSshKeysSetArgs, DomainFsfreeze,
            DomainFsfreezeArgs, DomainFsthaw, DomainFsthawArgs, DomainGetGuestInfo, DomainGetGuestInfoArgs,
            DomainGetHostname, DomainGetHostnameArgs, DomainInterfaceAddresses, DomainInterfaceAddressesArgs,
            DomainSetUserPassword, DomainSetUserPasswordArgs,
        },
        record::{DomainInterface, DomainRef},
    },
    xdr::Text,
};

calls! {
    /// How long libvirt's own calls to the agent wait, until the domain stops.
    domain_agent_set_timeout(domain: &DomainRef, timeout: AgentTimeout)
        = DomainAgentSetResponseTimeout (DomainAgentSetResponseTimeoutArgs {
            dom: domain.clone(),
            timeout: timeout.seconds(),
            flags: 0,
        }) => |_r| ();
    /// The interfaces with their addresses, as the source knows them.
    domain_interface_addresses(domain: &DomainRef, source: DomainInterfaceAddressesSource) -> Vec<DomainInterface>
        = DomainInterfaceAddresses (DomainInterfaceAddressesArgs {
            dom: domain.clone(),
            source: source.0.cast_unsigned(),
            flags: 0,
        }) => |r| r.ifaces;
    /// Users, operating system, time zone, host name, file systems: what the flags ask for.
    domain_guest_info(domain: &DomainRef, types: DomainGuestInfoTypes) -> Params
        = DomainGetGuestInfo (DomainGetGuestInfoArgs { dom: domain.clone(), types: types.bits(), flags: 0 })
        => |r| Params(r.params);
    /// The guest's name for itself.
    domain_hostname(domain: &DomainRef, flags: DomainGetHostnameFlags) -> String
        = DomainGetHostname (DomainGetHostnameArgs { dom: domain.clone(), flags: flags.bits() })
        => |r| r.hostname.into_string_lossy();
    /// Freezes file systems, all when `mountpoints` is empty; returns how many.
    domain_fs_freeze(domain: &DomainRef, mountpoints: &[&str]) -> i32 = DomainFsfreeze (DomainFsfreezeArgs {
        dom: domain.clone(),
        mountpoints: mountpoints.iter().map(|m| Text::from(*m)).collect(),
        flags: 0,
    }) => |r| r.filesystems;
    /// Thaws file systems; returns how many.
    domain_fs_thaw(domain: &DomainRef, mountpoints: &[&str]) -> i32 = DomainFsthaw (DomainFsthawArgs {
        dom: domain.clone(),
        mountpoints: mountpoints.iter().map(|m| Text::from(*m)).collect(),
        flags: 0,
    }) => |r| r.filesystems;
    /// The ssh keys that let in as a user.
    domain_ssh_keys(domain: &DomainRef, user: &str) -> Vec<String>
        = DomainAuthorizedSshKeysGet (DomainAuthorizedSshKeysGetArgs { dom: domain.clone(), user: user.into(), flags: 0 })
        => |r| r.keys.into_iter().map(Text::into_string_lossy).collect();
    /// Replaces, adds or removes the ssh keys that let in as a user.
    domain_set_ssh_keys(domain: &DomainRef, user: &str, keys: &[&str], flags: DomainAuthorizedSSHKeysSetFlags)
        = DomainAuthorizedSshKeysSet (DomainAuthorizedSshKeysSetArgs {
            dom: domain.clone(),
            user: user.into(),
            keys: keys.iter().map(|k| Text::from(*k)).collect(),
            flags: flags.bits(),
        });
    /// Sets a user's password.
    domain_set_user_password(domain: &DomainRef, user: &str, password: &str, flags: DomainSetUserPasswordFlags)
        = DomainSetUserPassword (DomainSetUserPasswordArgs {
            dom: domain.clone(),
            user: Some(user.into()),
            password: Some(password.into()),
            flags: flags.bits(),
        });
}
