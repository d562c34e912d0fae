//! An engine with its service called in process, so that virtual time runs it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bigfleet_proto::{
    self as pb, MachineState,
    encoded::{self, CapacityProvider as _},
};
use prost::Message as _;
use providerkit::{Backend, Engine, Options, Service, store::Store};
use tonic::{Code, Request, Status};

pub(crate) type Ack = (String, pb::Machine);

/// A fencing token; `None` calls unfenced.
pub(crate) type Token<'a> = Option<(&'a str, i64, i64)>;

pub(crate) struct Provider {
    pub(crate) engine: Engine,
    service: Service,
}

pub(crate) fn options() -> Options {
    Options::new("test")
}

impl Provider {
    pub(crate) async fn start(store: impl Store, backend: Arc<impl Backend>) -> Self {
        Self::start_with(options(), store, backend).await
    }

    pub(crate) async fn start_with(options: Options, store: impl Store, backend: Arc<impl Backend>) -> Self {
        Self::new(Engine::start(options, Box::new(store), backend).await.unwrap())
    }

    pub(crate) fn new(engine: Engine) -> Self {
        Self {
            service: Service::new(engine.clone()),
            engine,
        }
    }

    pub(crate) async fn create(&self, id: &str, token: Token<'_>) -> Result<Ack, Status> {
        let (shard_id, shard_epoch, sequence_number) = parts(token);
        let request = pb::CreateRequest {
            machine_id: id.into(),
            shard_id,
            shard_epoch,
            sequence_number,
        };
        self.service.create(Request::new(request)).await.map(ack)
    }

    pub(crate) async fn configure(&self, id: &str, cluster: &str, token: Token<'_>) -> Result<Ack, Status> {
        self.configure_with(id, cluster, b"blob", BTreeMap::new(), token).await
    }

    pub(crate) async fn configure_with(
        &self,
        id: &str,
        cluster: &str,
        blob: &'static [u8],
        shard_metadata: BTreeMap<String, String>,
        token: Token<'_>,
    ) -> Result<Ack, Status> {
        let (shard_id, shard_epoch, sequence_number) = parts(token);
        let request = pb::ConfigureRequest {
            machine_id: id.into(),
            cluster_id: cluster.into(),
            bootstrap_blob: blob.into(),
            shard_id,
            shard_epoch,
            sequence_number,
            shard_metadata,
        };
        self.service.configure(Request::new(request)).await.map(ack)
    }

    pub(crate) async fn drain(&self, id: &str, grace: i64, token: Token<'_>) -> Result<Ack, Status> {
        let (shard_id, shard_epoch, sequence_number) = parts(token);
        let request = pb::DrainRequest {
            machine_id: id.into(),
            grace_period_seconds: grace,
            shard_id,
            shard_epoch,
            sequence_number,
        };
        self.service.drain(Request::new(request)).await.map(ack)
    }

    pub(crate) async fn delete(&self, id: &str, token: Token<'_>) -> Result<Ack, Status> {
        let (shard_id, shard_epoch, sequence_number) = parts(token);
        let request = pb::DeleteRequest {
            machine_id: id.into(),
            shard_id,
            shard_epoch,
            sequence_number,
        };
        self.service.delete(Request::new(request)).await.map(ack)
    }

    pub(crate) async fn get(&self, id: &str) -> Result<pb::Machine, Status> {
        let found = self.service.get(Request::new(pb::MachineRef { id: id.into() })).await?;
        Ok(machine(found.get_ref()))
    }

    pub(crate) async fn list(&self, since: &[u8]) -> pb::MachineList {
        self.list_with(pb::ListFilter {
            since_revision: since.to_vec().into(),
            ..Default::default()
        })
        .await
    }

    /// The ids in a full List.
    pub(crate) async fn ids(&self) -> Vec<String> {
        let list = self.list(&[]).await;
        list.machines.into_iter().map(|machine| machine.id).collect()
    }

    pub(crate) async fn list_with(&self, filter: pb::ListFilter) -> pb::MachineList {
        let list = self.service.list(Request::new(filter)).await.unwrap().into_inner();
        let machines = pb::MachineList::decode(list.machines.concat().as_slice())
            .unwrap()
            .machines;
        pb::MachineList {
            machines,
            revision: list.revision,
        }
    }

    /// Waits until the machine is in this state. Virtual time makes the limit free.
    pub(crate) async fn reach(&self, id: &str, state: MachineState) -> pb::Machine {
        for _ in 0..100_000 {
            let machine = self.get(id).await.unwrap();
            if machine.state() == state {
                return machine;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{id} never became {state:?}: {:?}", self.get(id).await);
    }

    /// Waits until the machine is there.
    pub(crate) async fn reach_listed(&self, id: &str) {
        while self.get(id).await.is_err() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    pub(crate) async fn idle(&self, id: &str) {
        self.create(id, None).await.unwrap();
        self.reach(id, MachineState::Idle).await;
    }

    pub(crate) async fn configured(&self, id: &str, cluster: &str) {
        self.idle(id).await;
        self.configure(id, cluster, None).await.unwrap();
        self.reach(id, MachineState::Configured).await;
    }

    /// Ends the engine as a crash would, as far as the store can tell.
    pub(crate) async fn stop(self) {
        self.engine.stop(Duration::ZERO).await.unwrap();
    }
}

fn parts(token: Token<'_>) -> (String, i64, i64) {
    token
        .map(|(shard, epoch, sequence)| (shard.to_owned(), epoch, sequence))
        .unwrap_or_default()
}

fn ack(response: tonic::Response<encoded::TransitionAck>) -> Ack {
    let ack = response.into_inner();
    (ack.operation_id, machine(&ack.machine))
}

fn machine(encoded: &encoded::Machine) -> pb::Machine {
    pb::MachineList::decode(encoded.0.clone()).unwrap().machines.remove(0)
}

#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Status>, code: Code, parts: &[&str]) {
    let status = result.unwrap_err();
    assert_eq!(status.code(), code, "{status:?}");
    for part in parts {
        assert!(
            status.message().contains(part),
            "`{part}` is not in: {}",
            status.message()
        );
    }
}
