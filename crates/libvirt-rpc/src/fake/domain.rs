//! Calls about domains.

use super::{
    call::{Call, Refusal},
    event, guest,
    world::Domain,
};
use crate::wire::{
    constant::{
        domain::{
            ConnectListAllDomainsFlags, DomainCreateFlags, DomainEventResumedDetailType,
            DomainEventSuspendedDetailType, DomainEventType, DomainMetadataType, DomainPausedReason,
            DomainRunningReason, DomainShutoffReason, DomainState,
        },
        error::ErrorNumber,
    },
    qemu::{DomainAgentCommand, DomainAgentCommandRet},
    remote::{
        connect::{
            ConnectGetAllDomainStats, ConnectGetAllDomainStatsRet, ConnectListAllDomains, ConnectListAllDomainsRet,
        },
        domain::{
            DomainAgentSetResponseTimeout, DomainAgentSetResponseTimeoutRet, DomainCreate, DomainCreateWithFlags,
            DomainCreateWithFlagsRet, DomainCreateXml, DomainCreateXmlRet, DomainDefineXml, DomainDefineXmlFlags,
            DomainDefineXmlFlagsRet, DomainDefineXmlRet, DomainDestroy, DomainDestroyFlags, DomainGetAutostart,
            DomainGetAutostartRet, DomainGetInfo, DomainGetInfoRet, DomainGetMetadata, DomainGetMetadataRet,
            DomainGetState, DomainGetStateRet, DomainGetXmlDesc, DomainGetXmlDescRet, DomainInterfaceAddresses,
            DomainInterfaceAddressesRet, DomainIsActive, DomainIsActiveRet, DomainIsPersistent, DomainIsPersistentRet,
            DomainLookupById, DomainLookupByIdRet, DomainLookupByName, DomainLookupByNameRet, DomainLookupByUuid,
            DomainLookupByUuidRet, DomainReboot, DomainReset, DomainResume, DomainSetAutostart, DomainSetMetadata,
            DomainShutdown, DomainShutdownFlags, DomainSuspend, DomainUndefine, DomainUndefineFlags,
        },
        record::{DomainInterface, DomainIpAddr, DomainStatsRecord, TypedParam, TypedParamValue},
    },
};

pub(super) fn answer(call: &mut Call<'_>) {
    find(call);
    power(call);
    look(call);
    metadata(call);
    ask_guest(call);
}

fn find(call: &mut Call<'_>) {
    call.on::<ConnectListAllDomains>(|world, args| {
        let wants = |flag: ConnectListAllDomainsFlags| args.flags & flag.bits() != 0;
        let either = |yes: ConnectListAllDomainsFlags, no: ConnectListAllDomainsFlags, is: bool| {
            (!wants(yes) && !wants(no)) || if is { wants(yes) } else { wants(no) }
        };
        let fits = |d: &&Domain| {
            either(
                ConnectListAllDomainsFlags::ACTIVE,
                ConnectListAllDomainsFlags::INACTIVE,
                d.is_active(),
            ) && either(
                ConnectListAllDomainsFlags::PERSISTENT,
                ConnectListAllDomainsFlags::TRANSIENT,
                d.persistent,
            ) && either(
                ConnectListAllDomainsFlags::AUTOSTART,
                ConnectListAllDomainsFlags::NO_AUTOSTART,
                d.autostart,
            )
        };
        let domains: Vec<_> = world.domains.iter().filter(fits).map(Domain::to_ref).collect();
        Ok(ConnectListAllDomainsRet {
            ret: u32::try_from(domains.len()).unwrap_or(u32::MAX),
            domains,
        })
    });
    call.on::<DomainLookupByName>(|world, args| {
        let missing = format!("no domain with matching name '{}'", args.name);
        world
            .domain_by(|d| args.name == *d.name, &missing)
            .map(|d| DomainLookupByNameRet { dom: d.to_ref() })
    });
    call.on::<DomainLookupByUuid>(|world, args| {
        let missing = format!("no domain with matching uuid '{}'", args.uuid);
        world
            .domain_by(|d| d.uuid == args.uuid, &missing)
            .map(|d| DomainLookupByUuidRet { dom: d.to_ref() })
    });
    call.on::<DomainLookupById>(|world, args| {
        let missing = format!("no domain with matching id {}", args.id);
        world
            .domain_by(|d| d.is_active() && d.id == args.id, &missing)
            .map(|d| DomainLookupByIdRet { dom: d.to_ref() })
    });
    call.on::<DomainDefineXmlFlags>(|world, args| {
        let uuid = world.define_domain(&args.xml.to_string_lossy(), true)?;
        world
            .domain_by(|d| d.uuid == uuid, "it is gone")
            .map(|d| DomainDefineXmlFlagsRet { dom: d.to_ref() })
    });
    call.on::<DomainDefineXml>(|world, args| {
        let uuid = world.define_domain(&args.xml.to_string_lossy(), true)?;
        world
            .domain_by(|d| d.uuid == uuid, "it is gone")
            .map(|d| DomainDefineXmlRet { dom: d.to_ref() })
    });
    call.on::<DomainUndefineFlags>(|world, args| world.undefine_domain(&args.dom));
    call.on::<DomainUndefine>(|world, args| world.undefine_domain(&args.dom));
}

