//! A process under test: the runtime around a service that does what the id of a machine says.

use std::{
    collections::BTreeSet,
    fmt,
    future::Future,
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use bigfleet_proto::{
    CapacityProvider, CapacityProviderClient, CapacityProviderServer, ConfigureRequest, CreateRequest, DeleteRequest,
    DrainRequest, ListFilter, Machine, MachineList, MachineRef, TransitionAck,
};
use providerkit::Caller;
use providerkit_runtime::{
    config::Loader,
    serve::{self, Ended, Signals, Work},
    settings::{Config, Settings},
    telemetry::{self, BuildInfo, Metrics},
};
use tokio::{
    sync::{Semaphore, mpsc, oneshot, watch},
    task::JoinHandle,
};
use tonic::{Request, Response, Status, async_trait, service::Routes, transport::Channel};

/// For whatever takes no time at all unless something is wrong.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// Fails instead of hanging.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let answered = tokio::time::timeout(LIMIT, future).await;
    answered.unwrap_or_else(|_| panic!("not within {LIMIT:?}: {what}"))
}

/// Asks again until it is so.
pub(crate) async fn eventually(what: &str, mut so: impl AsyncFnMut() -> bool) {
    soon(what, async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// The metrics of the test process, of which there is one.
pub(crate) fn metrics() -> Metrics {
    static METRICS: OnceLock<Metrics> = OnceLock::new();
    let install = || {
        telemetry::report_panics();
        Metrics::install("test_", BuildInfo::new("0", "0", "0")).unwrap()
    };
    METRICS.get_or_init(install).clone()
}

/// The sum of a counter over the label sets that contain the text.
pub(crate) fn counted(name: &str, labels: &str) -> u64 {
    let text = metrics().render();
    let lines = text
        .lines()
        .filter(|line| line.split(['{', ' ']).next() == Some(name) && line.contains(labels));
    lines
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

/// The gRPC port's, and the admin port's.
type Addresses = (SocketAddr, Option<SocketAddr>);

/// What the test can do to calls under way, and see of them.
#[derive(Clone)]
pub(crate) struct Desk {
    /// A call of `wait` takes one and ends.
    pub(crate) release: Arc<Semaphore>,
    /// Calls of `wait` that are under way.
    pub(crate) waiting: Arc<watch::Sender<usize>>,
    events: Arc<Mutex<Vec<&'static str>>>,
    serving: Arc<Mutex<Option<oneshot::Sender<Addresses>>>>,
}

impl Desk {
    pub(crate) fn events(&self) -> Vec<&'static str> {
        self.events.lock().unwrap().clone()
    }
}

impl Work for Desk {
    fn routes(&self) -> Routes {
        Routes::new(CapacityProviderServer::new(self.clone()))
    }

    fn serving(&self, grpc: SocketAddr, admin: Option<SocketAddr>) {
        let sender = self.serving.lock().unwrap().take().unwrap();
        sender.send((grpc, admin)).unwrap();
    }

    fn refuse_mutations(&self) {
        self.events.lock().unwrap().push("refuse");
    }

    async fn stop(&self, _: Duration) {
        self.events.lock().unwrap().push("stop");
    }
}

#[async_trait]
impl CapacityProvider for Desk {
    async fn get(&self, request: Request<MachineRef>) -> Result<Response<Machine>, Status> {
        let caller = format!("{:?}", request.extensions().get::<Caller>());
        let id = request.into_inner().id;
        match id.as_str() {
            "panic" => panic!("asked to"),
            "fenced" => return Err(Status::failed_precondition("asked to")),
            "wait" => {
                self.waiting.send_modify(|count| *count += 1);
                let permit = self.release.acquire().await.unwrap();
                permit.forget();
                self.waiting.send_modify(|count| *count -= 1);
            }
            _ => {}
        }
        let labels = BTreeSet::from([("caller".to_owned(), caller)]);
        Ok(Response::new(Machine {
            id,
            labels: labels.into_iter().collect(),
            ..Machine::default()
        }))
    }

    async fn list(&self, _: Request<ListFilter>) -> Result<Response<MachineList>, Status> {
        Ok(Response::new(MachineList::default()))
    }

    async fn create(&self, _: Request<CreateRequest>) -> Result<Response<TransitionAck>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn configure(&self, _: Request<ConfigureRequest>) -> Result<Response<TransitionAck>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn drain(&self, _: Request<DrainRequest>) -> Result<Response<TransitionAck>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn delete(&self, _: Request<DeleteRequest>) -> Result<Response<TransitionAck>, Status> {
        Err(Status::unimplemented(""))
    }
}

/// Settings of a process on ports that the system chooses, with these keys set besides.
pub(crate) fn settings(keys: &[(&str, &str)]) -> Settings {
    let ports = [("listen.addr", "127.0.0.1:0"), ("admin.addr", "127.0.0.1:0")];
    let all = ports.iter().chain(keys);
    let loader = all.fold(Loader::<Config>::new(), |loader, (key, value)| {
        loader.flag("--test", key, value)
    });
    loader.load().finish(Settings::parse).unwrap()
}

/// A running process.
pub(crate) struct Process {
    pub(crate) desk: Desk,
    pub(crate) signals: mpsc::Sender<&'static str>,
    pub(crate) ended: JoinHandle<Result<Ended, serve::Error>>,
    /// Lets it start.
    start: Option<oneshot::Sender<()>>,
    addresses: Option<oneshot::Receiver<Addresses>>,
    pub(crate) grpc: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Process at {}", self.grpc)
    }
}

impl Process {
    /// One that has bound its port and is not started.
    pub(crate) fn loading(settings: Settings) -> Self {
        let (serving, addresses) = oneshot::channel();
        let desk = Desk {
            release: Arc::new(Semaphore::new(0)),
            waiting: Arc::new(watch::Sender::new(0)),
            events: Arc::default(),
            serving: Arc::new(Mutex::new(Some(serving))),
        };
        let (signals, from_signals) = Signals::by_hand();
        let (start, started) = oneshot::channel();
        let work = desk.clone();
        let metrics = metrics();
        let ended = tokio::spawn(async move {
            let start = async {
                started.await.unwrap();
                Ok::<_, std::io::Error>(work)
            };
            serve::serve(&settings, Some(metrics), from_signals, start).await
        });
        Self {
            desk,
            signals,
            ended,
            start: Some(start),
            addresses: Some(addresses),
            grpc: ([0, 0, 0, 0], 0).into(),
            admin: None,
        }
    }

    /// Lets it start, and waits until it serves.
    pub(crate) async fn go(&mut self) {
        self.start.take().unwrap().send(()).unwrap();
        let addresses = self.addresses.take().unwrap();
        (self.grpc, self.admin) = soon("serving", addresses).await.unwrap();
    }

    pub(crate) async fn serving(settings: Settings) -> Self {
        let mut process = Self::loading(settings);
        process.go().await;
        process
    }

    pub(crate) async fn signal(&self) {
        self.signals.send("TEST").await.unwrap();
    }

    pub(crate) async fn end(self) -> Result<Ended, serve::Error> {
        soon("the end of the process", self.ended).await.unwrap()
    }

    /// A client in plaintext.
    pub(crate) fn client(&self) -> Client {
        Client::over(endpoint(self.grpc).connect_lazy())
    }
}

pub(crate) fn endpoint(address: SocketAddr) -> tonic::transport::Endpoint {
    Channel::from_shared(format!("http://{address}")).unwrap()
}

/// A client of the service.
#[derive(Clone, Debug)]
pub(crate) struct Client(CapacityProviderClient<Channel>);

impl Client {
    pub(crate) fn over(channel: Channel) -> Self {
        Self(CapacityProviderClient::new(channel))
    }

    pub(crate) async fn get(&self, id: &str) -> Result<Machine, Status> {
        let answer = self.0.clone().get(MachineRef { id: id.to_owned() }).await;
        answer.map(Response::into_inner)
    }

    /// How the service saw the caller.
    pub(crate) async fn caller(&self) -> String {
        self.get("any").await.unwrap().labels.remove("caller").unwrap()
    }
}
