//! Durable Creates from many callers, and Gets while they run.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use bigfleet_proto::{CreateRequest, DeleteRequest, ListFilter, MachineRef, MachineState};
use tokio::{
    task::JoinSet,
    time::{interval, sleep},
};

use crate::{
    Result,
    backend::machine_id,
    report::Latencies,
    server::Server,
    wire::{self, Client},
};

pub(crate) const CALLERS: usize = 32;
pub(crate) const CONNECTIONS: usize = 4;
/// A round is timed whole. Between rounds machines are given back where needed, which is not timed.
const ROUND: usize = 6_400;
const ROUNDS: usize = 8;
/// Acks a second that the engine is held to, and that Gets are measured at once more: at full speed client and server
/// fight for the cores.
pub(crate) const PACE: usize = 3_000;
/// Between two Gets: often enough for a p99, seldom enough not to be the load.
const GET_PERIOD: Duration = Duration::from_millis(2);
/// A caller walks over the fleet in steps of this (prime) size, so that its machines lie on different pages.
const STRIDE: usize = 7_919;

pub(crate) struct Acks {
    /// Of the median round.
    pub(crate) per_second: f64,
    pub(crate) creates: Latencies,
    pub(crate) gets: Latencies,
    /// Gets while the callers keep to [`PACE`] together.
    pub(crate) paced_gets: Latencies,
}

/// Rounds on the one and the other in turn, so that both meet the same disk and the same neighbours.
pub(crate) async fn measure(servers: [&Server; 2]) -> Result<[Acks; 2]> {
    let [one, other] = servers;
    let (mut one, mut other) = (Course::start(one).await?, Course::start(other).await?);
    for _ in 0..ROUNDS {
        one.round().await?;
        other.round().await?;
    }
    one.paced().await?;
    other.paced().await?;
    Ok([one.finish()?, other.finish()?])
}

/// All rounds on one server.
struct Course {
    load: Load,
    gets: Gets,
    paced_gets: Gets,
    round: usize,
    rates: Vec<f64>,
    creates: Vec<Duration>,
}

impl Course {
    async fn start(server: &Server) -> Result<Self> {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            clients.push(wire::client(server.addr()).await?);
        }
        let mut load = Load {
            clients,
            fleet: server.machines(),
            used: 0,
            pace: None,
            sequence: Arc::new(AtomicI64::new(1)),
        };
        let round = ROUND.min(server.machines());
        // Warms up connections, pages and the allocator.
        load.create(round).await?;
        load.settle().await?;
        Ok(Self {
            load,
            gets: Gets::start(server)?,
            paced_gets: Gets::start(server)?,
            round,
            rates: Vec::new(),
            creates: Vec::new(),
        })
    }

    async fn round(&mut self) -> Result<()> {
        if self.load.used + self.round > self.load.fleet {
            self.load.give_back().await?;
        }
        self.gets.run.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        let latencies = self.load.create(self.round).await?;
        let took = begun.elapsed();
        self.gets.run.store(false, Ordering::Relaxed);
        self.rates.push(latencies.len() as f64 / took.as_secs_f64());
        self.creates.extend(latencies);
        self.load.settle().await
    }

    /// One more round, as fast as the goal and no faster.
    async fn paced(&mut self) -> Result<()> {
        if self.load.used + self.round > self.load.fleet {
            self.load.give_back().await?;
        }
        self.load.pace = Some(Duration::from_secs(1) * CALLERS as u32 / PACE as u32);
        self.paced_gets.run.store(true, Ordering::Relaxed);
        self.load.create(self.round).await?;
        self.paced_gets.run.store(false, Ordering::Relaxed);
        self.load.settle().await
    }

    fn finish(mut self) -> Result<Acks> {
        self.rates.sort_unstable_by(f64::total_cmp);
        Ok(Acks {
            per_second: self.rates.get(ROUNDS / 2).copied().unwrap_or_default(),
            creates: Latencies::new(self.creates),
            gets: Latencies::new(self.gets.finish()?),
            paced_gets: Latencies::new(self.paced_gets.finish()?),
        })
    }
}

#[derive(Clone, Copy)]
enum Call {
    Create,
    Delete,
}

