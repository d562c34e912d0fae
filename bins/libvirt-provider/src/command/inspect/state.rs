//! What only the state file knows. It is read beside its provider, which keeps its lock; no byte of it is changed.

use std::{path::Path, time::SystemTime};

use providerkit::store::{self, Inputs, Snapshot, Sqlite};
use serde::Serialize;

use super::Page;
use crate::{
    cli::Look,
    command::Failure,
    table::{Table, age},
};

pub(super) fn read(path: &Path) -> Result<Snapshot, Failure> {
    Sqlite::read(path).map_err(failure)
}

fn failure(error: store::Error) -> Failure {
    match error.kind() {
        store::ErrorKind::InUse => Failure::temporary(error),
        _ => Failure::usage(error),
    }
}

/// The newest token of a shard for a machine.
#[derive(Debug, Serialize)]
struct Fence<'a> {
    machine: &'a str,
    shard: &'a str,
    epoch: i64,
    sequence: i64,
    /// Whether there is such a machine.
    known: bool,
}

pub(super) fn fences(path: &Path, look: &Look) -> Result<Page, Failure> {
    let snapshot = read(path)?;
    let machines: std::collections::BTreeSet<_> = snapshot
        .records
        .iter()
        .map(|record| record.machine.id.as_str())
        .collect();
    let mut fences: Vec<_> = snapshot
        .marks
        .iter()
        .map(|(machine, shard, mark)| Fence {
            machine: machine.as_str(),
            shard: shard.as_str(),
            epoch: mark.epoch,
            sequence: mark.sequence,
            known: machines.contains(machine.as_str()),
        })
        .collect();
    fences.sort_by_key(|fence| (fence.machine, fence.shard));
    Ok(Page::new(look, &fences, |_| {
        let mut table = Table::new(&["MACHINE", "SHARD", "EPOCH", "SEQUENCE", "MACHINE KNOWN"]);
        for fence in &fences {
            let known = if fence.known { "yes" } else { "no" };
            table.row([
                fence.machine.to_owned(),
                fence.shard.to_owned(),
                fence.epoch.to_string(),
                fence.sequence.to_string(),
                known.to_owned(),
            ]);
        }
        look.table(&table)
    }))
}

/// A transition under way, or one that failed and is held.
#[derive(Debug, Serialize)]
struct Operation<'a> {
    machine: &'a str,
    transition: &'static str,
    /// `running`, `overdue`, `failed`, or `failed, cleaned`.
    status: &'static str,
    operation: String,
    attempt: Option<u32>,
    /// Since it was accepted, or failed.
    age_seconds: u64,
    /// Until its deadline.
    left_seconds: Option<u64>,
    /// Of what is to be delivered; never what it is.
    bootstrap_bytes: Option<usize>,
    error: &'a str,
}

pub(super) fn operations(path: &Path, look: &Look) -> Result<Page, Failure> {
    let snapshot = read(path)?;
    let now = SystemTime::now();
    let since = |then: SystemTime| now.duration_since(then).unwrap_or_default();
    let mut operations = Vec::new();
    for record in &snapshot.records {
        let machine = record.machine.id.as_str();
        let error = record.machine.last_error.as_deref().unwrap_or_default();
        if let Some(running) = &record.running {
            let left = running.deadline.duration_since(now).ok();
            operations.push(Operation {
                machine,
                transition: running.transition.name(),
                status: if left.is_some() { "running" } else { "overdue" },
                operation: running.id.to_string(),
                attempt: Some(running.attempt),
                age_seconds: since(running.accepted).as_secs(),
                left_seconds: Some(left.unwrap_or_default().as_secs()),
                bootstrap_bytes: match &running.inputs {
                    Inputs::Bootstrap(blob) => Some(blob.len()),
                    _ => None,
                },
                error,
            });
        }
        if let Some(failed) = &record.failure {
            operations.push(Operation {
                machine,
                transition: failed.transition.name(),
                status: if failed.cleaned { "failed, cleaned" } else { "failed" },
                operation: failed.operation.to_string(),
                attempt: None,
                age_seconds: since(failed.at).as_secs(),
                left_seconds: None,
                bootstrap_bytes: None,
                error,
            });
        }
    }
    Ok(Page::new(look, &operations, |wide| {
        let mut header = vec!["MACHINE", "TRANSITION", "STATUS", "AGE", "LEFT", "ATTEMPT"];
        if wide {
            header.push("OPERATION");
        }
        header.push("LAST ERROR");
        let mut table = Table::new(&header);
        for it in &operations {
            let period = |seconds| age(std::time::Duration::from_secs(seconds));
            let mut cells = vec![
                it.machine.to_owned(),
                it.transition.to_owned(),
                it.status.to_owned(),
                period(it.age_seconds),
                it.left_seconds.map(period).unwrap_or_default(),
                it.attempt.map(|attempt| attempt.to_string()).unwrap_or_default(),
            ];
            if wide {
                cells.push(it.operation.clone());
            }
            cells.push(if wide {
                it.error.to_owned()
            } else {
                super::shortened(it.error)
            });
            table.row(cells);
        }
        look.table(&table)
    }))
}
