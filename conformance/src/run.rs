//! The scheduler: which behaviours run when, on which process.

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{Arc, atomic::AtomicUsize},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    behaviour::{Behaviour, Capability, Isolation, Lane, MachineKind},
    client::{Client, Session, channel},
    context::{Context, Sizes},
    error::Error,
    fleet::Fleet,
    lane::{Abilities, CALL, DURABLE_CALL, Reboots, said},
    latency::{Heard, Latencies},
    launch::{Launcher, Provider, Start},
    options::{Options, Source},
    outcome::Stop,
    random::Random,
    registry,
    report::{Environment, Report, Row, Status},
    trace::Trace,
};

/// How long a behaviour may take at all, on top of what soaks.
const LONGEST: Duration = Duration::from_secs(180);

/// What happens during a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// So many behaviours will be run.
    Planned(usize),
    /// A provider of a lane is up, or why it is not.
    Lane(Lane, Result<(), String>),
    /// A behaviour began.
    Began(&'static str),
    /// A behaviour ended.
    Ended(Box<Row>),
}

impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Planned(count) => write!(out, "{count} behaviours"),
            Self::Lane(lane, Ok(())) => write!(out, "lane {lane}: the provider is up"),
            Self::Lane(lane, Err(why)) => write!(out, "lane {lane}: {why}"),
            Self::Began(id) => write!(out, "{id}: begun"),
            Self::Ended(row) => write!(out, "{}: {}", row.id, row.status),
        }
    }
}

type Listener = Arc<dyn Fn(Event) + Send + Sync>;

/// Everything a lane shares.
#[derive(Clone)]
struct Shared {
    options: Arc<Options>,
    listener: Listener,
    latencies: Arc<Latencies>,
    heard: Arc<Heard>,
    launcher: Option<Arc<Launcher>>,
    jobs: Arc<Semaphore>,
    scratch: PathBuf,
    nonce: String,
}

/// A provider that behaviours share.
#[derive(Clone, Debug)]
struct Ground {
    address: String,
    channel: tonic::transport::Channel,
    fleet: Arc<Fleet>,
    abilities: Abilities,
    reboots: Option<Arc<Reboots>>,
}

/// Checks what the chosen profiles need.
///
/// # Errors
/// A run that cannot happen: nothing selected, a target that does not answer, no folder to write to. A provider that
/// cannot be started is a result, not an error.
pub async fn run(options: Options, listener: impl Fn(Event) + Send + Sync + 'static) -> Result<Report, Error> {
    let began = Instant::now();
    let folder =
        tempfile::TempDir::new().map_err(|source| Error::because("no temporary folder can be made", source))?;
    let logs = options.logs.clone().unwrap_or_else(|| folder.path().to_owned());
    std::fs::create_dir_all(&logs)
        .map_err(|source| Error::because(format!("folder `{}` cannot be made", logs.display()), source))?;
    let launcher = match &options.source {
        Source::Target(_) => None,
        Source::Command(command) => Some(Arc::new(Launcher::new(
            command,
            options.mapping.clone(),
            logs,
            options.port,
            options.factor(),
        )?)),
    };
    let shared = Shared {
        listener: Arc::new(listener),
        latencies: Arc::default(),
        heard: Arc::default(),
        launcher,
        jobs: Arc::new(Semaphore::new(options.jobs.max(1))),
        scratch: folder.path().to_owned(),
        nonce: nonce(),
        options: Arc::new(options),
    };
    let rows = shared.all().await?;
    let environment = Environment::of(&shared.options, began.elapsed());
    Ok(Report::new(
        &shared.options,
        environment,
        rows,
        shared.latencies.histograms(),
    ))
}

/// Tells this run from all others on the same provider; nothing that is checked depends on it.
fn nonce() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", now.as_nanos() & 0xffff_ffff_ffff, std::process::id())
}

