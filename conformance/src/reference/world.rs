//! What the reference knows, and how it is kept.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::PathBuf,
};

use bigfleet_proto::{CapacityType, HostRef, Machine, MachineState as S, Resources};
use serde::{Deserialize, Serialize};

use super::Rules;

/// One of the four calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Kind {
    Create,
    Configure,
    Drain,
    Delete,
}

impl Kind {
    pub(super) fn start(self) -> S {
        match self {
            Self::Create => S::Speculative,
            Self::Configure | Self::Delete => S::Idle,
            Self::Drain => S::Configured,
        }
    }

    pub(super) fn running(self) -> S {
        match self {
            Self::Create => S::Creating,
            Self::Configure => S::Configuring,
            Self::Drain => S::Draining,
            Self::Delete => S::Deleting,
        }
    }

    pub(super) fn target(self) -> S {
        match self {
            Self::Create | Self::Drain => S::Idle,
            Self::Configure => S::Configured,
            Self::Delete => S::Speculative,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) machine: Machine,
    /// The revision of the last change; no two machines have the same.
    pub(super) changed: u64,
    /// The operation under way.
    pub(super) running: Option<(Kind, String)>,
    pub(super) drains: u32,
    /// The metadata of the binding before, for the mutant that mixes them.
    pub(super) before: BTreeMap<String, String>,
    /// Who asked, for the mutant that needs it.
    pub(super) caller: Option<std::net::SocketAddr>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) incarnation: u64,
    pub(super) revision: u64,
    pub(super) machines: BTreeMap<String, Record>,
    /// By shard and machine.
    pub(super) marks: BTreeMap<(String, String), (i64, i64)>,
    pub(super) operations: BTreeMap<(String, Kind), String>,
    pub(super) counter: u64,
    pub(super) restarted: bool,
    pub(super) deletions: u64,
}

/// What is kept of a machine; the rest comes from the seeds.
#[derive(Serialize, Deserialize)]
struct Kept {
    id: String,
    state: i32,
    host: Option<(String, String)>,
    cluster: String,
    metadata: BTreeMap<String, String>,
    last_error: String,
    changed: u64,
    running: Option<(Kind, String)>,
}

#[derive(Serialize, Deserialize)]
struct File1 {
    incarnation: u64,
    revision: u64,
    counter: u64,
    machines: Vec<Kept>,
    marks: Vec<(String, String, i64, i64)>,
    operations: Vec<(String, Kind, String)>,
}

impl World {
    pub(super) fn seeded(provider: &str, count: usize, rules: &Rules) -> Self {
        let mut world = Self {
            incarnation: if rules.breaks("cursor-without-incarnation") {
                1
            } else {
                uuid::Uuid::new_v4().as_u64_pair().0
            },
            ..Self::default()
        };
        let suffix = if rules.breaks("seeds-renamed") {
            format!("-{}", uuid::Uuid::new_v4().simple())
        } else {
            String::new()
        };
        for number in 0..count {
            world.seed(format!("{provider}-spec-{number:03}{suffix}"), number, count, rules);
        }
        if provider == "fault" {
            for number in 0..8 {
                let id = format!("faultcreate-{number}");
                world.seed(id.clone(), number, count, rules);
                if let Some(record) = world.machines.get_mut(&id) {
                    let (label, value) = crate::fleet::CREATE_FAULT;
                    record.machine.labels.insert(label.into(), value.into());
                }
            }
        }
        world
    }

    fn seed(&mut self, id: String, number: usize, count: usize, rules: &Rules) {
        let spot = number % 3 == 2;
        let resources = |memory: &str| {
            let resources = [("cpu", "4"), ("memory", memory)].map(|(key, value)| (key.to_owned(), value.to_owned()));
            Resources {
                resources: resources.into(),
            }
        };
        let mut machine = Machine {
            id: id.clone(),
            state: S::Speculative.into(),
            instance_type: "reference-4".into(),
            zone: "zone-a".into(),
            capacity_type: if spot {
                CapacityType::Spot
            } else {
                CapacityType::OnDemand
            }
            .into(),
            price_per_hour: if spot { 0.12 } else { 0.40 },
            interruption_probability: if spot { 0.05 } else { 0.0 },
            resources: Some(resources("16Gi")),
            allocatable: Some(resources("15Gi")),
            ..Machine::default()
        };
        match rules.mutant() {
            "label-forbidden" => drop(machine.labels.insert("zone".into(), "zone-a".into())),
            "no-instance-type" => machine.instance_type.clear(),
            "no-zone" => machine.zone.clear(),
            "scale-no-zone" if count > 1000 => machine.zone.clear(),
            "price-nan" if number.is_multiple_of(5) => machine.price_per_hour = f64::NAN,
            "spot-certain" => machine.interruption_probability = 0.0,
            "quantity-tebi" => machine.resources = Some(resources("1Ti")),
            "resources-empty" => machine.allocatable = Some(Resources::default()),
            _ => {}
        }
        self.revision += 1;
        let record = Record {
            machine,
            changed: self.revision,
            running: None,
            drains: 0,
            before: BTreeMap::new(),
            caller: None,
        };
        self.machines.insert(id, record);
    }

