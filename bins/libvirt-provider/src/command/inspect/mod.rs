//! `inspect`: what a provider has, from the provider itself or from its state file.

mod hosts;
mod state;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use anyhow::anyhow;
use providerkit_runtime::client::{Client, Shown};
use serde::Serialize;

use super::{Exit, Failure, in_runtime};
use crate::{
    cli::{Inspect, Look, Output, Source},
    table::Table,
};

/// Between two looks of `--watch`.
const PAUSE: Duration = Duration::from_secs(2);
/// How much of an error a table shows that is not wide.
const SHORT: usize = 60;

pub(super) fn run(what: &Inspect) -> Result<Exit, Failure> {
    in_runtime(async {
        match what {
            Inspect::Machines { look, source } => {
                look.show(async || Ok(machines(&machines_of(source).await?, look)))
                    .await
            }
            Inspect::Machine { id, look, source } => {
                look.show(async || {
                    let machine = machine_of(source, id).await?;
                    Ok(Page::new(look, &machine, |_| machine_text(&machine)))
                })
                .await
            }
            Inspect::Offerings { look, source } => {
                look.show(async || Ok(offerings(&machines_of(source).await?, look)))
                    .await
            }
            Inspect::Fences { look, state } => look.show(async || state::fences(&state.state, look)).await,
            Inspect::Operations { look, state } => look.show(async || state::operations(&state.state, look)).await,
            Inspect::Hosts { look, flags } => {
                let settings = super::settings(flags)?;
                look.show(async || hosts::page(&settings, look).await).await
            }
        }
    })
}

/// What is shown once.
struct Page(Result<String, serde_json::Error>);

impl Page {
    fn new(look: &Look, value: &impl Serialize, text: impl FnOnce(bool) -> String) -> Self {
        Self(match look.output {
            Output::Json => serde_json::to_string_pretty(value).map(|text| text + "\n"),
            Output::Table => Ok(text(false)),
            Output::Wide => Ok(text(true)),
        })
    }
}

