//! Machines that exist only here, to try BigFleet with and to be certified against.
//!
//! Nothing that matters is kept: a host is named after its machine, and whatever is asked of a machine works. So the
//! answers after a restart are those before it (contract trap 8).

use std::{sync::Arc, time::Duration};

use providerkit::{
    Backend, Capabilities, CapacityType, CleanupRequest, ConfigureRequest, CreateRequest, Created, DeleteRequest,
    DeleteSupport, DrainRequest, Error, HostRef, Known, Operation, Profile, ReadyRequest, Slot, async_trait,
};

use crate::config::Fake;

const ZONES: [&str; 2] = ["fake-zone-a", "fake-zone-b"];

/// Name, CPUs, GiB of memory, price an hour.
const TYPES: [(&str, u32, u32, f64); 3] = [
    ("fake-2c-8g", 2, 8, 0.10),
    ("fake-4c-16g", 4, 16, 0.20),
    ("fake-8c-32g", 8, 32, 0.40),
];

/// What is left of the price of a machine that may be taken away.
const SPOT_SHARE: f64 = 0.3;
const SPOT_INTERRUPTION: f64 = 0.05;

/// The backend of `--use-fake-backend`.
#[derive(Debug)]
pub(crate) struct Simulated {
    provider: Arc<str>,
    count: u32,
    delay: Duration,
}

impl Simulated {
    pub(crate) fn new(provider: &Arc<str>, fake: &Fake) -> Self {
        Self {
            provider: Arc::clone(provider),
            count: fake.seed_count,
            delay: fake.delay,
        }
    }

    /// The work of a transition.
    async fn work(&self, operation: &Operation) -> Result<(), Error> {
        if self.delay.is_zero() {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(self.delay) => Ok(()),
            () = operation.cancellation.cancelled() => Err(Error::new(format!(
                "the simulated work was cancelled before its {:?} had passed; raise the transition's timeout or lower \
                 `fake.delay`",
                self.delay
            ))),
        }
    }
}

#[async_trait]
impl Backend for Simulated {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default().delete(DeleteSupport::Always).readiness(true)
    }

    async fn describe(&self, _: &[Known]) -> Result<Vec<Slot>, Error> {
        let profiles = profiles();
        let cycled = profiles.iter().cycle();
        let slots = (0..self.count).zip(cycled);
        Ok(slots
            .map(|(n, profile)| Slot::new(format!("{}-spec-{n:03}", self.provider), Arc::clone(profile)))
            .collect())
    }

    async fn create(&self, request: CreateRequest) -> Result<Created, Error> {
        self.work(&request.operation).await?;
        let host = format!("fake-{}", request.machine.id);
        Ok(Created::new(HostRef::new(Arc::clone(&self.provider), host)))
    }

    async fn configure(&self, request: ConfigureRequest) -> Result<(), Error> {
        self.work(&request.operation).await
    }

    /// A simulated node joins as the last act of its bootstrap, so it is Ready as soon as that is done.
    async fn ready(&self, _: ReadyRequest) -> Result<(), Error> {
        Ok(())
    }

    async fn drain(&self, request: DrainRequest) -> Result<(), Error> {
        self.work(&request.operation).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<(), Error> {
        self.work(&request.operation).await
    }

    async fn cleanup(&self, _: CleanupRequest) -> Result<(), Error> {
        Ok(())
    }
}

/// One profile for each slot in turn: types and zones alternate, and every third may be taken away.
fn profiles() -> Vec<Arc<Profile>> {
    let capacities = [CapacityType::Spot, CapacityType::OnDemand, CapacityType::OnDemand];
    let zones = ZONES.iter().flat_map(|zone| TYPES.iter().map(move |kind| (zone, kind)));
    zones
        .flat_map(|(zone, kind)| capacities.map(|capacity| Arc::new(profile(kind, zone, capacity))))
        .collect()
}

