//! A machine's whole life on a real host.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use libvirt_backend::{
    Endpoint, Libvirt,
    settings::{
        Accelerator, Budget, Bus, Firmware, GuestSettings, HostSettings, IdleWhen, InstanceType, MachineSettings,
        Network, Offering, Settings,
    },
};
use providerkit_backend::{
    Backend as _, Bytes, CapacityType, CleanupRequest, ClusterId, ConfigureRequest, CreateRequest, DeleteRequest,
    DrainRequest, Error, HostRef, Known, Machine, Operation, OperationId, ReadyRequest, Slot, State, Transition,
};

use crate::lab::Host;

fn settings(hosts: &[(&str, &Host)]) -> Settings {
    let kind = InstanceType {
        name: "tiny".into(),
        vcpus: 1,
        memory_mib: 128,
        disk_gib: None,
    };
    let zones = hosts.iter().map(|(zone, host)| {
        let settings = HostSettings {
            name: format!("{zone}-host").into(),
            endpoint: Endpoint::Uri(host.uri()),
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
            user_data: None,
            autostart: true,
            start_networks: true,
        },
        guest: GuestSettings {
            idle_when: IdleWhen::CloudInit,
            readiness: libvirt_backend::settings::Readiness::None,
            ..GuestSettings::default()
        },
        budget: Budget {
            memory_reserve_mib: Some(512),
            pool_reserve: Some(0),
            ..Budget::default()
        },
    }
}

fn operation() -> Operation {
    Operation::new(OperationId::mint(), Duration::from_secs(180))
}

fn machine(slot: &Slot) -> Machine {
    let id = providerkit_backend::MachineId::new(Arc::clone(&slot.name)).unwrap();
    Machine::new(id, Arc::clone(&slot.profile))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_lives_and_leaves_nothing() {
    let Some(host) = Host::start("a_machine_lives_and_leaves_nothing").await else {
        return;
    };
    let backend = Libvirt::start(settings(&[("rack1", &host)]));
    let slots = backend.describe(&[]).await.unwrap();
    assert_eq!(slots.len(), 4);
    assert!(slots.iter().all(|slot| slot.withheld.is_none()), "{slots:?}");
    let mut machine = machine(&slots[0]);

    machine.state = State::Creating;
    backend.admit(&machine, Transition::Create).unwrap();
    let begun = std::time::Instant::now();
    let created = backend.create(CreateRequest::new(operation(), machine.clone())).await.unwrap();
    eprintln!("created in {:?}", begun.elapsed());
    assert!(created.host.reference.starts_with("libvirt://rack1/"));
    machine.host = Some(created.host);

    let cluster = ClusterId::new("blue").unwrap();
    machine.cluster = Some(cluster.clone());
    machine.state = State::Configuring;
    let request = ConfigureRequest::new(operation(), machine.clone(), cluster.clone(), Bytes::from_static(b"join me"));
    let ready = ReadyRequest::new(request.operation.clone(), machine.clone(), cluster);
    backend.configure(request).await.unwrap();
    backend.ready(ready).await.unwrap();
    assert!(host.virsh(&["dumpxml", &host.domains()[0]]).contains("blue"));

    machine.state = State::Draining;
    backend.drain(DrainRequest::new(operation(), machine.clone(), Duration::from_secs(10))).await.unwrap();
    assert!(!host.virsh(&["dumpxml", &host.domains()[0]]).contains("blue"));

    machine.state = State::Deleting;
    machine.cluster = None;
    backend.delete(DeleteRequest::new(operation(), machine)).await.unwrap();
    assert_eq!(host.domains(), [""; 0]);
    assert_eq!(host.volumes(), [""; 0]);
    backend.stop().await;
}
