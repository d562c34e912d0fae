//! Walks machines of a running provider through their whole life, as BigFleet would: it reads the inventory once, then
//! only what changed, and sends a call wherever a machine has come to rest.
//!
//! `cargo xtask demo` builds it, starts a provider for it, and runs it.
#![allow(clippy::print_stdout, reason = "the table is what it is for")]

mod table;
mod walk;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bigfleet_proto::{CapacityProviderClient, ListFilter, MachineList, MachineState};
use clap::Parser;
use tokio::{
    process::Command,
    time::{Instant, sleep, timeout},
};
use tonic::transport::{Channel, Endpoint};

use table::Table;
use walk::{Walk, free};

type Client = CapacityProviderClient<Channel>;

/// Between two Lists. BigFleet waits ten seconds; a person who watches does not.
const PERIOD: Duration = Duration::from_millis(100);
/// BigFleet's own budget for a call.
const CALL: Duration = Duration::from_secs(30);
/// How long a provider may take to see its hosts.
const INVENTORY: Duration = Duration::from_secs(30);

#[derive(Debug, Parser)]
#[command(about = "Walk machines through Create, Configure, Drain and Delete")]
struct Arguments {
    /// The provider, such as 127.0.0.1:9000
    #[arg(long)]
    addr: String,
    /// How many machines walk
    #[arg(long, default_value_t = 6)]
    machines: usize,
    /// Seconds a machine stays CONFIGURED
    #[arg(long, default_value_t = 1)]
    hold: u64,
    /// Seconds until the walk is given up
    #[arg(long, default_value_t = 120)]
    limit: u64,
    /// A shell command to run when all machines are CONFIGURED, for which they wait for each other; it shows them where
    /// they are
    #[arg(long, value_name = "COMMAND")]
    inspect: Option<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let channel = Endpoint::new(format!("http://{}", arguments.addr))?
        .timeout(CALL)
        .connect()
        .await
        .with_context(|| format!("dialling {}", arguments.addr))?;
    let client = CapacityProviderClient::new(channel).max_decoding_message_size(256 << 20);
    let limit = Duration::from_secs(arguments.limit);
    timeout(limit, walk(client, &arguments))
        .await
        .with_context(|| format!("the walk is not over after {limit:?}"))?
}

async fn walk(mut client: Client, arguments: &Arguments) -> Result<()> {
    let mut list = enough(&mut client, arguments.machines).await?;
    println!("{} machines; {} of them walk", list.machines.len(), arguments.machines);
    let hold = Duration::from_secs(arguments.hold);
    let mut walk = Walk::new(&list.machines, arguments.machines, hold, arguments.inspect.is_some())?;
    let mut table = Table::new();
    table.draw(walk.steps());
    while !walk.is_over() {
        walk.advance(&client).await?;
        table.draw(walk.steps());
        sleep(PERIOD).await;
        list = changes_since(list, &mut client).await?;
        walk.observe(&list.machines)?;
        table.draw(walk.steps());
        if let Some(command) = arguments.inspect.as_ref().filter(|_| walk.has_gathered()) {
            inspect(command).await?;
            table.leave();
            walk.part();
        }
    }
    let whole = changes_since(MachineList::default(), &mut client).await?;
    for step in walk.steps() {
        let found = whole.machines.iter().find(|machine| machine.id == step.id());
        let machine = found.with_context(|| format!("machine `{}` is gone", step.id()))?;
        ensure!(
            machine.state() == MachineState::Speculative && machine.host.is_none() && machine.cluster.is_empty(),
            "machine `{}` did not come back to where it began: {machine:?}",
            step.id()
        );
    }
    println!(
        "{} machines are back where they began, after {} calls",
        walk.steps().len(),
        walk.calls()
    );
    Ok(())
}

/// The inventory, once it has so many machines to offer: a provider listens before it has seen its hosts.
async fn enough(client: &mut Client, count: usize) -> Result<MachineList> {
    let deadline = Instant::now() + INVENTORY;
    loop {
        let list = changes_since(MachineList::default(), client).await?;
        if free(&list.machines).len() >= count || Instant::now() > deadline {
            return Ok(list);
        }
        sleep(PERIOD).await;
    }
}

async fn inspect(command: &str) -> Result<()> {
    println!("\nall machines are CONFIGURED\n");
    let status = Command::new("sh")
        .args(["-c", command])
        .status()
        .await
        .context("starting sh")?;
    ensure!(status.success(), "`{command}` failed: {status}");
    Ok(())
}

/// What changed since an earlier answer; since an empty one, everything.
async fn changes_since(earlier: MachineList, client: &mut Client) -> Result<MachineList> {
    let filter = ListFilter {
        since_revision: earlier.revision,
        ..ListFilter::default()
    };
    Ok(client.list(filter).await.context("List")?.into_inner())
}
