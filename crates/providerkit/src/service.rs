//! The engine as a gRPC service.

use std::sync::Arc;

use bigfleet_proto as pb;
use pb::encoded::{self, CapacityProviderServer};
use providerkit_backend::MachineId;
use tonic::{Code, Extensions, Request, Response, Status, async_trait};

use crate::{
    Caller, Peer,
    binding::Binding,
    convert,
    engine::{Accepted, Arguments, Call, Engine, Query},
    fence::Token,
    refusal::{Refusal, RefusalKind},
    validate,
};

/// Largest message in either direction: what BigFleet's own client is set to (contract §1.4).
pub const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// The engine as `CapacityProvider`; usually made by [`server`].
#[derive(Clone, Debug)]
pub struct Service {
    engine: Engine,
}

/// The engine as a service for a tonic server, with the contract's message limits.
#[must_use]
pub fn server(engine: Engine) -> CapacityProviderServer<Service> {
    CapacityProviderServer::new(Service::new(engine))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// The fencing fields of a mutating request.
struct Fenced<'a> {
    machine: &'a str,
    shard: &'a str,
    epoch: i64,
    sequence: i64,
}

macro_rules! fenced {
    ($request:expr) => {
        Fenced {
            machine: &$request.machine_id,
            shard: &$request.shard_id,
            epoch: $request.shard_epoch,
            sequence: $request.sequence_number,
        }
    };
}

impl Service {
    /// The engine as a service, for a server with limits or layers of its own.
    #[must_use]
    pub const fn new(engine: Engine) -> Self {
        Self { engine }
    }

    async fn mutate(
        &self,
        extensions: &Extensions,
        of: Fenced<'_>,
        arguments: Arguments,
    ) -> Result<Response<encoded::TransitionAck>, Status> {
        let machine = machine_id(of.machine)?;
        let method = arguments.transition().name();
        validate::shard_id(of.shard).map_err(Status::invalid_argument)?;
        if let Some(caller) = extensions.get::<Caller>() {
            caller.speaks_for(of.shard).map_err(Status::permission_denied)?;
        }
        let token = Token::new(of.shard, of.epoch, of.sequence);
        let accepted = self
            .engine
            .call(Call {
                machine,
                token,
                arguments,
                cause: tracing::Span::current(),
            })
            .await
            .map_err(|refusal| status(&refusal))?;
        audit(extensions, &of, method, &accepted);
        Ok(Response::new(encoded::TransitionAck {
            operation_id: accepted.operation.to_string(),
            machine: encoded::Machine(convert::encode(&accepted.record)),
        }))
    }
}

/// Says to whom a change was granted.
fn audit(extensions: &Extensions, of: &Fenced<'_>, method: &str, accepted: &Accepted) {
    let who = extensions.get::<Caller>().map(|caller| match caller {
        Caller::Shard(shard) => format!("bigfleet://shard/{shard}"),
        Caller::Unidentified(why) => why.clone(),
    });
    let peer = extensions
        .get::<Peer>()
        .map(|Peer(address)| tracing::field::display(address));
    tracing::info!(
        target: "audit",
        who,
        peer,
        shard = of.shard,
        epoch = of.epoch,
        sequence = of.sequence,
        method,
        machine_id = of.machine,
        op_id = %accepted.operation,
        outcome = if accepted.fresh { "accepted" } else { "repeated" },
        "mutation"
    );
}

fn machine_id(name: &str) -> Result<MachineId, Status> {
    validate::machine_id(name).map_err(Status::invalid_argument)
}

fn status(refusal: &Refusal) -> Status {
    let code = match refusal.kind() {
        RefusalKind::Invalid => Code::InvalidArgument,
        RefusalKind::NotAllowed => Code::PermissionDenied,
        RefusalKind::Fenced => Code::FailedPrecondition,
        RefusalKind::NotFound => Code::NotFound,
        RefusalKind::Position => Code::Aborted,
        RefusalKind::Unsupported => Code::Unimplemented,
        RefusalKind::Exhausted => Code::ResourceExhausted,
        RefusalKind::Unavailable => Code::Unavailable,
    };
    Status::new(code, refusal.to_string())
}

#[async_trait]
impl encoded::CapacityProvider for Service {
    async fn create(&self, request: Request<pb::CreateRequest>) -> Result<Response<encoded::TransitionAck>, Status> {
        let (_, extensions, request) = request.into_parts();
        self.mutate(&extensions, fenced!(request), Arguments::Create).await
    }

    async fn configure(
        &self,
        request: Request<pb::ConfigureRequest>,
    ) -> Result<Response<encoded::TransitionAck>, Status> {
        let (_, extensions, request) = request.into_parts();
        machine_id(&request.machine_id)?;
        let binding = Binding {
            cluster: validate::cluster_id(&request.cluster_id).map_err(Status::invalid_argument)?,
            metadata: Arc::new(request.shard_metadata),
        };
        let arguments = Arguments::Configure {
            binding,
            bootstrap: request.bootstrap_blob,
        };
        self.mutate(&extensions, fenced!(request), arguments).await
    }

    async fn drain(&self, request: Request<pb::DrainRequest>) -> Result<Response<encoded::TransitionAck>, Status> {
        let (_, extensions, request) = request.into_parts();
        machine_id(&request.machine_id)?;
        let grace = validate::grace_period(request.grace_period_seconds).map_err(Status::invalid_argument)?;
        self.mutate(&extensions, fenced!(request), Arguments::Drain { grace })
            .await
    }

    async fn delete(&self, request: Request<pb::DeleteRequest>) -> Result<Response<encoded::TransitionAck>, Status> {
        let (_, extensions, request) = request.into_parts();
        self.mutate(&extensions, fenced!(request), Arguments::Delete).await
    }

    async fn get(&self, request: Request<pb::MachineRef>) -> Result<Response<encoded::Machine>, Status> {
        let id = machine_id(&request.get_ref().id)?;
        let machine = self.engine.encoded(id.as_str());
        let machine = machine.ok_or_else(|| Status::not_found(format!("machine `{id}` is not known")))?;
        Ok(Response::new(encoded::Machine(machine)))
    }

    async fn list(&self, request: Request<pb::ListFilter>) -> Result<Response<encoded::MachineList>, Status> {
        let filter = request.into_inner();
        let page = self
            .engine
            .list(&Query::new(&filter.states, filter.max_results, filter.since_revision));
        Ok(Response::new(encoded::MachineList {
            machines: page.machines,
            revision: page.cursor,
        }))
    }
}
