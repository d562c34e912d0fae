//! The machine.

use serde::{Deserialize, Serialize};

use super::call::{Call, Refusal};
use crate::wire::{
    remote::{
        connect::{ConnectGetMaxVcpus, ConnectGetMaxVcpusRet, ConnectGetSysinfo, ConnectGetSysinfoRet},
        node::{
            NodeGetCellsFreeMemory, NodeGetCellsFreeMemoryRet, NodeGetFreeMemory, NodeGetFreeMemoryRet, NodeGetInfo,
            NodeGetInfoRet, NodeGetMemoryStats, NodeGetMemoryStatsRet,
        },
        record::NodeMemoryStat,
    },
    xdr::CharArray,
};

/// How domains run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Virtualization {
    /// With KVM, `<domain type='kvm'>`; plain QEMU works too.
    #[default]
    Kvm,
    /// With QEMU alone, `<domain type='qemu'>`.
    Qemu,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Host {
    pub(super) cpus: i32,
    pub(super) memory_kib: u64,
    pub(super) cells: i32,
    pub(super) virtualization: Virtualization,
    /// libvirt's, as it counts them.
    pub(super) version: u64,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            cpus: 64,
            memory_kib: 256 << 20,
            cells: 1,
            virtualization: Virtualization::Kvm,
            version: 11_003_000,
        }
    }
}

pub(super) fn answer(call: &mut Call<'_>) {
    call.on::<NodeGetInfo>(|world, ()| {
        let host = &world.host;
        let mut model = CharArray::default();
        for (to, from) in model.0.iter_mut().zip(b"x86_64") {
            *to = *from;
        }
        Ok(NodeGetInfoRet {
            model,
            memory: host.memory_kib,
            cpus: host.cpus,
            mhz: 3000,
            nodes: host.cells,
            sockets: 1,
            cores: (host.cpus / host.cells).max(1),
            threads: 1,
        })
    });
    call.on::<NodeGetFreeMemory>(|world, ()| {
        let free = world.host.memory_kib.saturating_sub(world.used_kib());
        Ok(NodeGetFreeMemoryRet { free_mem: free << 10 })
    });
    call.on::<NodeGetCellsFreeMemory>(|world, args| {
        let free = world.host.memory_kib.saturating_sub(world.used_kib()) << 10;
        let cells = world.host.cells;
        if !(0..cells).contains(&args.start_cell) {
            let (start, last) = (args.start_cell, cells - 1);
            return Err(Refusal::internal(format!("start cell {start} out of range (0-{last})")));
        }
        let count = args.maxcells.clamp(0, cells - args.start_cell);
        let each = free / u64::try_from(cells).unwrap_or(1);
        Ok(NodeGetCellsFreeMemoryRet {
            cells: (0..count).map(|_| each).collect(),
        })
    });
    call.on::<NodeGetMemoryStats>(|world, args| {
        let stat = |field: &str, value| NodeMemoryStat {
            field: field.into(),
            value,
        };
        let total = world.host.memory_kib;
        let all = [
            stat("total", total),
            stat("free", total.saturating_sub(world.used_kib())),
            stat("buffers", 0),
            stat("cached", 0),
        ];
        let nparams = i32::try_from(all.len()).unwrap_or(0);
        // Asked with room for none, it says how much room is needed.
        let params = if args.nparams == 0 { Vec::new() } else { all.to_vec() };
        Ok(NodeGetMemoryStatsRet { params, nparams })
    });
    call.on::<ConnectGetMaxVcpus>(|_, _| Ok(ConnectGetMaxVcpusRet { max_vcpus: 255 }));
    call.on::<ConnectGetSysinfo>(|_, _| {
        let system = "<system><entry name='manufacturer'>QEMU</entry><entry name='product'>Fake</entry></system>";
        Ok(ConnectGetSysinfoRet {
            sysinfo: format!("<sysinfo type='smbios'>{system}</sysinfo>").into(),
        })
    });
}
