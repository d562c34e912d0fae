//! Domains: finding, starting, stopping, looking at them.

use super::{Params, calls};
use crate::{
    Connection, Error,
    wire::{
        constant::{
            domain::{
                ConnectGetAllDomainStatsFlags, DomainCreateFlags, DomainDefineFlags, DomainDestroyFlags,
                DomainRebootFlags, DomainShutdownFlags, DomainState, DomainStatsTypes, DomainUndefineFlags,
                DomainXMLFlags,
            },
            error::ErrorNumber,
        },
        remote::{
            connect::{ConnectGetAllDomainStats, ConnectGetAllDomainStatsArgs},
            domain::{
                DomainCreate, DomainCreateArgs, DomainCreateWithFlags, DomainCreateWithFlagsArgs, DomainCreateXml,
                DomainCreateXmlArgs, DomainDefineXml, DomainDefineXmlArgs, DomainDefineXmlFlags,
                DomainDefineXmlFlagsArgs, DomainDestroyFlags as DestroyFlags, DomainDestroyFlagsArgs,
                DomainGetAutostart, DomainGetAutostartArgs, DomainGetInfo, DomainGetInfoArgs, DomainGetInfoRet,
                DomainGetState, DomainGetStateArgs, DomainGetXmlDesc, DomainGetXmlDescArgs, DomainIsActive,
                DomainIsActiveArgs, DomainIsPersistent, DomainIsPersistentArgs, DomainLookupById, DomainLookupByIdArgs,
                DomainLookupByName, DomainLookupByNameArgs, DomainLookupByUuid, DomainLookupByUuidArgs, DomainReboot,
                DomainRebootArgs, DomainReset, DomainResetArgs, DomainResume, DomainResumeArgs, DomainSetAutostart,
                DomainSetAutostartArgs, DomainShutdownFlags as ShutdownFlags, DomainShutdownFlagsArgs, DomainSuspend,
                DomainSuspendArgs, DomainUndefine, DomainUndefineArgs, DomainUndefineFlags as UndefineFlags,
                DomainUndefineFlagsArgs,
            },
            record::DomainRef,
        },
        xdr::Uuid,
    },
};

/// Whether a domain runs, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DomainStatus {
    /// The state.
    pub state: DomainState,
    /// The reason, a number that each state counts by itself (`DomainShutoffReason` and its like).
    pub reason: i32,
}

/// A domain in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DomainInfo {
    /// The state.
    pub state: DomainState,
    /// The most memory it may have, in KiB.
    pub max_memory_kib: u64,
    /// The memory it has, in KiB.
    pub memory_kib: u64,
    /// Its virtual CPUs.
    pub vcpus: u16,
    /// CPU time it has used, in nanoseconds.
    pub cpu_time_ns: u64,
}

impl From<DomainGetInfoRet> for DomainInfo {
    fn from(r: DomainGetInfoRet) -> Self {
        Self {
            state: DomainState(r.state.into()),
            max_memory_kib: r.max_mem,
            memory_kib: r.memory,
            vcpus: r.nr_virt_cpu,
            cpu_time_ns: r.cpu_time,
        }
    }
}

