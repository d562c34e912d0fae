//! The service as one would write it first: every List builds the message of every machine and lets prost encode it.

use bigfleet_proto::{
    CapacityProvider, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, ListFilter, Machine, MachineList,
    MachineRef, TransitionAck,
};
use providerkit::Engine;
use tonic::{Request, Response, Status};

pub(crate) struct Naive {
    pub(crate) engine: Engine,
}

#[async_trait::async_trait]
impl CapacityProvider for Naive {
    async fn list(&self, _: Request<ListFilter>) -> Result<Response<MachineList>, Status> {
        let machines = self.engine.machines();
        let machines = machines.iter().map(providerkit::message).collect();
        Ok(Response::new(MachineList {
            machines,
            ..MachineList::default()
        }))
    }

    async fn get(&self, _: Request<MachineRef>) -> Result<Response<Machine>, Status> {
        Err(only_lists())
    }

    async fn create(&self, _: Request<CreateRequest>) -> Result<Response<TransitionAck>, Status> {
        Err(only_lists())
    }

    async fn configure(&self, _: Request<ConfigureRequest>) -> Result<Response<TransitionAck>, Status> {
        Err(only_lists())
    }

    async fn drain(&self, _: Request<DrainRequest>) -> Result<Response<TransitionAck>, Status> {
        Err(only_lists())
    }

    async fn delete(&self, _: Request<DeleteRequest>) -> Result<Response<TransitionAck>, Status> {
        Err(only_lists())
    }
}

fn only_lists() -> Status {
    Status::unimplemented("only List is compared")
}
