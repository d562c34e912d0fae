//! The six calls on the wire.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use bigfleet_proto::{
    CapacityProvider, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, ListFilter, Machine, MachineList,
    MachineRef, MachineState as S, TransitionAck,
};
use tonic::{Request, Response, Status};

use super::{
    engine::{Call, Shared, known, spoil},
    listing,
    world::Kind,
};

/// The service.
#[derive(Clone, Debug)]
pub(super) struct Service(pub(super) Arc<Shared>);

impl Service {
    async fn call<T: Send>(
        &self,
        request: Request<T>,
        read: impl FnOnce(T) -> Call,
    ) -> Result<Response<TransitionAck>, Status> {
        let caller = request.remote_addr();
        let certificates = request.peer_certs();
        let call = read(request.into_inner());
        if let Some(certificates) = certificates {
            super::serve::speaks_for(&certificates, &call.shard, &self.0.rules)?;
        }
        let limited = call.kind == Kind::Create && self.0.rules.breaks("creates-limited");
        if limited && self.0.creates.fetch_add(1, Ordering::SeqCst) >= 8 {
            self.0.creates.fetch_sub(1, Ordering::SeqCst);
            return Err(Status::resource_exhausted("too many Creates"));
        }
        let answer = self.0.mutate(&call, caller);
        if limited {
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.0.creates.fetch_sub(1, Ordering::SeqCst);
        }
        answer.map(Response::new)
    }
}

fn plain(kind: Kind, id: String, shard: String, token: (i64, i64)) -> Call {
    Call {
        kind,
        id,
        shard,
        token,
        cluster: String::new(),
        metadata: BTreeMap::new(),
        grace: 0,
    }
}

#[tonic::async_trait]
impl CapacityProvider for Service {
    async fn create(&self, request: Request<CreateRequest>) -> Result<Response<TransitionAck>, Status> {
        self.call(request, |asked| {
            let token = (asked.shard_epoch, asked.sequence_number);
            plain(Kind::Create, asked.machine_id, asked.shard_id, token)
        })
        .await
    }

    async fn configure(&self, request: Request<ConfigureRequest>) -> Result<Response<TransitionAck>, Status> {
        self.call(request, |asked| Call {
            cluster: asked.cluster_id,
            metadata: asked.shard_metadata,
            ..plain(
                Kind::Configure,
                asked.machine_id,
                asked.shard_id,
                (asked.shard_epoch, asked.sequence_number),
            )
        })
        .await
    }

    async fn drain(&self, request: Request<DrainRequest>) -> Result<Response<TransitionAck>, Status> {
        self.call(request, |asked| Call {
            grace: asked.grace_period_seconds,
            ..plain(
                Kind::Drain,
                asked.machine_id,
                asked.shard_id,
                (asked.shard_epoch, asked.sequence_number),
            )
        })
        .await
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> Result<Response<TransitionAck>, Status> {
        self.call(request, |asked| {
            let token = (asked.shard_epoch, asked.sequence_number);
            plain(Kind::Delete, asked.machine_id, asked.shard_id, token)
        })
        .await
    }

    async fn get(&self, request: Request<MachineRef>) -> Result<Response<Machine>, Status> {
        let (caller, id) = (request.remote_addr(), request.into_inner().id);
        let rules = &self.0.rules;
        if rules.breaks("slow-get") {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let call = plain(Kind::Create, id, String::new(), (0, 0));
        if call.id.is_empty() && !rules.breaks("empty-id-not-found") {
            return Err(Status::invalid_argument("a machine id is needed"));
        }
        if let Some((id, when)) = &*self.0.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
            && *id == call.id
            && when.elapsed() < Duration::from_millis(300)
        {
            return Err(Status::failed_precondition("fenced"));
        }
        let mut world = self.0.world();
        known(&world, &call, rules)?;
        let Some(record) = world.machines.get_mut(&call.id) else {
            return Err(Status::not_found("gone"));
        };
        if record.machine.state() == S::Creating && rules.breaks("hidden-while-creating") {
            return Err(Status::not_found("not yet"));
        }
        if caller.is_some() && record.caller == caller {
            record.caller = None;
        }
        let mut machine = record.machine.clone();
        drop(world);
        spoil(&mut machine, rules);
        Ok(Response::new(machine))
    }

    async fn list(&self, request: Request<ListFilter>) -> Result<Response<MachineList>, Status> {
        let filter = request.into_inner();
        let turn = self.0.turn.fetch_add(1, Ordering::Relaxed);
        let (answer, pause) = {
            let world = self.0.world();
            let answer = listing::list(&world, &filter, turn, &self.0.rules);
            (answer, listing::pause(&world, &self.0.rules))
        };
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
        answer.map(Response::new)
    }
}