calls! {
    /// The domain of a name.
    domain_lookup_by_name(name: &str) -> DomainRef
        = DomainLookupByName (DomainLookupByNameArgs { name: name.into() }) => |r| r.dom;
    /// The domain of a UUID.
    domain_lookup_by_uuid(uuid: Uuid) -> DomainRef
        = DomainLookupByUuid (DomainLookupByUuidArgs { uuid }) => |r| r.dom;
    /// The running domain of a number.
    domain_lookup_by_id(id: i32) -> DomainRef = DomainLookupById (DomainLookupByIdArgs { id }) => |r| r.dom;
    /// Starts a domain that is gone when it stops.
    domain_create_xml(xml: &str, flags: DomainCreateFlags) -> DomainRef
        = DomainCreateXml (DomainCreateXmlArgs { xml_desc: xml.into(), flags: flags.bits() }) => |r| r.dom;
    /// Stops a domain as if by pulling its plug.
    domain_destroy(domain: &DomainRef, flags: DomainDestroyFlags)
        = DestroyFlags (DomainDestroyFlagsArgs { dom: domain.clone(), flags: flags.bits() });
    /// Asks the guest to shut down; the driver chooses how when no flag does.
    domain_shutdown(domain: &DomainRef, flags: DomainShutdownFlags)
        = ShutdownFlags (DomainShutdownFlagsArgs { dom: domain.clone(), flags: flags.bits() });
    /// Asks the guest to reboot.
    domain_reboot(domain: &DomainRef, flags: DomainRebootFlags)
        = DomainReboot (DomainRebootArgs { dom: domain.clone(), flags: flags.bits() });
    /// Resets a domain as if by its button.
    domain_reset(domain: &DomainRef) = DomainReset (DomainResetArgs { dom: domain.clone(), flags: 0 });
    /// Stops the virtual CPUs.
    domain_suspend(domain: &DomainRef) = DomainSuspend (DomainSuspendArgs { dom: domain.clone() });
    /// Lets the virtual CPUs go on.
    domain_resume(domain: &DomainRef) = DomainResume (DomainResumeArgs { dom: domain.clone() });
    /// Whether it runs, and why.
    domain_state(domain: &DomainRef) -> DomainStatus
        = DomainGetState (DomainGetStateArgs { dom: domain.clone(), flags: 0 })
        => |r| DomainStatus { state: DomainState(r.state), reason: r.reason };
    /// A domain in numbers.
    domain_info(domain: &DomainRef) -> DomainInfo
        = DomainGetInfo (DomainGetInfoArgs { dom: domain.clone() }) => |r| r.into();
    /// The description.
    domain_xml(domain: &DomainRef, flags: DomainXMLFlags) -> String
        = DomainGetXmlDesc (DomainGetXmlDescArgs { dom: domain.clone(), flags: flags.bits() })
        => |r| r.xml.into_string_lossy();
    /// Whether it starts with the host.
    domain_autostart(domain: &DomainRef) -> bool
        = DomainGetAutostart (DomainGetAutostartArgs { dom: domain.clone() }) => |r| r.autostart != 0;
    /// Says whether it starts with the host.
    domain_set_autostart(domain: &DomainRef, autostart: bool) = DomainSetAutostart (DomainSetAutostartArgs {
        dom: domain.clone(),
        autostart: autostart.into(),
    });
    /// Whether it runs.
    domain_is_active(domain: &DomainRef) -> bool
        = DomainIsActive (DomainIsActiveArgs { dom: domain.clone() }) => |r| r.active != 0;
    /// Whether it outlives its stop.
    domain_is_persistent(domain: &DomainRef) -> bool
        = DomainIsPersistent (DomainIsPersistentArgs { dom: domain.clone() }) => |r| r.persistent != 0;
    /// Statistics of some domains, or of all for which the flags hold, in one call.
    domain_stats(domains: &[DomainRef], stats: DomainStatsTypes, flags: ConnectGetAllDomainStatsFlags)
        -> Vec<(DomainRef, Params)>
        = ConnectGetAllDomainStats (ConnectGetAllDomainStatsArgs {
            doms: domains.to_vec(),
            stats: stats.bits(),
            flags: flags.bits(),
        }) => |r| r.ret_stats.into_iter().map(|record| (record.dom, Params(record.params))).collect();
}

impl Connection {
    /// Defines a domain, or changes the definition of one that exists.
    ///
    /// Without flags a daemon that does not know them (before 1.2.12) is asked the old way.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn domain_define(&self, xml: &str, flags: DomainDefineFlags) -> Result<DomainRef, Error> {
        let args = DomainDefineXmlFlagsArgs {
            xml: xml.into(),
            flags: flags.bits(),
        };
        match self.call::<DomainDefineXmlFlags>(&args).await {
            Err(error) if error.is_unknown_procedure() && flags == DomainDefineFlags::empty() => {
                let args = DomainDefineXmlArgs { xml: args.xml };
                self.call::<DomainDefineXml>(&args).await.map(|r| r.dom)
            }
            done => done.map(|r| r.dom),
        }
    }

    /// Starts a domain; what is returned has its new number.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn domain_create(&self, domain: &DomainRef, flags: DomainCreateFlags) -> Result<DomainRef, Error> {
        let args = DomainCreateWithFlagsArgs {
            dom: domain.clone(),
            flags: flags.bits(),
        };
        match self.call::<DomainCreateWithFlags>(&args).await {
            Err(error) if error.is_unknown_procedure() && flags == DomainCreateFlags::empty() => {
                self.call::<DomainCreate>(&DomainCreateArgs { dom: args.dom }).await?;
                self.domain_lookup_by_uuid(domain.uuid).await
            }
            done => done.map(|r| r.dom),
        }
    }

    /// Forgets a domain; a running one goes on until it stops.
    ///
    /// A daemon that is too old for some of the flags is asked without them: what they are about (a TPM's state since
    /// 8.9, checkpoints since 5.6, NVRAM since 1.2.9) it does not have. Without flags one before 0.9.4 is asked the old
    /// way.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn domain_undefine(&self, domain: &DomainRef, flags: DomainUndefineFlags) -> Result<(), Error> {
        let ask = |flags: u32| DomainUndefineFlagsArgs {
            dom: domain.clone(),
            flags,
        };
        let refused = match self.call::<UndefineFlags>(&ask(flags.bits())).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        if refused.is_unknown_procedure() && flags == DomainUndefineFlags::empty() {
            return self
                .call::<DomainUndefine>(&DomainUndefineArgs { dom: domain.clone() })
                .await;
        }
        match unknown_flags(&refused).map(|unknown| flags.bits() & !unknown) {
            Some(known) if known != flags.bits() => self.call::<UndefineFlags>(&ask(known)).await,
            _ => Err(refused),
        }
    }
}

/// The flags a daemon says it does not know. It says so in words only, of which the number is the same everywhere.
fn unknown_flags(error: &Error) -> Option<u32> {
    let daemon = error
        .daemon()
        .filter(|daemon| daemon.code() == ErrorNumber::ERR_INVALID_ARG)?;
    let message = daemon.message();
    let (_, after) = message.split_once("unsupported flags (0x")?;
    let (digits, _) = after.split_once(')')?;
    u32::from_str_radix(digits, 16).ok()
}
