//! What the engine costs, as a caller sees it and as the machine it runs on sees it.
//!
//! `cargo xtask bench engine` runs it. The client is this process; the server is another, started from the same
//! executable with `--serve`: the engine on SQLite on disk behind gRPC on loopback, with a backend whose work is
//! instant.
#![allow(clippy::print_stdout, reason = "the table is what it is for")]

mod acks;
mod backend;
mod lists;
mod naive;
mod proc;
mod report;
mod server;
mod wire;

use std::{
    error,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;

use report::{Figures, Report};
use server::Server;

const RESTARTS: usize = 5;

type Result<T> = std::result::Result<T, Box<dyn error::Error + Send + Sync>>;

#[derive(Debug, Parser)]
struct Arguments {
    /// Size of the small fleet
    #[arg(long, default_value_t = 8_000)]
    small: usize,
    /// Size of the large fleet
    #[arg(long, default_value_t = 100_000)]
    large: usize,
    /// Be the server
    #[arg(long)]
    serve: bool,
    /// Where the server's state is
    #[arg(long, required_if_eq("serve", "true"))]
    state: Option<PathBuf>,
    /// How many machines the server seeds
    #[arg(long, default_value_t = 0)]
    machines: usize,
    /// Where the server listens
    #[arg(long, required_if_eq("serve", "true"))]
    addr: Option<SocketAddr>,
    /// Where the server offers the service that builds and encodes every message of every call
    #[arg(long, required_if_eq("serve", "true"))]
    naive_addr: Option<SocketAddr>,
    /// Set by `cargo bench`
    #[arg(long)]
    bench: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    if let (true, Some(state), Some(addr), Some(naive)) =
        (arguments.serve, &arguments.state, arguments.addr, arguments.naive_addr)
    {
        return runtime.block_on(server::serve(state, arguments.machines, addr, naive));
    }
    if !arguments.bench {
        println!("nothing to test here; `cargo xtask bench engine` measures");
        return Ok(());
    }
    let folder = tempfile::Builder::new()
        .prefix("bench-engine-")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let neighbours = proc::Neighbours::watch()?;
    let report = runtime.block_on(measure(folder.path(), [arguments.small, arguments.large]))?;
    let neighbours = neighbours.cores()?;
    println!("\n{}{report}", report::circumstances(folder.path(), neighbours)?);
    Ok(())
}

async fn measure(folder: &Path, sizes: [usize; 2]) -> Result<Report> {
    println!("seeding");
    let (mut servers, mut seeded) = (Vec::new(), Vec::new());
    for (number, size) in sizes.into_iter().enumerate() {
        let mut server = Server::start(&folder.join(format!("{number}.db")), size)?;
        seeded.push(server.answers().await?);
        servers.push(server);
    }
    let [small, large] = servers.as_mut_slice() else {
        return Err("there are two sizes".into());
    };
    println!("Creates");
    let acks = acks::measure([small, large]).await?;
    let mut figures = Vec::new();
    for ((server, acks), seeded) in [small, large].into_iter().zip(acks).zip(seeded) {
        println!("Lists and restarts of {}", server.machines());
        let lists = lists::measure_ours(server).await?;
        let memory = proc::memory(server.id())?;
        let naive = lists::measure_naive(server).await?;
        let mut restarts = Vec::new();
        for _ in 0..RESTARTS {
            server.kill()?;
            server.spawn()?;
            restarts.push(server.answers().await?);
        }
        server.kill()?;
        figures.push(Figures {
            machines: server.machines(),
            seeded,
            acks,
            lists,
            naive,
            restarts,
            memory,
        });
    }
    let figures: [Figures; 2] = figures.try_into().map_err(|_| "there are two sizes")?;
    Ok(Report::new(&figures))
}
