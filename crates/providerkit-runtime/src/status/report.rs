//! The JSON that the page is drawn from. Its shape is the page's business and may change with it.

use std::{collections::BTreeMap, time::SystemTime};

use providerkit::{Failed, State, Status, UnderWay};
use serde::Serialize;

use super::{
    OLDEST, PACE, Source,
    history::{History, Sample},
};
use crate::HostStatus;

/// Everything on the page.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    provider: String,
    version: &'static str,
    revision: &'static str,
    phase: &'static str,
    now: u64,
    started: u64,
    states: Vec<&'static str>,
    total: usize,
    withheld: usize,
    zones: Vec<Zone>,
    running: usize,
    oldest: Vec<Running>,
    errors: Vec<Error>,
    pace: u64,
    history: Vec<Sample>,
}

#[derive(Debug, Default, Serialize)]
struct Zone {
    name: String,
    /// In the order of the report's states.
    machines: Vec<usize>,
    withheld: usize,
    hosts: Vec<HostStatus>,
}

#[derive(Debug, Serialize)]
struct Running {
    machine: String,
    zone: String,
    transition: &'static str,
    operation: String,
    attempt: u32,
    since: u64,
    deadline: u64,
}

#[derive(Debug, Serialize)]
struct Error {
    machine: String,
    zone: String,
    transition: &'static str,
    at: u64,
    error: String,
}

impl Report {
    /// Before there is an engine.
    pub(super) fn empty(phase: &'static str) -> Self {
        Self {
            phase,
            now: millis(SystemTime::now()),
            ..Self::default()
        }
    }

    pub(super) fn of(source: &Source, phase: &'static str, history: &History) -> Self {
        let status = source.engine.status(OLDEST);
        Self {
            provider: source.provider.to_string(),
            version: source.build.map_or("", |build| build.version),
            revision: source.build.map_or("", |build| build.revision),
            started: millis(source.started),
            states: State::ALL.map(State::name).to_vec(),
            total: status.machines.values().flat_map(BTreeMap::values).sum(),
            withheld: status.withheld.values().sum(),
            zones: zones(&status, source.operator.hosts()),
            running: status.running,
            oldest: status.oldest.iter().map(Running::of).collect(),
            errors: status.errors.iter().map(Error::of).collect(),
            pace: PACE.as_secs(),
            history: history.all(),
            ..Self::empty(phase)
        }
    }
}

/// Those with machines and those with hosts.
fn zones(status: &Status, hosts: Vec<HostStatus>) -> Vec<Zone> {
    let mut zones: BTreeMap<String, Zone> = BTreeMap::new();
    let zone = |name: &str| Zone {
        name: name.to_owned(),
        machines: vec![0; State::ALL.len()],
        ..Zone::default()
    };
    for (name, machines) in &status.machines {
        let entry = zones.entry(name.to_string()).or_insert_with(|| zone(name));
        entry.machines = State::ALL
            .map(|state| machines.get(&state).copied().unwrap_or(0))
            .to_vec();
        entry.withheld = status.withheld.get(name).copied().unwrap_or(0);
    }
    for host in hosts {
        let entry = zones.entry(host.zone.clone()).or_insert_with(|| zone(&host.zone));
        entry.hosts.push(host);
    }
    zones.into_values().collect()
}

impl Running {
    fn of(running: &UnderWay) -> Self {
        Self {
            machine: running.machine.to_string(),
            zone: running.zone.to_string(),
            transition: running.transition.name(),
            operation: running.operation.to_string(),
            attempt: running.attempt,
            since: millis(running.accepted),
            deadline: millis(running.deadline),
        }
    }
}

impl Error {
    fn of(failed: &Failed) -> Self {
        Self {
            machine: failed.machine.to_string(),
            zone: failed.zone.to_string(),
            transition: failed.transition.name(),
            at: millis(failed.at),
            error: failed.error.to_string(),
        }
    }
}

/// Milliseconds since 1970.
pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
