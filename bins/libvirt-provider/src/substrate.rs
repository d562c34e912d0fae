//! What machines are made on, served until the process is told to end.

use std::sync::Arc;

use libvirt_backend::Libvirt;
use providerkit::Backend;
use providerkit_runtime::{
    serve::{self, Ended, Signals},
    telemetry::Metrics,
};

use crate::{
    config::{Settings, Substrate},
    operate::Operation,
};

/// Serves until a signal, and lets go of the hosts. Their machines stay as they are.
pub(crate) async fn serve(
    settings: Settings,
    metrics: Metrics,
    signals: Signals,
    operation: Operation,
) -> Result<Ended, serve::Error> {
    let (runtime, metrics) = (&settings.runtime, Some(metrics));
    match settings.substrate {
        Substrate::Libvirt(hosts) => {
            let backend = Libvirt::start(*hosts);
            // invariant: nobody else sets it.
            drop(operation.backend().set(backend.clone()));
            let (made, operation) = (Arc::new(backend.clone()), Arc::new(operation));
            let ended = providerkit_runtime::run(runtime, metrics, signals, made, operation).await;
            backend.stop().await;
            ended
        }
        Substrate::Fake(fake) => {
            tracing::warn!(
                slots = fake.fake.seed_count,
                "the hosts are fake: their machines are not real"
            );
            let (running, mut started) = (operation.backend(), None::<Libvirt>);
            // What the hosts remember belongs to whoever has the state.
            let backend = async {
                let backend = started.insert(fake.start().await?).clone();
                // invariant: nobody else sets it.
                drop(running.set(backend.clone()));
                Ok::<Arc<dyn Backend>, anyhow::Error>(Arc::new(backend))
            };
            let ended = providerkit_runtime::run_with(runtime, metrics, signals, backend, Arc::new(operation)).await;
            if let Some(backend) = started {
                backend.stop().await;
            }
            ended
        }
    }
}