/// The callers, and how far over the fleet they are.
struct Load {
    clients: Vec<Client>,
    fleet: usize,
    /// Machines that are not SPECULATIVE any more.
    used: usize,
    /// Between two calls of one caller, at least.
    pace: Option<Duration>,
    sequence: Arc<AtomicI64>,
}

impl Load {
    /// Creates the next machines, and tells how long each ack took.
    async fn create(&mut self, count: usize) -> Result<Vec<Duration>> {
        let turns = self.used..self.used + count;
        self.used = turns.end;
        self.call(Call::Create, turns).await
    }

    /// Deletes every machine that was created.
    async fn give_back(&mut self) -> Result<()> {
        self.settle().await?;
        self.call(Call::Delete, 0..self.used).await?;
        self.used = 0;
        self.settle().await
    }

    /// Waits until no transition runs.
    async fn settle(&mut self) -> Result<()> {
        let filter = ListFilter {
            states: vec![MachineState::Creating.into(), MachineState::Deleting.into()],
            max_results: 1,
            ..ListFilter::default()
        };
        let client = self.clients.first_mut().ok_or("no connection")?;
        while !client.list(filter.clone()).await?.get_ref().machines.is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn call(&self, call: Call, turns: Range<usize>) -> Result<Vec<Duration>> {
        let next = Arc::new(AtomicUsize::new(turns.start));
        let mut callers = JoinSet::new();
        for client in self.clients.iter().cycle().take(CALLERS) {
            let (mut client, next) = (client.clone(), Arc::clone(&next));
            let (sequence, fleet) = (Arc::clone(&self.sequence), self.fleet);
            let mut ticks = self.pace.map(interval);
            callers.spawn(async move {
                let mut latencies = Vec::new();
                loop {
                    let turn = next.fetch_add(1, Ordering::Relaxed);
                    if turn >= turns.end {
                        return Result::Ok(latencies);
                    }
                    if let Some(ticks) = &mut ticks {
                        ticks.tick().await;
                    }
                    let machine = machine_id(turn * STRIDE % fleet);
                    let sequence = sequence.fetch_add(1, Ordering::Relaxed);
                    let begun = Instant::now();
                    call.send(&mut client, machine, sequence).await?;
                    latencies.push(begun.elapsed());
                }
            });
        }
        let mut all = Vec::with_capacity(turns.len());
        while let Some(latencies) = callers.join_next().await {
            all.extend(latencies??);
        }
        Ok(all)
    }
}

impl Call {
    async fn send(self, client: &mut Client, machine_id: String, sequence_number: i64) -> Result<()> {
        let (shard_id, shard_epoch) = ("bench".to_owned(), 1);
        match self {
            Self::Create => {
                let request = CreateRequest {
                    machine_id,
                    shard_id,
                    shard_epoch,
                    sequence_number,
                };
                client.create(request).await?;
            }
            Self::Delete => {
                let request = DeleteRequest {
                    machine_id,
                    shard_id,
                    shard_epoch,
                    sequence_number,
                };
                client.delete(request).await?;
            }
        }
        Ok(())
    }
}

/// Gets on a thread and a connection of their own, so that they wait for the server and not for the callers.
struct Gets {
    run: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
    thread: thread::JoinHandle<Result<Vec<Duration>>>,
}

impl Gets {
    fn start(server: &Server) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (addr, fleet) = (server.addr(), server.machines());
        let (run, end) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (running, ended) = (Arc::clone(&run), Arc::clone(&end));
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                let mut client = wire::client(addr).await?;
                let (mut latencies, mut turn) = (Vec::new(), 0);
                while !ended.load(Ordering::Relaxed) {
                    sleep(GET_PERIOD).await;
                    if running.load(Ordering::Relaxed) {
                        turn += STRIDE;
                        let id = machine_id(turn % fleet);
                        let begun = Instant::now();
                        client.get(MachineRef { id }).await?;
                        latencies.push(begun.elapsed());
                    }
                }
                Ok(latencies)
            })
        });
        Ok(Self { run, end, thread })
    }

    fn finish(self) -> Result<Vec<Duration>> {
        self.end.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the thread of the Gets panicked")?
    }
}
