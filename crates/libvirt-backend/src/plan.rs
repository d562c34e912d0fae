//! What one machine is to be made of, and the making of it.

use std::sync::Arc;

use libvirt_rpc::wire::{
    constant::{
        domain::{DomainDefineFlags, DomainMetadataType, DomainModificationImpact},
        network::ConnectListAllNetworksFlags,
    },
    remote::record::DomainRef,
};
use providerkit_backend::{Machine, MachineId, OperationId, Profile};
use uuid::Uuid;

use crate::{
    delivery::Delivery,
    failure::{Absent as _, Doing as _, Failure},
    host::{Host, Lanes, Seen, see},
    name::{self, DomainName, Incarnation},
    owner::{self, Owner},
    pool::{Pool, listed},
    settings::{InstanceType, Network, Settings},
    user_data::UserData,
    xml::{Card, Disk, Domain, Seed},
};

/// A machine as it is to be.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) settings: Arc<Settings>,
    pub(crate) name: DomainName,
    pub(crate) uuid: Uuid,
    pub(crate) owner: Owner,
    pub(crate) instance_type: InstanceType,
}

impl Plan {
    /// The machine that a Create makes.
    pub(crate) fn new(
        settings: &Arc<Settings>,
        machine: &Machine,
        slot: &str,
        operation: OperationId,
        instance_type: InstanceType,
    ) -> Self {
        let (provider, id) = (&settings.provider, &machine.id);
        let mut owner = Owner::new(
            &**provider,
            id.clone(),
            slot,
            operation,
            Profile::clone(&machine.profile),
        );
        owner.pool.clone_from(&settings.machine.pool);
        owner.image.clone_from(&settings.machine.image);
        Self {
            name: DomainName::new(provider, id),
            uuid: name::domain_uuid(provider, id, operation),
            owner,
            settings: Arc::clone(settings),
            instance_type,
        }
    }

    /// The machine with a fresh disk, made by another operation; its domain stays.
    pub(crate) fn renewed(mut self, old: &Owner, uuid: Uuid, operation: OperationId) -> Self {
        self.owner.created_by = old.created_by;
        self.owner.disk_by = operation;
        self.uuid = uuid;
        self
    }

    /// The incarnation of its disk.
    pub(crate) fn incarnation(&self) -> Incarnation {
        Incarnation::new(self.name.clone(), self.owner.disk_by)
    }

    /// Bytes its disk may grow to, as far as they are known without looking at the image.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.instance_type.disk_gib.unwrap_or(0) << 30
    }

    fn cards(&self) -> Vec<Card> {
        let networks = self.settings.machine.networks.iter().enumerate();
        let card = |(number, network): (usize, &Network)| Card {
            mac: name::mac_address(&self.settings.provider, &self.owner.machine, number),
            network: network.clone(),
        };
        networks.map(card).collect()
    }

    /// What its first boot reads: cloud-init's seed or a configuration for Ignition.
    pub(crate) fn first_boot(&self) -> Result<Vec<u8>, Failure> {
        match &self.settings.machine.user_data {
            UserData::CloudInit(_) => self.seed(None),
            UserData::Ignition(ignition) => Ok(ignition.of_machine(&self.incarnation().hostname())),
        }
    }

    /// The seed of its disk's incarnation; with something to deliver, that of an instance of its own.
    pub(crate) fn seed(&self, delivery: Option<&Delivery<'_>>) -> Result<Vec<u8>, Failure> {
        use cloud_init::{Hostname, InstanceId, MetaData, NetworkConfig, Nic, Seed};
        let incarnation = self.incarnation();
        let instance = match delivery {
            Some(delivery) => Incarnation::new(self.name.clone(), delivery.operation).instance_id(),
            None => incarnation.instance_id(),
        };
        let build = || -> Result<Vec<u8>, cloud_init::Error> {
            let meta = MetaData::new(InstanceId::new(instance)?, Hostname::new(incarnation.hostname())?);
            let cards = self.cards();
            let nics = cards.iter().map(|card| Nic::dhcp(card.mac)).collect();
            let network = NetworkConfig::new(nics)?;
            let user = match &self.settings.machine.user_data {
                UserData::CloudInit(user) => user.clone(),
                UserData::Ignition(_) => cloud_init::UserData::none(),
            };
            let seed = Seed::new(meta, user).network_config(network);
            let seed = match delivery {
                Some(delivery) => delivery.put_into(seed)?,
                None => seed,
            };
            Ok(seed.image()?.to_vec())
        };
        build().map_err(|error| Failure::told(format!("the cloud-init seed cannot be made: {error}")))
    }

    /// Makes disk and seed, and defines the domain. Whatever an earlier attempt left is replaced.
    pub(crate) async fn define(&self, lanes: &Lanes, host: &Host) -> Result<DomainRef, Failure> {
        let machine = &self.settings.machine;
        let platform = lanes
            .facts
            .platform
            .as_ref()
            .map_err(|reason| Failure::told(reason.as_str()))?;
        for network in &machine.networks {
            check_network(lanes, network, machine.start_networks).await?;
        }
        let pool = Pool::open(lanes, &machine.pool).await?;
        let base = pool.base(&machine.image).await?;
        if self.owner.created_by == self.owner.disk_by {
            host.check_image(&machine.pool, &machine.image, base.revision.as_deref())
                .map_err(Failure::told)?;
        }
        let incarnation = self.incarnation();
        let mut owner = self.owner.clone();
        owner.image_revision.clone_from(&base.revision);
        owner.disk_bytes = self.disk_bytes().max(base.capacity);
        let disk = Disk {
            path: pool.make_disk(&incarnation.disk(), owner.disk_bytes, &base).await?,
            chain: base.chain,
        };
        let first_boot = self.first_boot()?;
        let seed = match machine.user_data {
            UserData::CloudInit(_) => Seed::Disk {
                path: pool.make_seed(&incarnation.seed(), &first_boot).await?,
                bus: machine.seed_bus,
            },
            UserData::Ignition(_) => Seed::Ignition {
                path: pool.make_seed(&incarnation.ignition(), &first_boot).await?,
            },
        };
        let description = Domain {
            name: self.name.as_str(),
            uuid: self.uuid,
            title: &format!("{} of BigFleet provider {}", self.owner.machine, self.owner.provider),
            metadata: &owner.element(),
            vcpus: self.instance_type.vcpus,
            memory_mib: self.instance_type.memory_mib,
            disk: &disk,
            seed: &seed,
            cards: &self.cards(),
            firmware: machine.firmware,
            machine_type: &platform.machine_type,
            cpu: &platform.cpu,
            capabilities: &platform.capabilities,
        };
        let doing = || format!("define domain `{}`", self.name);
        let domain = lanes
            .control
            .domain_define(&description.to_xml(), DomainDefineFlags::VALIDATE)
            .await
            .doing(doing)?;
        lanes
            .control
            .domain_set_autostart(&domain, machine.autostart)
            .await
            .doing(doing)?;
        Ok(domain)
    }
}

