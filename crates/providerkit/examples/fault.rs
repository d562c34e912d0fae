//! The fault-injecting provider of the contract's §12.3: it misbehaves on demand, by what it is asked to do.
//!
//! | selector | effect |
//! |---|---|
//! | machine labelled `conformance.fault/create=error` | Create fails |
//! | Configure onto cluster `fault-error` | fails at once |
//! | `fault-timeout` | blocks until it is cancelled |
//! | `fault-slow-ok` | ignores the cancellation and reports success a second after the timeout |
//! | `fault-drain-error` | Configure works, the later Drain fails |
//! | `fault-readiness-block` | Configure works, the node never becomes Ready |

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::{Parser, ValueEnum};
use providerkit::{
    Backend, Capabilities, CapacityType, ConfigureRequest, CreateRequest, Created, DeleteRequest, DeleteSupport,
    DrainRequest, Engine, Error, FailedSlots, HostRef, Known, OnRestart, Options, Profile, ReadyRequest, Slot,
    async_trait,
    store::{Memory, Sqlite, Store},
};
use tonic::transport::Server;

const CREATE_FAULT: &str = "conformance.fault/create";
const CREATE_FAULTS: usize = 8;

/// The fault-injecting provider.
#[derive(Debug, Parser)]
struct Flags {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:9000")]
    addr: SocketAddr,
    /// The provider's name; begins the ids of its machines.
    #[arg(long, default_value = "fault")]
    provider: String,
    /// Well-behaved machines, beside the eight whose Create fails.
    #[arg(long, default_value_t = 64)]
    seed_count: usize,
    /// How long any transition may take, such as `2s`.
    #[arg(long, value_parser = seconds, default_value = "30s")]
    transition_timeout: Duration,
    /// State file; without it the state is forgotten.
    #[arg(long)]
    state: Option<PathBuf>,
    /// What becomes of transitions that a restart finds under way. The reference fails them (B1006).
    #[arg(long, value_enum, default_value = "fail")]
    on_restart: Restart,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Restart {
    Resume,
    Fail,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text
        .strip_suffix('s')
        .and_then(|number| number.parse().ok())
        .map(Duration::try_from_secs_f64);
    number
        .and_then(Result::ok)
        .ok_or_else(|| format!("`{text}` is no time; write seconds such as 2s"))
}

struct Faulty {
    provider: String,
    seeds: usize,
    timeout: Duration,
}

#[async_trait]
impl Backend for Faulty {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default().delete(DeleteSupport::Always).readiness(true)
    }

    async fn describe(&self, _: &[Known]) -> Result<Vec<Slot>, Error> {
        let profile = |kind, price, risk| {
            Profile::new("fault-standard-4", "fault-zone-a", kind)
                .price_per_hour(price)
                .interruption_probability(risk)
                .resource("cpu", "4")
                .resource("memory", "16Gi")
        };
        let paid = profile(CapacityType::OnDemand, 0.40, 0.0);
        let spot = profile(CapacityType::Spot, 0.12, 0.05);
        let failing = paid.clone().label(CREATE_FAULT, "error");
        let (paid, spot, failing) = (Arc::new(paid), Arc::new(spot), Arc::new(failing));
        let good = (0..self.seeds).map(|n| {
            let profile = if n % 3 == 2 { &spot } else { &paid };
            Slot::new(format!("{}-spec-{n:03}", self.provider), Arc::clone(profile))
        });
        let bad = (0..CREATE_FAULTS).map(|n| Slot::new(format!("faultcreate-{n}"), Arc::clone(&failing)));
        Ok(good.chain(bad).collect())
    }

    async fn create(&self, request: CreateRequest) -> Result<Created, Error> {
        if request.machine.profile.labels.contains_key(CREATE_FAULT) {
            return Err(Error::new(format!(
                "injected: machine `{}` cannot be created",
                request.machine.id
            )));
        }
        Ok(Created::new(HostRef::new(
            self.provider.as_str(),
            request.machine.id.as_str(),
        )))
    }

    async fn configure(&self, request: ConfigureRequest) -> Result<(), Error> {
        match request.cluster.as_str() {
            "fault-error" => Err(Error::new("injected: the bootstrap failed")),
            "fault-timeout" => {
                request.operation.cancellation.cancelled().await;
                Err(Error::new("injected: cancelled"))
            }
            "fault-slow-ok" => {
                tokio::time::sleep(self.timeout + Duration::from_secs(1)).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn ready(&self, request: ReadyRequest) -> Result<(), Error> {
        if request.cluster.as_str() == "fault-readiness-block" {
            request.operation.cancellation.cancelled().await;
            return Err(Error::new("injected: the node never became Ready"));
        }
        Ok(())
    }

    async fn drain(&self, request: DrainRequest) -> Result<(), Error> {
        match request.machine.cluster.as_ref().map(|cluster| cluster.as_str()) {
            Some("fault-drain-error") => Err(Error::new("injected: the drain failed")),
            _ => Ok(()),
        }
    }

    async fn delete(&self, _: DeleteRequest) -> Result<(), Error> {
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let flags = Flags::parse();
    let mut options = Options::new(flags.provider.as_str());
    let timeout = flags.transition_timeout;
    options.timeouts.create = timeout;
    options.timeouts.configure = timeout;
    options.timeouts.drain = timeout;
    options.timeouts.delete = timeout;
    options.failed_slots = FailedSlots::Keep;
    options.on_restart = match flags.on_restart {
        Restart::Resume => OnRestart::Resume,
        Restart::Fail => OnRestart::Fail,
    };
    let store: Box<dyn Store> = match &flags.state {
        Some(path) => Box::new(Sqlite::open(path)?),
        None => Box::new(Memory::default()),
    };
    let backend = Faulty {
        provider: flags.provider,
        seeds: flags.seed_count,
        timeout,
    };
    let engine = Engine::start(options, store, Arc::new(backend)).await?;
    let stop = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    Server::builder()
        .add_service(providerkit::server(engine.clone()))
        .serve_with_shutdown(flags.addr, stop)
        .await?;
    engine.stop(Duration::ZERO).await?;
    Ok(())
}
