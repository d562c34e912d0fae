//! Statistics of domains.

use super::{call::Call, domain::Domain, domain_find, hardware::Source, world::World};
use crate::wire::{
    constant::domain::{ConnectListAllDomainsFlags, DomainStatsTypes as Stats},
    remote::{
        connect::{ConnectGetAllDomainStats, ConnectGetAllDomainStatsRet},
        record::{DomainStatsRecord, TypedParam, TypedParamValue},
    },
};

pub(super) fn answer(call: &mut Call<'_>) {
    call.on::<ConnectGetAllDomainStats>(|world, args| {
        // The flags that filter are those of the list of domains.
        let flags = ConnectListAllDomainsFlags(args.flags);
        let chosen: Vec<&Domain> = if args.doms.is_empty() {
            let all = world.domains.iter();
            all.filter(|domain| domain_find::fits(domain, flags)).collect()
        } else {
            let given = args.doms.iter();
            given.filter_map(|dom| world.domains.find(&dom.uuid)).collect()
        };
        let stats = if args.stats == 0 {
            Stats(u32::MAX)
        } else {
            Stats(args.stats)
        };
        let record = |domain: &Domain| DomainStatsRecord {
            dom: domain.to_ref(),
            params: params(world, domain, stats),
        };
        Ok(ConnectGetAllDomainStatsRet {
            ret_stats: chosen.into_iter().map(record).collect(),
        })
    });
}

fn params(world: &World, domain: &Domain, wanted: Stats) -> Vec<TypedParam> {
    use TypedParamValue::{Int, String, Uint, Ullong};

    let mut out = Vec::new();
    let mut add = |field: &str, value| {
        out.push(TypedParam {
            field: field.into(),
            value,
        });
    };
    let hardware = &domain.hardware;
    if wanted.contains(Stats::STATE) {
        add("state.state", Int(domain.state.0));
        add("state.reason", Int(domain.reason));
    }
    if wanted.contains(Stats::CPU_TOTAL) && domain.is_active() {
        add("cpu.time", Ullong(0));
    }
    if wanted.contains(Stats::BALLOON) {
        if domain.is_active() {
            add("balloon.current", Ullong(hardware.memory_kib));
        }
        add("balloon.maximum", Ullong(hardware.memory_kib));
    }
    if wanted.contains(Stats::VCPU) {
        add("vcpu.current", Uint(hardware.vcpus.into()));
        add("vcpu.maximum", Uint(hardware.vcpus.into()));
    }
    let count = |many: usize| Uint(u32::try_from(many).unwrap_or(u32::MAX));
    if wanted.contains(Stats::INTERFACE) && domain.is_active() {
        add("net.count", count(hardware.nics.len()));
        for at in 0..hardware.nics.len() {
            add(&format!("net.{at}.name"), String(format!("vnet{at}").into()));
        }
    }
    if wanted.contains(Stats::BLOCK) {
        add("block.count", count(hardware.disks.len()));
        for (at, disk) in hardware.disks.iter().enumerate() {
            add(&format!("block.{at}.name"), String(disk.target.as_str().into()));
            let volume = disk.source.as_ref().and_then(|source| match source {
                Source::Path(path) => world.pools.iter().find_map(|pool| pool.volumes.find(path)),
                Source::Volume { pool, volume } => world.pools.named(pool)?.volumes.named(volume),
            });
            if let Some(volume) = volume {
                add(&format!("block.{at}.path"), String(volume.path.as_str().into()));
                add(&format!("block.{at}.allocation"), Ullong(volume.allocation()));
                add(&format!("block.{at}.capacity"), Ullong(volume.capacity));
                add(&format!("block.{at}.physical"), Ullong(volume.allocation()));
            }
        }
    }
    out
}