impl Look {
    /// Shows a page, with `--watch` again and again, until nobody reads it any more.
    async fn show(&self, page: impl AsyncFn() -> Result<Page, Failure>) -> Result<Exit, Failure> {
        loop {
            let text = page().await?.0.map_err(Failure::internal)?;
            {
                let mut out = io::stdout().lock();
                if self.watch && out.is_terminal() {
                    // From the top of an empty screen.
                    write!(out, "\x1b[H\x1b[2J")?;
                }
                write!(out, "{text}")?;
                out.flush()?;
            }
            if !self.watch {
                return Ok(Exit::Success);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn table(&self, table: &Table) -> String {
        table.render(!self.no_headers)
    }
}

async fn machines_of(source: &Source) -> Result<Vec<Shown>, Failure> {
    if let Some(state) = &source.state {
        let snapshot = state::read(state)?;
        let shown = snapshot.records.iter().filter(|record| !record.is_hidden());
        return Ok(shown.map(Shown::from).collect());
    }
    let target = source.target.parse().map_err(Failure::usage)?;
    Ok(Client::connect(&target).await?.list().await?)
}

async fn machine_of(source: &Source, id: &str) -> Result<Shown, Failure> {
    let found = match &source.state {
        Some(state) => {
            let snapshot = state::read(state)?;
            let mut records = snapshot.records.iter();
            records.find(|record| record.machine.id.as_str() == id).map(Shown::from)
        }
        None => {
            let target = source.target.parse().map_err(Failure::usage)?;
            Client::connect(&target).await?.get(id).await?
        }
    };
    found
        .ok_or_else(|| anyhow!("there is no machine `{id}`; `inspect machines` lists those there are"))
        .map_err(Failure::usage)
}

fn machines(machines: &[Shown], look: &Look) -> Page {
    Page::new(look, &machines, |wide| {
        let mut header = vec!["ID", "STATE", "TYPE", "ZONE", "CLUSTER"];
        if wide {
            header.extend(["CAPACITY", "PRICE/H", "HOST"]);
        }
        header.push("LAST ERROR");
        let mut table = Table::new(&header);
        for machine in machines {
            let mut cells = vec![
                machine.id.clone(),
                machine.state.clone(),
                machine.instance_type.clone(),
                machine.zone.clone(),
                machine.cluster.clone(),
            ];
            if wide {
                cells.extend([
                    machine.capacity_type.clone(),
                    machine.price_per_hour.to_string(),
                    machine.host.clone(),
                ]);
            }
            cells.push(if wide {
                machine.last_error.clone()
            } else {
                shortened(&machine.last_error)
            });
            table.row(cells);
        }
        look.table(&table)
    })
}

fn machine_text(machine: &Shown) -> String {
    let map = |map: &BTreeMap<String, String>| {
        let pairs: Vec<_> = map.iter().map(|(key, value)| format!("{key}={value}")).collect();
        pairs.join(", ")
    };
    let lines = [
        ("id", machine.id.clone()),
        ("state", machine.state.clone()),
        ("type", machine.instance_type.clone()),
        ("zone", machine.zone.clone()),
        ("capacity", machine.capacity_type.clone()),
        ("price", format!("{} an hour", machine.price_per_hour)),
        ("interruption", machine.interruption_probability.to_string()),
        ("resources", map(&machine.resources)),
        ("allocatable", map(&machine.allocatable)),
        ("labels", map(&machine.labels)),
        ("provider", machine.provider.clone()),
        ("host", machine.host.clone()),
        ("cluster", machine.cluster.clone()),
        ("metadata", map(&machine.shard_metadata)),
        ("last error", machine.last_error.clone()),
    ];
    let mut text = String::new();
    for (name, value) in lines {
        let value = if value.is_empty() { "-" } else { &value };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:13} {value}");
    }
    text
}

/// Slots of one kind, and how many of them can be had.
#[derive(Debug, Default, Serialize)]
struct Offering {
    zone: String,
    instance_type: String,
    capacity_type: String,
    price_per_hour: f64,
    resources: BTreeMap<String, String>,
    slots: u32,
    free: u32,
    in_use: u32,
    failed: u32,
}

fn offerings(machines: &[Shown], look: &Look) -> Page {
    let mut kinds = BTreeMap::<_, Offering>::new();
    for machine in machines {
        let kind = (
            &machine.zone,
            &machine.instance_type,
            &machine.capacity_type,
            machine.price_per_hour.to_bits(),
        );
        let offering = kinds.entry(kind).or_insert_with(|| Offering {
            zone: machine.zone.clone(),
            instance_type: machine.instance_type.clone(),
            capacity_type: machine.capacity_type.clone(),
            price_per_hour: machine.price_per_hour,
            resources: machine.resources.clone(),
            ..Offering::default()
        });
        offering.slots += 1;
        match machine.state.as_str() {
            "SPECULATIVE" => offering.free += 1,
            "FAILED" => offering.failed += 1,
            _ => offering.in_use += 1,
        }
    }
    let offerings: Vec<_> = kinds.into_values().collect();
    Page::new(look, &offerings, |wide| {
        let mut header = vec![
            "ZONE", "TYPE", "CAPACITY", "PRICE/H", "SLOTS", "FREE", "IN USE", "FAILED",
        ];
        if wide {
            header.push("RESOURCES");
        }
        let mut table = Table::new(&header);
        for it in &offerings {
            let mut cells = vec![
                it.zone.clone(),
                it.instance_type.clone(),
                it.capacity_type.clone(),
                it.price_per_hour.to_string(),
            ];
            cells.extend([it.slots, it.free, it.in_use, it.failed].map(|count| count.to_string()));
            if wide {
                let resources = it.resources.iter().map(|(name, quantity)| format!("{name}={quantity}"));
                cells.push(resources.collect::<Vec<_>>().join(","));
            }
            table.row(cells);
        }
        look.table(&table)
    })
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= SHORT {
        return text.to_owned();
    }
    text.chars().take(SHORT).chain(['…']).collect()
}
