//! What a List costs, whole and empty.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use bigfleet_proto::{ListFilter, Machine, MachineRef};

use crate::{
    Result,
    backend::machine_id,
    proc,
    report::Latencies,
    server::Server,
    wire::{self, Client},
};

/// Enough that the kernel's hundredths of a second do not matter.
const OURS: u32 = 60;
const NAIVE: u32 = 15;
const WARM_UP: u32 = 3;
/// Pairs of a Get and an empty delta.
const PAIRS: usize = 4_000;

/// A full List.
#[derive(Clone, Copy)]
pub(crate) struct Full {
    /// Of the server.
    pub(crate) cpu: Duration,
    /// As the client sees it.
    pub(crate) wall: Duration,
    pub(crate) bytes: usize,
}

pub(crate) struct Ours {
    pub(crate) full: Full,
    pub(crate) get: Latencies,
    pub(crate) delta: Latencies,
}

pub(crate) async fn measure_ours(server: &Server) -> Result<Ours> {
    let full = full(server, server.addr(), OURS).await?;
    let mut client = wire::client(server.addr()).await?;
    let (get, delta) = pairs(&mut client, server.machines()).await?;
    Ok(Ours { full, get, delta })
}

/// Also makes sure that both services say the same.
pub(crate) async fn measure_naive(server: &Server) -> Result<Full> {
    let full = full(server, server.naive_addr(), NAIVE).await?;
    if machines(server.addr()).await? != machines(server.naive_addr()).await? {
        return Err("the encoded List and the naive one differ".into());
    }
    Ok(full)
}

async fn full(server: &Server, addr: SocketAddr, rounds: u32) -> Result<Full> {
    let channel = wire::channel(addr).await?;
    let mut bytes = 0;
    for _ in 0..WARM_UP {
        bytes = wire::list_size(&channel).await?;
    }
    let (begun, cpu) = (Instant::now(), proc::cpu(server.id())?);
    for _ in 0..rounds {
        wire::list_size(&channel).await?;
    }
    Ok(Full {
        wall: begun.elapsed() / rounds,
        cpu: (proc::cpu(server.id())? - cpu) / rounds,
        bytes,
    })
}

/// Gets and empty deltas in turn, one at a time, so that both meet the same machine.
async fn pairs(client: &mut Client, fleet: usize) -> Result<(Latencies, Latencies)> {
    let head = client.list(ListFilter::default()).await?.into_inner().revision;
    let filter = ListFilter {
        since_revision: head,
        ..ListFilter::default()
    };
    let (mut gets, mut deltas) = (Vec::new(), Vec::new());
    for turn in 0..PAIRS {
        let id = machine_id(turn % fleet);
        let begun = Instant::now();
        client.get(MachineRef { id }).await?;
        gets.push(begun.elapsed());
        let begun = Instant::now();
        let delta = client.list(filter.clone()).await?;
        deltas.push(begun.elapsed());
        if !delta.get_ref().machines.is_empty() {
            return Err("the delta of an idle fleet is not empty".into());
        }
    }
    Ok((Latencies::new(gets), Latencies::new(deltas)))
}

async fn machines(addr: SocketAddr) -> Result<Vec<Machine>> {
    let mut client = wire::client(addr).await?;
    let list = client.list(ListFilter::default()).await?.into_inner();
    let mut machines = list.machines;
    machines.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(machines)
}
