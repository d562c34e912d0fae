//! A backend whose work is instant, so that the engine is what is measured.

use std::sync::Arc;

use async_trait::async_trait;
use providerkit::{
    Backend, Capabilities, CapacityType, ConfigureRequest, CreateRequest, Created, DeleteRequest, DeleteSupport,
    DrainRequest, Error, HostRef, Known, Profile, Slot,
};

const PROVIDER: &str = "bench";

/// Offers `machines` slots of twelve kinds.
pub(crate) struct Instant {
    pub(crate) machines: usize,
}

/// Name of a slot, and so the id of its machine.
pub(crate) fn machine_id(number: usize) -> String {
    format!("{PROVIDER}-spec-{number:06}")
}

#[async_trait]
impl Backend for Instant {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default().delete(DeleteSupport::Always)
    }

    async fn describe(&self, _: &[Known]) -> Result<Vec<Slot>, Error> {
        let profiles = profiles();
        let kinds = profiles.iter().cycle();
        let slots = kinds.take(self.machines).enumerate();
        Ok(slots
            .map(|(number, profile)| Slot::new(machine_id(number), Arc::clone(profile)))
            .collect())
    }

    async fn create(&self, request: CreateRequest) -> Result<Created, Error> {
        let reference = format!("host-of-{}", request.machine.id);
        Ok(Created::new(HostRef::new(PROVIDER, reference)))
    }

    async fn configure(&self, _: ConfigureRequest) -> Result<(), Error> {
        Ok(())
    }

    async fn drain(&self, _: DrainRequest) -> Result<(), Error> {
        Ok(())
    }

    async fn delete(&self, _: DeleteRequest) -> Result<(), Error> {
        Ok(())
    }
}

fn profiles() -> Vec<Arc<Profile>> {
    let mut profiles = Vec::new();
    for zone in ["rack-a", "rack-b", "rack-c"] {
        for cores in [2_u32, 4, 8, 16] {
            let memory = cores * 4;
            let profile = Profile::new(format!("libvirt-{cores}c-{memory}g"), zone, CapacityType::OnDemand)
                .price_per_hour(0.05 * f64::from(cores))
                .resource("cpu", cores.to_string())
                .resource("memory", format!("{memory}Gi"))
                .label("kubernetes.io/arch", "amd64")
                .label("kubernetes.io/os", "linux");
            profiles.push(Arc::new(profile));
        }
    }
    profiles
}
