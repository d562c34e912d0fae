//! The six calls.

use std::{net::SocketAddr, time::Duration};

use bigfleet_proto::{
    CapacityProviderClient, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, ListFilter, Machine,
    MachineList, MachineRef, MachineState, TransitionAck,
};
use bytes::Bytes;
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

use super::{Binding, Token};

/// What the shard's own client allows, both ways (contract §1.4).
const MESSAGE_LIMIT: usize = 256 << 20;
/// Nobody waits longer for an answer (contract §12.5).
const CALL_LIMIT: Duration = Duration::from_secs(30);

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Client(CapacityProviderClient<Channel>);

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::over(endpoint(address).connect().await.unwrap())
    }

    /// Connects with the first call, and again after a connection was lost.
    pub(crate) fn lazily(address: SocketAddr) -> Self {
        Self::over(endpoint(address).connect_lazy())
    }

    pub(crate) fn over(channel: Channel) -> Self {
        Self(
            CapacityProviderClient::new(channel)
                .max_decoding_message_size(MESSAGE_LIMIT)
                .max_encoding_message_size(MESSAGE_LIMIT),
        )
    }

    pub(crate) async fn create(&self, id: &str, token: &Token) -> Result<TransitionAck, Status> {
        let request = CreateRequest {
            machine_id: id.into(),
            shard_id: token.shard.clone(),
            shard_epoch: token.epoch,
            sequence_number: token.sequence,
        };
        Ok(self.0.clone().create(request).await?.into_inner())
    }

    pub(crate) async fn configure(&self, id: &str, binding: &Binding, token: &Token) -> Result<TransitionAck, Status> {
        let request = ConfigureRequest {
            machine_id: id.into(),
            cluster_id: binding.cluster.clone(),
            bootstrap_blob: binding.blob.clone(),
            shard_id: token.shard.clone(),
            shard_epoch: token.epoch,
            sequence_number: token.sequence,
            shard_metadata: binding.metadata.clone(),
        };
        Ok(self.0.clone().configure(request).await?.into_inner())
    }

    pub(crate) async fn drain(&self, id: &str, grace: i64, token: &Token) -> Result<TransitionAck, Status> {
        let request = DrainRequest {
            machine_id: id.into(),
            grace_period_seconds: grace,
            shard_id: token.shard.clone(),
            shard_epoch: token.epoch,
            sequence_number: token.sequence,
        };
        Ok(self.0.clone().drain(request).await?.into_inner())
    }

    pub(crate) async fn delete(&self, id: &str, token: &Token) -> Result<TransitionAck, Status> {
        let request = DeleteRequest {
            machine_id: id.into(),
            shard_id: token.shard.clone(),
            shard_epoch: token.epoch,
            sequence_number: token.sequence,
        };
        Ok(self.0.clone().delete(request).await?.into_inner())
    }

    pub(crate) async fn try_get(&self, id: &str) -> Result<Machine, Status> {
        Ok(self.0.clone().get(MachineRef { id: id.into() }).await?.into_inner())
    }

    pub(crate) async fn try_list(&self, filter: ListFilter) -> Result<MachineList, Status> {
        Ok(self.0.clone().list(filter).await?.into_inner())
    }
}

fn endpoint(address: SocketAddr) -> Endpoint {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.timeout(CALL_LIMIT)
}

/// Only machines in these states.
pub(crate) fn only(states: &[MachineState]) -> ListFilter {
    ListFilter {
        states: states.iter().map(|state| i32::from(*state)).collect(),
        ..ListFilter::default()
    }
}

/// At most so many machines.
pub(crate) fn capped(max_results: i32) -> ListFilter {
    ListFilter {
        max_results,
        ..ListFilter::default()
    }
}

/// What changed after a cursor.
pub(crate) fn since(revision: impl Into<Bytes>) -> ListFilter {
    ListFilter {
        since_revision: revision.into(),
        ..ListFilter::default()
    }
}
