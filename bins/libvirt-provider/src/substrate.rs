//! What machines are made on, served until the process is told to end.

use std::sync::Arc;

use libvirt_backend::Libvirt;
use providerkit_runtime::{
    Operator,
    serve::{self, Ended, Signals},
    telemetry::Metrics,
};

use crate::{
    config::{Settings, Substrate},
    simulated::Simulated,
};

/// Serves until a signal, and lets go of the hosts. Their machines stay as they are.
pub(crate) async fn serve(settings: Settings, metrics: Metrics, signals: Signals) -> Result<Ended, serve::Error> {
    let (runtime, metrics) = (&settings.runtime, Some(metrics));
    match settings.substrate {
        Substrate::Libvirt(hosts) => {
            let backend = Libvirt::start(*hosts);
            let ended = providerkit_runtime::run(
                runtime,
                metrics,
                signals,
                Arc::new(backend.clone()),
                Arc::new(Hosts(backend.clone())),
            )
            .await;
            backend.stop().await;
            ended
        }
        Substrate::Fake(fake) => {
            tracing::warn!(
                slots = fake.seed_count,
                "the backend is simulated: its machines are not real"
            );
            let backend = Arc::new(Simulated::new(&runtime.provider, &fake));
            providerkit_runtime::run(runtime, metrics, signals, backend, Arc::new(())).await
        }
    }
}

/// What the runtime is told of the hosts.
struct Hosts(Libvirt);

impl Operator for Hosts {
    fn record_gauges(&self) {
        self.0.record_gauges();
    }
}