fn profile(kind: &(&str, u32, u32, f64), zone: &str, capacity: CapacityType) -> Profile {
    let (name, cpus, gib, price) = *kind;
    let profile = Profile::new(name, zone, capacity)
        .resource("cpu", cpus.to_string())
        .resource("memory", format!("{gib}Gi"));
    if capacity == CapacityType::Spot {
        profile
            .price_per_hour(price * SPOT_SHARE)
            .interruption_probability(SPOT_INTERRUPTION)
    } else {
        profile.price_per_hour(price)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use providerkit::{Machine, MachineId, OperationId};

    use super::*;

    fn simulated(seed_count: u32, delay: Duration) -> Simulated {
        Simulated::new(&"sim".into(), &Fake { seed_count, delay })
    }

    fn machine(slot: &Slot) -> Machine {
        Machine::new(
            MachineId::new(Arc::clone(&slot.name)).unwrap(),
            Arc::clone(&slot.profile),
        )
    }

    #[tokio::test]
    async fn the_slots_are_the_same_at_every_boot() {
        let first = simulated(40, Duration::ZERO).describe(&[]).await.unwrap();
        assert_eq!(first, simulated(40, Duration::ZERO).describe(&[]).await.unwrap());
        assert_eq!((&*first[0].name, &*first[39].name), ("sim-spec-000", "sim-spec-039"));
        let names: BTreeSet<_> = first.iter().map(|slot| &slot.name).collect();
        assert_eq!(names.len(), 40);
    }

    #[tokio::test]
    async fn every_third_slot_may_be_taken_away_and_is_cheaper_for_that() {
        let slots = simulated(36, Duration::ZERO).describe(&[]).await.unwrap();
        for (n, slot) in slots.iter().enumerate() {
            let spot = n % 3 == 0;
            assert_eq!(slot.profile.capacity_type == CapacityType::Spot, spot, "{n}");
            assert_eq!(
                slot.profile.interruption_probability,
                if spot { 0.05 } else { 0.0 },
                "{n}"
            );
        }
        assert!(slots[0].profile.price_per_hour < slots[1].profile.price_per_hour);
        let kinds: BTreeSet<_> = slots
            .iter()
            .map(|slot| (&slot.profile.instance_type, &slot.profile.zone))
            .collect();
        assert_eq!(kinds.len(), TYPES.len() * ZONES.len());
    }

    /// Trap 10: plain numbers, and `Gi`.
    #[test]
    fn resources_are_given_twice_and_in_plain_quantities() {
        for profile in profiles() {
            assert_eq!(profile.resources, profile.allocatable);
            assert_eq!(profile.resources.keys().collect::<Vec<_>>(), ["cpu", "memory"]);
            for quantity in profile.resources.values() {
                assert!(quantity.trim_end_matches("Gi").parse::<u32>().is_ok(), "{quantity}");
            }
        }
    }

    #[tokio::test]
    async fn a_host_is_named_after_its_machine() {
        let (one, other) = (simulated(2, Duration::ZERO), simulated(2, Duration::ZERO));
        let slots = one.describe(&[]).await.unwrap();
        let host = async |backend: &Simulated, slot| {
            let operation = Operation::new(OperationId::mint(), Duration::from_secs(1));
            let created = backend.create(CreateRequest::new(operation, machine(slot))).await;
            created.unwrap().host
        };
        assert_eq!(host(&one, &slots[0]).await, host(&other, &slots[0]).await);
        assert_ne!(host(&one, &slots[0]).await, host(&one, &slots[1]).await);
    }

    #[tokio::test]
    async fn cancelled_work_ends_early_and_says_so() {
        let backend = simulated(1, Duration::from_secs(3600));
        let slots = backend.describe(&[]).await.unwrap();
        let operation = Operation::new(OperationId::mint(), Duration::from_secs(1));
        operation.cancellation.cancel();
        let error = backend
            .delete(DeleteRequest::new(operation, machine(&slots[0])))
            .await
            .unwrap_err();
        assert!(error.report().contains("cancelled"), "{error:?}");
    }
}