fn power(call: &mut Call<'_>) {
    let paused = |flags: u32| flags & DomainCreateFlags::START_PAUSED.bits() != 0;
    call.on::<DomainCreate>(|world, args| {
        world
            .start_domain(args.dom.uuid, false)
            .map(drop)
            .map_err(|e| absent(e, &args.dom.name))
    });
    call.on::<DomainCreateWithFlags>(|world, args| {
        world.domain(&args.dom)?;
        let dom = world.start_domain(args.dom.uuid, paused(args.flags))?;
        Ok(DomainCreateWithFlagsRet { dom })
    });
    call.on::<DomainCreateXml>(|world, args| {
        let uuid = world.define_domain(&args.xml_desc.to_string_lossy(), false)?;
        let started = world.start_domain(uuid, paused(args.flags));
        world.domains.retain(|d| d.persistent || d.is_active());
        started.map(|dom| DomainCreateXmlRet { dom })
    });
    call.on::<DomainDestroy>(|world, args| world.stop_domain(&args.dom, DomainShutoffReason::DESTROYED));
    call.on::<DomainDestroyFlags>(|world, args| world.stop_domain(&args.dom, DomainShutoffReason::DESTROYED));
    call.on::<DomainShutdown>(|world, args| world.stop_domain(&args.dom, DomainShutoffReason::SHUTDOWN));
    call.on::<DomainShutdownFlags>(|world, args| world.stop_domain(&args.dom, DomainShutoffReason::SHUTDOWN));
    call.on::<DomainReboot>(|world, args| {
        let uuid = world.running(&args.dom)?.uuid;
        guest::boot(world, uuid);
        Ok(())
    });
    call.on::<DomainReset>(|world, args| {
        let uuid = world.running(&args.dom)?.uuid;
        guest::boot(world, uuid);
        Ok(())
    });
    call.on::<DomainSuspend>(|world, args| {
        let domain = world.running(&args.dom)?;
        (domain.state, domain.reason) = (DomainState::PAUSED, DomainPausedReason::USER.0);
        let dom = domain.to_ref();
        event::lifecycle(
            world,
            &dom,
            DomainEventType::SUSPENDED,
            DomainEventSuspendedDetailType::PAUSED.0,
        );
        Ok(())
    });
    call.on::<DomainResume>(|world, args| {
        let domain = world.running(&args.dom)?;
        (domain.state, domain.reason) = (DomainState::RUNNING, DomainRunningReason::UNPAUSED.0);
        let (dom, is_booting) = (domain.to_ref(), !domain.agent_up);
        event::lifecycle(
            world,
            &dom,
            DomainEventType::RESUMED,
            DomainEventResumedDetailType::UNPAUSED.0,
        );
        if is_booting {
            guest::boot(world, dom.uuid);
        }
        Ok(())
    });
}

/// A domain that is gone, by its name.
fn absent(refusal: Refusal, name: &crate::wire::xdr::Text) -> Refusal {
    if refusal.0.code == ErrorNumber::ERR_NO_DOMAIN.0 {
        return Refusal::new(ErrorNumber::ERR_NO_DOMAIN, format!("Domain not found: {name}"));
    }
    refusal
}