    /// Gives a machine a new revision.
    pub(super) fn touch(&mut self, id: &str) {
        self.revision += 1;
        if let Some(record) = self.machines.get_mut(id) {
            record.changed = self.revision;
        }
    }

    /// Takes over what was kept, where there is any.
    pub(super) fn load(&mut self, text: &str, rules: &Rules) -> io::Result<()> {
        let file: File1 = serde_json::from_str(text)?;
        self.restarted = true;
        self.incarnation = file.incarnation;
        self.revision = file.revision;
        self.counter = if rules.breaks("ids-restart") { 0 } else { file.counter };
        for kept in file.machines {
            let Some(record) = self.machines.get_mut(&kept.id) else {
                continue;
            };
            let machine = &mut record.machine;
            machine.state = kept.state;
            machine.host = kept.host.map(|(provider, r#ref)| HostRef { provider, r#ref });
            machine.cluster = kept.cluster;
            machine.shard_metadata = kept.metadata;
            machine.last_error = kept.last_error;
            record.changed = kept.changed;
            let mut interrupted = kept.running.is_some();
            match rules.mutant() {
                "binding-lost" => machine.shard_metadata.clear(),
                "states-lost" => {
                    machine.state = S::Speculative.into();
                    machine.host = None;
                    machine.cluster.clear();
                    machine.shard_metadata.clear();
                    interrupted = false;
                }
                "failed-recovers" if machine.state() == S::Failed => {
                    machine.state = S::Idle.into();
                    machine.last_error.clear();
                    machine.cluster.clear();
                    machine.shard_metadata.clear();
                }
                "interrupted-hangs" => interrupted = false,
                _ => {}
            }
            if interrupted {
                let kind = kept.running.map(|(kind, _)| kind);
                record.machine.state = S::Failed.into();
                record.machine.last_error = format!("{kind:?} was interrupted by a restart of the provider");
                let id = kept.id.clone();
                self.touch(&id);
            }
        }
        for (shard, machine, epoch, sequence) in file.marks {
            let lost =
                rules.breaks("marks-lost") || rules.breaks("ghost-marks-lost") && !self.machines.contains_key(&machine);
            if !lost {
                self.marks.insert((shard, machine), (epoch, sequence));
            }
        }
        if !rules.breaks("operations-lost") {
            let operations = file.operations.into_iter();
            self.operations = operations.map(|(machine, kind, id)| ((machine, kind), id)).collect();
        }
        if rules.breaks("cursor-restarts") {
            self.revision = 0;
            let ids: Vec<String> = self.machines.keys().cloned().collect();
            for id in ids {
                self.touch(&id);
            }
        }
        Ok(())
    }

    fn text(&self) -> io::Result<String> {
        let machines = self.machines.values().map(|record| {
            let machine = &record.machine;
            Kept {
                id: machine.id.clone(),
                state: machine.state,
                host: machine
                    .host
                    .as_ref()
                    .map(|host| (host.provider.clone(), host.r#ref.clone())),
                cluster: machine.cluster.clone(),
                metadata: machine.shard_metadata.clone(),
                last_error: machine.last_error.clone(),
                changed: record.changed,
                running: record.running.clone(),
            }
        });
        let marks = self
            .marks
            .iter()
            .map(|((shard, machine), (epoch, sequence))| (shard.clone(), machine.clone(), *epoch, *sequence));
        let operations = self
            .operations
            .iter()
            .map(|((machine, kind), id)| (machine.clone(), *kind, id.clone()));
        let file = File1 {
            incarnation: self.incarnation,
            revision: self.revision,
            counter: self.counter,
            machines: machines.collect(),
            marks: marks.collect(),
            operations: operations.collect(),
        };
        Ok(serde_json::to_string(&file)?)
    }
}

/// A file that belongs to this process.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    _lock: Option<File>,
}

impl Store {
    /// Takes the file for this process.
    pub(super) fn open(path: PathBuf, rules: &Rules) -> io::Result<Self> {
        let lock = if rules.breaks("no-lock") {
            None
        } else {
            let lock = File::create(path.with_extension("lock"))?;
            lock.try_lock().map_err(|error| io::Error::other(error.to_string()))?;
            Some(lock)
        };
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn read(&self) -> io::Result<Option<String>> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All of it, or nothing: a kill of the process is survived, a loss of power is not.
    pub(super) fn write(&self, world: &World) -> io::Result<()> {
        let next = self.path.with_extension("next");
        let written = fs::write(&next, world.text()?);
        if let Err(error) = written {
            // Half a file only takes space; there is none to spare.
            fs::remove_file(&next).ok();
            return Err(error);
        }
        fs::rename(next, &self.path)
    }
}