impl Shared {
    async fn all(&self) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        let mut lanes: BTreeMap<Lane, Vec<Behaviour>> = BTreeMap::new();
        for behaviour in registry::all() {
            if !self.options.requires(&behaviour) {
                continue;
            }
            if let Some(excuse) = self.options.mapping.claims.excuse(&behaviour) {
                rows.push(Row::not_claimed(&behaviour, excuse));
            } else if self.options.lets_through(&behaviour) {
                lanes.entry(behaviour.lane).or_default().push(behaviour);
            } else {
                rows.push(Row::not_run(&behaviour, "left out by a filter"));
            }
        }
        let planned = lanes.values().map(Vec::len).sum();
        if planned == 0 {
            return Err(Error::new(
                "nothing to run: no behaviour of the profiles fits the filter",
            ));
        }
        (self.listener)(Event::Planned(planned));
        let mut take = |lane| lanes.remove(&lane).unwrap_or_default();
        let lanes = [Lane::Core, Lane::Fault, Lane::Durable];
        let [core, fault, durable] = lanes.map(|lane| Box::pin(self.lane(lane, take(lane))));
        if self.options.serial {
            rows.extend(core.await);
            rows.extend(fault.await);
            rows.extend(durable.await);
        } else {
            // What mostly waits runs side by side; what measures runs alone.
            let (core, fault, durable) = tokio::join!(core, fault, durable);
            rows.extend([core, fault, durable].into_iter().flatten());
        }
        for lane in [Lane::Own, Lane::Scale, Lane::Soak] {
            rows.extend(Box::pin(self.lane(lane, take(lane))).await);
        }
        let order: BTreeMap<_, _> = registry::all()
            .iter()
            .enumerate()
            .map(|(place, one)| (one.id, place))
            .collect();
        rows.sort_by_key(|row: &Row| order.get(row.id.as_str()).copied());
        Ok(rows)
    }

    async fn lane(&self, lane: Lane, behaviours: Vec<Behaviour>) -> Vec<Row> {
        if behaviours.is_empty() {
            return Vec::new();
        }
        match lane {
            Lane::Own | Lane::Soak => {
                return self.group(behaviours, None).await;
            }
            Lane::Core | Lane::Fault | Lane::Durable | Lane::Scale => {}
        }
        match self.ground(lane, &behaviours).await {
            Ok((ground, process)) => {
                (self.listener)(Event::Lane(lane, Ok(())));
                self.on(lane, behaviours, ground, process).await
            }
            Err(stop) => {
                (self.listener)(Event::Lane(lane, Err(said(&stop))));
                let end = |behaviour: &Behaviour| {
                    let row = Row::new(behaviour, Err(stop.clone()));
                    (self.listener)(Event::Ended(Box::new(row.clone())));
                    row
                };
                behaviours.iter().map(end).collect()
            }
        }
    }

    /// The provider of a lane; the process where it is ours.
    async fn ground(&self, lane: Lane, behaviours: &[Behaviour]) -> Result<(Ground, Option<(Provider, Start)>), Stop> {
        let options = &self.options;
        let failed = |error: Error| Stop::failed("the provider to start and listen", error.to_string());
        let (address, process) = match (&options.source, &self.launcher) {
            (Source::Target(address), _) if lane == Lane::Core || lane == Lane::Fault => (address.clone(), None),
            (_, None) => {
                let why = format!("lane `{lane}` needs a provider that the harness starts; use --provider");
                return Err(Stop::skipped(why));
            }
            (_, Some(launcher)) => {
                let start = Start::new(lane.name());
                let start = match lane {
                    Lane::Fault if !launcher.has_fault_provider() => {
                        let none = "lane `fault` needs a provider that fails on demand; name one with \
                                    --fault-provider, or declare `fault` as not claimed";
                        return Err(Stop::skipped(none));
                    }
                    Lane::Fault => start.fault(Duration::from_secs(2)),
                    Lane::Durable => start.state(self.scratch.join("durable-state.json")),
                    Lane::Scale => start.seeds(options.scale_seed),
                    _ => start.seeds(options.seed_count),
                };
                let provider = launcher.start(&start).await.map_err(failed)?;
                (provider.address.to_string(), Some((provider, start)))
            }
        };
        let channel = channel(&address).map_err(|error| Stop::failed("an address", error.to_string()))?;
        let client = Client::over(channel.clone(), self.session(lane));
        let fleet = Arc::new(Fleet::new(client.clone(), options.mapping.fault.label()).await?);
        if process.is_some() {
            fleet.adopt().await?;
        }
        let mut abilities = Abilities {
            delete: true,
            revisions: true,
        };
        if lane != Lane::Fault {
            let ids = fleet.claim(1, MachineKind::Any).await?;
            let probed = Abilities::probe(&client, ids.first().map_or("", String::as_str)).await;
            fleet.put_back(ids);
            abilities = probed?;
        }
        if lane == Lane::Durable {
            // Whoever waited for a machine of another would wait for ever: none gives its own back before the kill.
            let (needed, there) = (
                behaviours.iter().map(|behaviour| behaviour.machines).sum(),
                fleet.size(),
            );
            if there < needed {
                return Err(Stop::skipped(format!(
                    "lane `{lane}` holds {needed} machines over one kill, and the provider offers {there}; have it offer more"
                )));
            }
        }
        let ground = Ground {
            address,
            channel,
            fleet,
            abilities,
            reboots: (lane == Lane::Durable).then(|| Arc::new(Reboots::new(behaviours.len()))),
        };
        Ok((ground, process))
    }

    async fn on(
        &self,
        lane: Lane,
        behaviours: Vec<Behaviour>,
        ground: Ground,
        process: Option<(Provider, Start)>,
    ) -> Vec<Row> {
        let (driver, _held) = match (ground.reboots.clone(), process, &self.launcher) {
            (Some(reboots), Some((provider, start)), Some(launcher)) => {
                let (launcher, session) = (Arc::clone(launcher), self.session(lane));
                let drive = async move { reboots.drive(provider, &launcher, &start, &session).await };
                (Some(tokio::spawn(drive)), None)
            }
            (_, process, _) => (None, process),
        };
        let (alone, shared): (Vec<_>, Vec<_>) = behaviours
            .into_iter()
            .partition(|behaviour| behaviour.isolation == Isolation::Alone);
        let mut rows = self.group(shared, Some(&ground)).await;
        for behaviour in alone {
            rows.extend(self.group(vec![behaviour], Some(&ground)).await);
        }
        if let Some(driver) = driver
            && let Err(error) = driver.await
        {
            (self.listener)(Event::Lane(lane, Err(error.to_string())));
        }
        rows
    }

    async fn group(&self, behaviours: Vec<Behaviour>, ground: Option<&Ground>) -> Vec<Row> {
        let mut tasks = JoinSet::new();
        for behaviour in behaviours {
            let (shared, ground) = (self.clone(), ground.cloned());
            tasks.spawn(async move { shared.one(behaviour, ground).await });
        }
        tasks.join_all().await
    }

    fn session(&self, lane: Lane) -> Arc<Session> {
        Arc::new(Session {
            trace: Trace::new(),
            latencies: Arc::clone(&self.latencies),
            heard: Arc::clone(&self.heard),
            lane: lane.name(),
            factor: self.options.factor(),
            call_limit: if lane == Lane::Durable { DURABLE_CALL } else { CALL },
        })
    }

    async fn one(&self, behaviour: Behaviour, ground: Option<Ground>) -> Row {
        // All of the durable lane must run at once: each waits for the others.
        let _permit = match behaviour.lane {
            Lane::Durable => None,
            _ => self.jobs.acquire().await.ok(),
        };
        (self.listener)(Event::Began(behaviour.id));
        let claimed = match &ground {
            Some(ground) => ground.fleet.claim(behaviour.machines, behaviour.kind).await,
            None => Ok(Vec::new()),
        };
        let reboots = ground.as_ref().and_then(|ground| ground.reboots.clone());
        let row = match claimed {
            Ok(machines) => self.check(behaviour, ground, machines).await,
            Err(stop) => Row::new(&behaviour, Err(stop)),
        };
        if let Some(reboots) = reboots {
            reboots.leave();
        }
        (self.listener)(Event::Ended(Box::new(row.clone())));
        row
    }

    async fn check(&self, behaviour: Behaviour, ground: Option<Ground>, machines: Vec<String>) -> Row {
        let began = Instant::now();
        let context = match self.context(&behaviour, ground.as_ref(), machines.clone()) {
            Ok(context) => Arc::new(context),
            Err(stop) => return Row::new(&behaviour, Err(stop)),
        };
        let lacks = match behaviour.needs {
            Some(Capability::Delete) => !context.abilities.delete,
            Some(Capability::SinceRevision) => !context.abilities.revisions,
            _ => false,
        };
        let outcome = if lacks {
            let needed = behaviour.needs.map_or("", Capability::name);
            Err(Stop::skipped(format!(
                "the provider has no `{needed}`; if that is meant, declare it in `claims.without`"
            )))
        } else {
            let limit = context.session().limit(LONGEST) + self.options.soak * 3;
            let running = Arc::clone(&context);
            let mut task = tokio::spawn(async move { (behaviour.run)(&running).await });
            match tokio::time::timeout(limit, &mut task).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(error)) => Err(Stop::failed("the harness to keep running", error.to_string())),
                Err(_) => {
                    task.abort();
                    Err(Stop::failed(format!("an end within {limit:?}"), "none"))
                }
            }
        };
        if let Some(ground) = ground {
            let extra = std::mem::take(&mut *context.extra.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
            ground.fleet.put_back(machines.into_iter().chain(extra).collect());
        }
        Row::new(&behaviour, outcome).ran(&context, began.elapsed(), &self.options)
    }

    fn context(&self, behaviour: &Behaviour, ground: Option<&Ground>, machines: Vec<String>) -> Result<Context, Stop> {
        let session = self.session(behaviour.lane);
        let client = match ground {
            Some(ground) => Client::over(ground.channel.clone(), session),
            // Never called: who has no provider yet starts one.
            None => Client::connect("127.0.0.1:1", &session)?,
        };
        let nonce = format!("{}-{}", behaviour.id, self.nonce);
        Ok(Context {
            client,
            machines: std::sync::Mutex::new(machines.into()),
            fleet: ground.map(|ground| Arc::clone(&ground.fleet)),
            extra: std::sync::Mutex::default(),
            random: std::sync::Mutex::new(Random::of(self.options.seed, behaviour.id)),
            shards: AtomicUsize::new(0),
            nonce,
            address: ground.map(|ground| ground.address.clone()).unwrap_or_default(),
            abilities: ground.map(|ground| ground.abilities).unwrap_or_default(),
            reboots: ground.and_then(|ground| ground.reboots.clone()),
            launcher: self.launcher.clone(),
            scratch: self.scratch.clone(),
            sizes: Sizes {
                scale_seed: self.options.scale_seed,
                soak: self.options.soak,
            },
            fault: self.options.mapping.fault.clone(),
        })
    }
}

impl Row {
    fn not_run(behaviour: &Behaviour, why: &str) -> Self {
        let mut row = Self::new(behaviour, Err(Stop::skipped(why)));
        row.status = Status::NotImplemented;
        row
    }
}
