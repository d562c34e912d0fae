//! A backend on a lab host, and one machine's way through it.
#![allow(dead_code, reason = "the benchmark does not do everything to a machine")]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use libvirt_backend::{
    Endpoint, Libvirt, UserData,
    settings::{
        Accelerator, Budget, Bus, Firmware, GuestSettings, HostSettings, InstanceType, MachineSettings, Network,
        Offering, Settings,
    },
};
use providerkit_backend::{
    Backend as _, Bytes, CapacityType, CleanupRequest, ClusterId, ConfigureRequest, CreateRequest, DeleteRequest,
    DrainRequest, Error, Machine, MachineId, Operation, OperationId, ReadyRequest, Slot, State, Transition,
};

use crate::lab::Host;

/// A provider of tiny machines, four in each zone.
pub(crate) fn settings(hosts: &[(&str, &Host)]) -> Settings {
    let kind = InstanceType {
        name: "tiny".into(),
        vcpus: 1,
        memory_mib: 256,
        disk_gib: None,
    };
    let zones = hosts.iter().map(|(zone, host)| {
        let settings = HostSettings {
            name: format!("{zone}-host").into(),
            endpoint: Endpoint::Uri(host.uri()),
            cordon: false,
        };
        (Arc::from(*zone), vec![settings])
    });
    let offering = |zone: &str| Offering {
        zone: zone.into(),
        instance_type: kind.clone(),
        capacity_type: CapacityType::OnDemand,
        count: 4,
        price_per_hour: 0.01,
        resources: BTreeMap::new(),
        labels: BTreeMap::new(),
        interruption_probability: 0.0,
        naming: None,
    };
    Settings {
        provider: "live".into(),
        zones: zones.collect(),
        offerings: hosts.iter().map(|(zone, _)| offering(zone)).collect(),
        machine: MachineSettings {
            pool: "default".into(),
            image: "tiny.qcow2".into(),
            networks: vec![Network::Network("default".into())],
            firmware: Firmware::Bios,
            accelerator: Accelerator::Qemu,
            machine_type: None,
            cpu: None,
            seed_bus: Bus::Virtio,
            user_data: UserData::none(),
            autostart: false,
            start_networks: true,
        },
        guest: GuestSettings::default(),
        budget: Budget {
            memory_reserve_mib: Some(512),
            pool_reserve: Some(0),
            ..Budget::default()
        },
    }
}

/// The slots once every host has answered: a daemon that just began asks QEMU first what it can do.
pub(crate) async fn offered(backend: &Libvirt) -> Vec<Slot> {
    loop {
        let slots = backend.describe(&[]).await.unwrap();
        if !slots.is_empty() {
            return slots;
        }
        tokio::time::timeout(Duration::from_secs(120), backend.changed())
            .await
            .expect("a host that answers");
    }
}

/// A step, and what happens meanwhile; a step that fails does not wait for that.
pub(crate) async fn during<T>(
    step: impl Future<Output = Result<T, Error>>,
    events: impl Future<Output = ()>,
) -> Result<T, Error> {
    let (mut step, mut events) = (std::pin::pin!(step), std::pin::pin!(events));
    tokio::select! {
        ended = &mut step => {
            let ended = ended?;
            events.await;
            Ok(ended)
        }
        () = &mut events => step.await,
    }
}

/// One machine on its way.
pub(crate) struct Walk {
    pub(crate) backend: Libvirt,
    pub(crate) machine: Machine,
    /// How long each step may take.
    pub(crate) budget: Duration,
}

impl Walk {
    /// The first slot of a provider.
    pub(crate) async fn new(settings: Settings) -> Self {
        let backend = Libvirt::start(settings);
        let slots = offered(&backend).await;
        Self::of(backend, &slots[0])
    }

    /// The machine of a slot.
    pub(crate) fn of(backend: Libvirt, slot: &Slot) -> Self {
        let id = MachineId::new(Arc::clone(&slot.name)).unwrap();
        Self {
            backend,
            machine: Machine::new(id, Arc::clone(&slot.profile)),
            budget: Duration::from_secs(300),
        }
    }

    /// A new operation with the walk's time.
    pub(crate) fn operation(&self) -> Operation {
        Operation::new(OperationId::mint(), self.budget)
    }

    pub(crate) async fn create(&mut self) -> Result<(), Error> {
        let operation = self.operation();
        self.create_as(operation).await
    }

    pub(crate) async fn create_as(&mut self, operation: Operation) -> Result<(), Error> {
        self.machine.state = State::Creating;
        if operation.attempt == 1 {
            self.backend.admit(&self.machine, Transition::Create)?;
        }
        let created = self
            .backend
            .create(CreateRequest::new(operation, self.machine.clone()))
            .await?;
        self.machine.host = Some(created.host);
        self.machine.state = State::Idle;
        Ok(())
    }

    pub(crate) async fn configure(&mut self, blob: impl Into<Bytes>) -> Result<(), Error> {
        let operation = self.operation();
        self.configure_as(operation, blob.into()).await
    }

    pub(crate) async fn configure_as(&mut self, operation: Operation, blob: Bytes) -> Result<(), Error> {
        let cluster = ClusterId::new("blue").unwrap();
        self.machine.cluster = Some(cluster.clone());
        self.machine.metadata = Arc::new(BTreeMap::from([("note".to_owned(), "a<b".to_owned())]));
        self.machine.state = State::Configuring;
        let machine = self.machine.clone();
        self.backend
            .configure(ConfigureRequest::new(
                operation.clone(),
                machine.clone(),
                cluster.clone(),
                blob,
            ))
            .await?;
        self.backend
            .ready(ReadyRequest::new(operation, machine, cluster))
            .await?;
        self.machine.state = State::Configured;
        Ok(())
    }

    pub(crate) async fn drain(&mut self, grace: Duration) -> Result<(), Error> {
        self.machine.state = State::Draining;
        self.backend
            .drain(DrainRequest::new(self.operation(), self.machine.clone(), grace))
            .await?;
        self.machine.cluster = None;
        self.machine.metadata = Arc::default();
        self.machine.state = State::Idle;
        Ok(())
    }

    pub(crate) async fn delete(&mut self) -> Result<(), Error> {
        self.machine.state = State::Deleting;
        self.backend
            .delete(DeleteRequest::new(self.operation(), self.machine.clone()))
            .await?;
        self.machine.host = None;
        self.machine.state = State::Speculative;
        Ok(())
    }

    /// After a failed operation.
    pub(crate) async fn cleanup(&mut self, operation: OperationId, transition: Transition) {
        self.machine.state = State::Failed;
        let operation = Operation::new(operation, self.budget);
        self.backend
            .cleanup(CleanupRequest::new(operation, self.machine.clone(), transition))
            .await
            .unwrap();
    }
}
