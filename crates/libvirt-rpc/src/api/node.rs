//! The host.

use super::calls;
use crate::wire::remote::node::{
    NodeGetCellsFreeMemory, NodeGetCellsFreeMemoryArgs, NodeGetFreeMemory, NodeGetInfo, NodeGetInfoRet,
    NodeGetMemoryStats, NodeGetMemoryStatsArgs,
};

/// What a host is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeInfo {
    /// The CPU's architecture: `x86_64`.
    pub model: String,
    /// Memory in KiB.
    pub memory_kib: u64,
    /// CPUs that are on.
    pub cpus: i32,
    /// Their frequency.
    pub mhz: i32,
    /// NUMA cells.
    pub nodes: i32,
    /// Sockets of a cell.
    pub sockets: i32,
    /// Cores of a socket.
    pub cores: i32,
    /// Threads of a core.
    pub threads: i32,
}

impl From<NodeGetInfoRet> for NodeInfo {
    fn from(r: NodeGetInfoRet) -> Self {
        Self {
            model: String::from_utf8_lossy(r.model.text()).into_owned(),
            memory_kib: r.memory,
            cpus: r.cpus,
            mhz: r.mhz,
            nodes: r.nodes,
            sockets: r.sockets,
            cores: r.cores,
            threads: r.threads,
        }
    }
}

/// All NUMA cells together.
const ALL_CELLS: i32 = -1;

calls! {
    /// What the host is made of.
    node_info() -> NodeInfo = NodeGetInfo () => |r| r.into();
    /// Free memory of the host in bytes.
    node_free_memory() -> u64 = NodeGetFreeMemory () => |r| r.free_mem;
    /// Free memory of each of `count` NUMA cells from `first` on, in bytes.
    node_cells_free_memory(first: i32, count: i32) -> Vec<u64>
        = NodeGetCellsFreeMemory (NodeGetCellsFreeMemoryArgs { start_cell: first, maxcells: count }) => |r| r.cells;
}

impl crate::Connection {
    /// Memory of the host by kind (`total`, `free`, `buffers`, `cached`), in KiB.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn node_memory_stats(&self) -> Result<Vec<(String, u64)>, crate::Error> {
        let ask = |nparams| NodeGetMemoryStatsArgs {
            nparams,
            cell_num: ALL_CELLS,
            flags: 0,
        };
        let count = self.call::<NodeGetMemoryStats>(&ask(0)).await?.nparams;
        let stats = self.call::<NodeGetMemoryStats>(&ask(count)).await?.params;
        Ok(stats
            .into_iter()
            .map(|stat| (stat.field.into_string_lossy(), stat.value))
            .collect())
    }
}
