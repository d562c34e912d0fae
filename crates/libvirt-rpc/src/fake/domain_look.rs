//! Domains: looking at them.

use super::{
    call::{Call, Refusal},
    domain::Domain,
    event, guest,
    world::World,
};
use crate::wire::{
    constant::domain::{
        DomainDiskErrorCode, DomainEventIOErrorAction, DomainInterfaceAddressesSource as From, DomainPausedReason,
        DomainXMLFlags,
    },
    remote::{
        domain::{
            DomainGetAutostart, DomainGetAutostartRet, DomainGetDiskErrors, DomainGetDiskErrorsRet, DomainGetInfo,
            DomainGetInfoRet, DomainGetState, DomainGetStateRet, DomainGetXmlDesc, DomainGetXmlDescRet,
            DomainInterfaceAddresses, DomainInterfaceAddressesRet, DomainIsActive, DomainIsActiveRet,
            DomainIsPersistent, DomainIsPersistentRet, DomainSetAutostart,
        },
        domain_event::{
            DomainEventCallbackIoErrorMsg, DomainEventCallbackIoErrorReasonMsg, DomainEventIoErrorMsg,
            DomainEventIoErrorReasonMsg,
        },
        record::{DomainDiskError, DomainInterface, DomainIpAddr},
    },
    xdr::Text,
};

pub(super) fn answer(call: &mut Call<'_>) {
    state(call);
    call.on::<DomainGetXmlDesc>(|world, args| {
        let inactive = DomainXMLFlags(args.flags).contains(DomainXMLFlags::INACTIVE);
        world.domain(&args.dom).map(|d| DomainGetXmlDescRet {
            xml: d.description(inactive).into(),
        })
    });
    call.on::<DomainGetDiskErrors>(|world, args| {
        let domain = world.running(&args.dom)?;
        let count = i32::try_from(domain.hardware.disks.len()).unwrap_or(i32::MAX);
        // Asked with room for none, it says how much room is needed.
        let room = usize::try_from(args.maxerrors).unwrap_or(0);
        let error = |(disk, error): (&String, &i32)| DomainDiskError {
            disk: disk.as_str().into(),
            error: *error,
        };
        let errors: Vec<_> = domain.disk_errors.iter().take(room).map(error).collect();
        let nerrors = if room == 0 {
            count
        } else {
            i32::try_from(errors.len()).unwrap_or(0)
        };
        Ok(DomainGetDiskErrorsRet { errors, nerrors })
    });
    call.on::<DomainInterfaceAddresses>(|world, args| {
        if From(args.source.cast_signed()) == From::AGENT {
            guest::agent_of(world, &args.dom)?;
        }
        world.running(&args.dom)?;
        let Some(domain) = world.domains.find(&args.dom.uuid) else {
            return Err(Refusal::invalid("it is gone"));
        };
        Ok(DomainInterfaceAddressesRet {
            ifaces: world.interfaces(domain, From(args.source.cast_signed())),
        })
    });
}

fn state(call: &mut Call<'_>) {
    call.on::<DomainGetState>(|world, args| {
        world.domain(&args.dom).map(|d| DomainGetStateRet {
            state: d.state.0,
            reason: d.reason,
        })
    });
    call.on::<DomainGetInfo>(|world, args| {
        world.domain(&args.dom).map(|d| DomainGetInfoRet {
            state: u8::try_from(d.state.0).unwrap_or(0),
            max_mem: d.hardware.memory_kib,
            memory: d.hardware.memory_kib,
            nr_virt_cpu: d.hardware.vcpus,
            cpu_time: 0,
        })
    });
    call.on::<DomainGetAutostart>(|world, args| {
        world.domain(&args.dom).map(|d| DomainGetAutostartRet {
            autostart: d.autostart.into(),
        })
    });
    call.on::<DomainSetAutostart>(|world, args| {
        let domain = world.domain_mut(&args.dom)?;
        if !domain.persistent {
            return Err(Refusal::invalid(
                "Requested operation is not valid: cannot set autostart for transient domain",
            ));
        }
        domain.autostart = args.autostart != 0;
        Ok(())
    });
    call.on::<DomainIsActive>(|world, args| {
        world.domain(&args.dom).map(|d| DomainIsActiveRet {
            active: d.is_active().into(),
        })
    });
    call.on::<DomainIsPersistent>(|world, args| {
        world.domain(&args.dom).map(|d| DomainIsPersistentRet {
            persistent: d.persistent.into(),
        })
    });
}

impl World {
    /// The interfaces of a domain with the addresses a source knows; the host names them otherwise than the guest.
    fn interfaces(&self, domain: &Domain, source: From) -> Vec<DomainInterface> {
        let leases = self.leases_of(domain);
        let nics = domain.hardware.nics.iter().enumerate();
        let all = nics.map(|(at, nic)| DomainInterface {
            name: match source {
                From::AGENT => format!("eth{at}").into(),
                _ => format!("vnet{}", domain.id.saturating_add(i32::try_from(at).unwrap_or(0))).into(),
            },
            hwaddr: Some(nic.mac.as_str().into()),
            addrs: leases
                .iter()
                .filter(|lease| lease.mac == nic.mac)
                .map(|lease| DomainIpAddr {
                    kind: 0,
                    addr: lease.address.to_string().into(),
                    prefix: lease.prefix.into(),
                })
                .collect(),
        });
        all.filter(|interface| source == From::AGENT || !interface.addrs.is_empty())
            .collect()
    }

    /// A disk of a running domain fails; QEMU stops the domain.
    pub(super) fn io_error(&mut self, name: &str, target: &str, code: DomainDiskErrorCode) -> bool {
        let Some(domain) = self.domains.named_mut(name).filter(|d| d.is_active()) else {
            return false;
        };
        let Some(disk) = domain.hardware.disks.iter().find(|disk| disk.target == target) else {
            return false;
        };
        let path = match &disk.source {
            Some(super::hardware::Source::Path(path)) => path.clone(),
            _ => String::new(),
        };
        domain.disk_errors.insert(target.to_owned(), code.0);
        let (dom, uuid) = (domain.to_ref(), domain.uuid);
        let reason = if code == DomainDiskErrorCode::NO_SPACE {
            "enospc"
        } else {
            "eio"
        };
        let (path, alias) = (Text::from(path), Text::from(format!("virtio-disk-{target}")));
        let action = DomainEventIOErrorAction::PAUSE.0;
        event::domain(self, &dom, |callback_id| DomainEventCallbackIoErrorMsg {
            callback_id,
            msg: DomainEventIoErrorMsg {
                dom: dom.clone(),
                src_path: path.clone(),
                dev_alias: alias.clone(),
                action,
            },
        });
        event::domain(self, &dom, |callback_id| DomainEventCallbackIoErrorReasonMsg {
            callback_id,
            msg: DomainEventIoErrorReasonMsg {
                dom: dom.clone(),
                src_path: path.clone(),
                dev_alias: alias.clone(),
                action,
                reason: reason.into(),
            },
        });
        self.pause_domain(uuid, DomainPausedReason::IOERROR);
        true
    }
}
