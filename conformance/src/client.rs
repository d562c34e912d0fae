//! The six calls, each written down.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use bigfleet_proto::{
    CapacityProviderClient, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, ListFilter, Machine,
    MachineList, MachineRef, MachineState, TransitionAck,
};
use tonic::{
    Request, Response, Status,
    transport::{Channel, Endpoint},
};

use crate::{
    Outcome,
    call::{Binding, Token, sketch, state_name},
    latency::{Heard, Latencies},
    outcome::Stop,
    trace::Trace,
};

/// What the shard's own client allows, both ways (contract §1.4).
const MESSAGE_LIMIT: usize = 256 << 20;
/// Large lists must not wait for our acknowledgements: many calls share a connection.
const WINDOW: u32 = 16 << 20;

/// What a mutating call is answered.
pub(crate) type Answer = Result<TransitionAck, Status>;

/// What all connections of one behaviour share.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) trace: Trace,
    pub(crate) latencies: Arc<Latencies>,
    pub(crate) heard: Arc<Heard>,
    pub(crate) lane: &'static str,
    /// Multiplies every limit and pace; windows stay as they are.
    pub(crate) factor: f64,
    /// How long one call may take, before the factor.
    pub(crate) call_limit: Duration,
}

impl Session {
    pub(crate) fn limit(&self, limit: Duration) -> Duration {
        limit.mul_f64(self.factor)
    }

    /// How often to look at something that may take so much longer: a provider that is slow because its machine is busy
    /// is not to be kept busier.
    pub(crate) fn pace(&self, pace: Duration) -> Duration {
        const SLOWEST: Duration = Duration::from_millis(200);
        self.limit(pace).min(SLOWEST).max(pace)
    }
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    grpc: CapacityProviderClient<Channel>,
    pub(crate) session: Arc<Session>,
}

/// Connects with the first call, and again after a connection was lost.
///
/// # Errors
/// What is no address.
pub(crate) fn channel(address: &str) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    Ok(endpoint.connect_lazy())
}

impl Client {
    pub(crate) fn over(channel: Channel, session: Arc<Session>) -> Self {
        let grpc = CapacityProviderClient::new(channel)
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        Self { grpc, session }
    }

    /// A connection of its own to the address.
    pub(crate) fn connect(address: &str, session: &Arc<Session>) -> Outcome<Self> {
        let channel = channel(address).map_err(|error| Stop::failed("an address to connect to", error.to_string()))?;
        Ok(Self::over(channel, Arc::clone(session)))
    }

    /// The same connection through a client of at most so many bytes an answer, as the public suites use.
    pub(crate) fn small(&self, limit: usize) -> Self {
        Self {
            grpc: self.grpc.clone().max_decoding_message_size(limit),
            session: Arc::clone(&self.session),
        }
    }

    pub(crate) fn trace_note(&self, what: impl Into<String>) {
        self.session.trace.note(what);
    }