fn look(call: &mut Call<'_>) {
    call.on::<DomainGetState>(|world, args| {
        world.domain(&args.dom).map(|d| DomainGetStateRet {
            state: d.state.0,
            reason: d.reason,
        })
    });
    call.on::<DomainGetInfo>(|world, args| {
        world.domain(&args.dom).map(|d| DomainGetInfoRet {
            state: u8::try_from(d.state.0).unwrap_or(0),
            max_mem: d.memory_kib,
            memory: d.memory_kib,
            nr_virt_cpu: d.vcpus,
            cpu_time: 0,
        })
    });
    call.on::<DomainGetXmlDesc>(|world, args| {
        world.domain(&args.dom).map(|d| DomainGetXmlDescRet {
            xml: d.description().into(),
        })
    });
    call.on::<DomainGetAutostart>(|world, args| {
        world.domain(&args.dom).map(|d| DomainGetAutostartRet {
            autostart: d.autostart.into(),
        })
    });
    call.on::<DomainSetAutostart>(|world, args| world.domain(&args.dom).map(|d| d.autostart = args.autostart != 0));
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
    call.on::<ConnectGetAllDomainStats>(|world, args| {
        let wanted = |d: &&Domain| args.doms.is_empty() || args.doms.iter().any(|dom| dom.uuid == d.uuid);
        let param = |field: &str, value| TypedParam {
            field: field.into(),
            value,
        };
        let stats = world.domains.iter().filter(wanted).map(|d| DomainStatsRecord {
            dom: d.to_ref(),
            params: vec![
                param("state.state", TypedParamValue::Int(d.state.0)),
                param("state.reason", TypedParamValue::Int(d.reason)),
                param("balloon.current", TypedParamValue::Ullong(d.memory_kib)),
                param("vcpu.current", TypedParamValue::Uint(d.vcpus.into())),
            ],
        });
        Ok(ConnectGetAllDomainStatsRet {
            ret_stats: stats.collect(),
        })
    });
}

fn metadata(call: &mut Call<'_>) {
    let key = |kind: i32, uri: &Option<crate::wire::xdr::Text>| match DomainMetadataType(kind) {
        DomainMetadataType::TITLE => "title".to_owned(),
        DomainMetadataType::DESCRIPTION => "description".to_owned(),
        _ => uri.as_ref().map(ToString::to_string).unwrap_or_default(),
    };
    call.on::<DomainGetMetadata>(|world, args| {
        let found = world
            .domain(&args.dom)?
            .metadata
            .get(&key(args.kind, &args.uri))
            .cloned();
        let missing = || {
            Refusal::new(
                ErrorNumber::ERR_NO_DOMAIN_METADATA,
                "metadata not found: Requested metadata element is not present",
            )
        };
        Ok(DomainGetMetadataRet {
            metadata: found.ok_or_else(missing)?.into(),
        })
    });
    call.on::<DomainSetMetadata>(|world, args| {
        let key = key(args.kind, &args.uri);
        let value = args.metadata.map(|text| {
            let text = text.into_string_lossy();
            match (&args.key, &args.uri) {
                (Some(prefix), Some(uri)) => namespaced(&text, &prefix.to_string_lossy(), &uri.to_string_lossy()),
                _ => text,
            }
        });
        let domain = world.domain(&args.dom)?;
        match value {
            Some(value) => drop(domain.metadata.insert(key, value)),
            None => drop(domain.metadata.remove(&key)),
        }
        Ok(())
    });
}

/// libvirt gives the element the prefix and namespace that were passed along with it.
fn namespaced(xml: &str, prefix: &str, uri: &str) -> String {
    let Some(name_end) = xml.find(|c: char| c.is_whitespace() || c == '/' || c == '>') else {
        return xml.to_owned();
    };
    let (open, rest) = xml.split_at(name_end);
    if open.contains(':') || rest.contains("xmlns") {
        return xml.to_owned();
    }
    let name = open.trim_start_matches('<');
    let rest = rest.replace(&format!("</{name}>"), &format!("</{prefix}:{name}>"));
    format!("<{prefix}:{name} xmlns:{prefix}=\"{uri}\"{rest}")
}

fn ask_guest(call: &mut Call<'_>) {
    call.on::<DomainAgentCommand>(|world, args| {
        let result = guest::command(world, &args.dom, &args.cmd.to_string_lossy())?;
        Ok(DomainAgentCommandRet {
            result: Some(result.into()),
        })
    });
    call.on::<DomainAgentSetResponseTimeout>(|world, args| {
        world
            .domain(&args.dom)
            .map(|_| DomainAgentSetResponseTimeoutRet { result: 0 })
    });
    call.on::<DomainInterfaceAddresses>(|world, args| {
        let domain = world.running(&args.dom)?;
        let address = DomainIpAddr {
            kind: 0,
            addr: guest::address(domain.id).into(),
            prefix: 24,
        };
        let interface = DomainInterface {
            name: "eth0".into(),
            hwaddr: Some("52:54:00:00:00:01".into()),
            addrs: vec![address],
        };
        Ok(DomainInterfaceAddressesRet {
            ifaces: vec![interface],
        })
    });
}