/// A network of libvirt's that is not active makes the start fail (field report F95).
async fn check_network(lanes: &Lanes, network: &Network, start: bool) -> Result<(), Failure> {
    let Network::Network(name) = network else {
        return Ok(());
    };
    let control = &lanes.control;
    let doing = || format!("look up network `{name}`");
    let Some(network) = control.network_lookup_by_name(name).await.absent().doing(doing)? else {
        return Err(no_network(lanes, name).await?);
    };
    if control.network_is_active(&network).await.doing(doing)? {
        return Ok(());
    }
    if !start {
        return Err(Failure::told(format!(
            "network `{name}` is not active; run `virsh net-start {name}` and `virsh net-autostart {name}`, or set \
             `machine.start_networks`"
        )));
    }
    match control.network_create(&network).await {
        // Somebody was faster.
        Err(_) if control.network_is_active(&network).await.doing(doing)? => Ok(()),
        started => started.doing(|| format!("start network `{name}`")),
    }
}

/// Says that there is no such network, and which there are.
pub(crate) async fn no_network(lanes: &Lanes, name: &str) -> Result<Failure, Failure> {
    let networks = lanes.control.networks(ConnectListAllNetworksFlags::empty()).await;
    let networks = networks.doing(|| format!("look up network `{name}`"))?;
    let names = networks
        .iter()
        .map(|network| network.name.to_string_lossy().into_owned());
    Ok(Failure::told(format!(
        "there is no network `{name}`; {}: set `machine.networks` or define it",
        listed("the host has", names)
    )))
}

/// The domain of a machine, if it is there and provably this provider's.
pub(crate) async fn find(
    lanes: &Lanes,
    name: &DomainName,
    provider: &str,
    machine: &MachineId,
) -> Result<Option<(Seen, Owner)>, Failure> {
    let looked_up = lanes.control.domain_lookup_by_name(name.as_str()).await.absent();
    let Some(domain) = looked_up.doing(|| format!("look up domain `{name}`"))? else {
        return Ok(None);
    };
    let Some(seen) = see(&lanes.control, &domain).await? else {
        return Ok(None);
    };
    match seen.owner.clone() {
        Some(owner) if owner.provider == provider && owner.machine == *machine => Ok(Some((seen, owner))),
        _ => Err(Failure::told(format!(
            "domain `{name}` is there and not ours: its metadata does not name provider `{provider}` and machine \
             `{machine}`; rename it or remove it by hand"
        ))),
    }
}

/// Writes down what is known of a machine now.
pub(crate) async fn mark(lanes: &Lanes, domain: &DomainRef, owner: &Owner) -> Result<(), Failure> {
    let (element, whole) = owner.fitting_element();
    if !whole {
        tracing::warn!(machine_id = %owner.machine, "BigFleet's notes are too long for the domain; the state file alone has them");
    }
    // Both, because a running domain has two descriptions.
    let mut impact = DomainModificationImpact::CONFIG;
    let active = lanes.control.domain_is_active(domain).await;
    let doing = || format!("write the metadata of domain `{}`", domain.name.to_string_lossy());
    if active.doing(doing)? {
        impact |= DomainModificationImpact::LIVE;
    }
    let written = lanes.control.domain_set_metadata(
        domain,
        DomainMetadataType::ELEMENT,
        Some(&element),
        Some(owner::PREFIX),
        Some(owner::NAMESPACE),
        impact,
    );
    written.await.doing(doing)
}