    async fn make<T, R, F>(
        &self,
        method: &'static str,
        asked: String,
        message: T,
        call: impl FnOnce(CapacityProviderClient<Channel>, Request<T>) -> F,
        say: impl FnOnce(&R) -> String,
    ) -> Result<R, Status>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let mut request = Request::new(message);
        request.set_timeout(self.session.limit(self.session.call_limit));
        let began = Instant::now();
        let answer = call(self.grpc.clone(), request).await.map(Response::into_inner);
        self.session
            .latencies
            .record(self.session.lane, method, began.elapsed());
        let said = match &answer {
            Ok(value) => say(value),
            Err(status) => format!("{:?}: {}", status.code(), status.message()),
        };
        self.session.trace.record(began, format!("{method} {asked}"), said);
        answer
    }

    /// Remembers the operation of an ack.
    fn heard(&self, answer: Answer) -> Answer {
        if let Ok(ack) = &answer {
            self.session.heard.record(self.session.lane, &ack.operation_id);
        }
        answer
    }

    pub(crate) async fn create(&self, id: &str, token: &Token) -> Answer {
        let request = CreateRequest {
            machine_id: id.into(),
            shard_id: token.shard.clone(),
            shard_epoch: token.epoch,
            sequence_number: token.sequence,
        };
        let call = async |mut grpc: CapacityProviderClient<Channel>, request| grpc.create(request).await;
        let answer = self
            .make("Create", format!("{id:?} {token}"), request, call, acked)
            .await;
        self.heard(answer)
    }

    pub(crate) async fn configure(&self, id: &str, binding: &Binding, token: &Token) -> Answer {
        let asked = format!(
            "{id:?} cluster={:?} metadata={} blob={} bytes {token}",
            binding.cluster,
            binding.metadata.len(),
            binding.blob.len()
        );
        let request = ConfigureRequest {
            machine_id: id.into(),
            cluster_id: binding.cluster.clone(),
            bootstrap_blob: binding.blob.clone(),
            shard_id: token.shard.clone(),
            shard_epoch: token.epoch,
            sequence_number: token.sequence,
            shard_metadata: binding.metadata.clone(),
        };
        let call = async |mut grpc: CapacityProviderClient<Channel>, request| grpc.configure(request).await;
        let answer = self.make("Configure", asked, request, call, acked).await;
        self.heard(answer)
    }

    pub(crate) async fn drain(&self, id: &str, grace: i64, token: &Token) -> Answer {
        let request = DrainRequest {
            machine_id: id.into(),
            grace_period_seconds: grace,
            shard_id: token.shard.clone(),
            shard_epoch: token.epoch,
            sequence_number: token.sequence,
        };
        let call = async |mut grpc: CapacityProviderClient<Channel>, request| grpc.drain(request).await;
        let asked = format!("{id:?} grace={grace} {token}");
        let answer = self.make("Drain", asked, request, call, acked).await;
        self.heard(answer)
    }

    pub(crate) async fn delete(&self, id: &str, token: &Token) -> Answer {
        let request = DeleteRequest {
            machine_id: id.into(),
            shard_id: token.shard.clone(),
            shard_epoch: token.epoch,
            sequence_number: token.sequence,
        };
        let call = async |mut grpc: CapacityProviderClient<Channel>, request| grpc.delete(request).await;
        let answer = self
            .make("Delete", format!("{id:?} {token}"), request, call, acked)
            .await;
        self.heard(answer)
    }

    pub(crate) async fn try_get(&self, id: &str) -> Result<Machine, Status> {
        let call = async |mut grpc: CapacityProviderClient<Channel>, request| grpc.get(request).await;
        self.make("Get", format!("{id:?}"), MachineRef { id: id.into() }, call, sketch)
            .await
    }

    pub(crate) async fn try_list(&self, filter: ListFilter) -> Result<MachineList, Status> {
        let mut asked = String::from("all");
        if !filter.states.is_empty() {
            let names: Vec<_> = filter
                .states
                .iter()
                .map(|state| MachineState::try_from(*state).map_or("?", state_name))
                .collect();
            asked = names.join("|");
        }
        if filter.max_results != 0 {
            asked += &format!(" max={}", filter.max_results);
        }
        if !filter.since_revision.is_empty() {
            asked += &format!(" since={}", cursor(&filter.since_revision));
        }
        let call = async |mut grpc: CapacityProviderClient<Channel>, request| grpc.list(request).await;
        let say = |list: &MachineList| format!("{} machines, revision {}", list.machines.len(), cursor(&list.revision));
        self.make("List", asked, filter, call, say).await
    }
}

fn acked(ack: &TransitionAck) -> String {
    let machine = ack.machine.as_ref().map_or_else(|| "no machine".to_owned(), sketch);
    format!("{} {machine}", ack.operation_id)
}

/// Opaque bytes, cut to what fits a line.
fn cursor(revision: &[u8]) -> String {
    let text = revision.escape_ascii().to_string();
    if text.len() > 40 {
        format!("{}… ({} bytes)", text.get(..40).unwrap_or_default(), revision.len())
    } else {
        format!("\"{text}\"")
    }
}
