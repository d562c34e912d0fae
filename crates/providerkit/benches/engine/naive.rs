//! The service as one would write it first: every List builds the message of every machine and lets prost encode it.

use bigfleet_proto::{
    CapacityProvider, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, HostRef,
    ListFilter, Machine, MachineList, MachineRef, Resources, TransitionAck,
};
use providerkit::Engine;
use tonic::{Request, Response, Status};

pub(crate) struct Naive {
    pub(crate) engine: Engine,
}

#[async_trait::async_trait]
impl CapacityProvider for Naive {
    async fn list(&self, _: Request<ListFilter>) -> Result<Response<MachineList>, Status> {
        let machines = self.engine.machines().iter().map(message).collect();
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

    async fn configure(
        &self,
        _: Request<ConfigureRequest>,
    ) -> Result<Response<TransitionAck>, Status> {
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

fn message(machine: &providerkit::Machine) -> Machine {
    let profile = &machine.profile;
    let resources = |map: &std::collections::BTreeMap<String, String>| {
        (!map.is_empty()).then(|| Resources {
            resources: map.clone(),
        })
    };
    Machine {
        id: machine.id.as_str().to_owned(),
        state: machine.state as i32,
        host: machine.host.as_ref().map(|host| HostRef {
            provider: host.provider.to_string(),
            r#ref: host.reference.to_string(),
        }),
        instance_type: profile.instance_type.clone(),
        zone: profile.zone.clone(),
        capacity_type: profile.capacity_type as i32,
        price_per_hour: profile.price_per_hour,
        interruption_probability: profile.interruption_probability,
        resources: resources(&profile.resources),
        labels: profile.labels.clone(),
        last_error: machine.last_error.as_deref().unwrap_or_default().to_owned(),
        allocatable: resources(&profile.allocatable),
        cluster: machine
            .cluster
            .as_ref()
            .map_or_else(String::new, |cluster| cluster.as_str().to_owned()),
        shard_metadata: machine.metadata.as_ref().clone(),
    }
}
