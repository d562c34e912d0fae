//! What machines are made on, served until the process is told to end.

use std::sync::Arc;

use libvirt_backend::Libvirt;
use providerkit::Backend;
use providerkit_runtime::{
    serve::{self, Ended, Signals},
    telemetry::Metrics,
};

use crate::config::{Settings, Substrate};

/// Serves until a signal, and lets go of the hosts. Their machines stay as they are.
pub(crate) async fn serve(settings: Settings, metrics: Metrics, signals: Signals) -> Result<Ended, serve::Error> {
    let (runtime, metrics) = (&settings.runtime, Some(metrics));
    match settings.substrate {
        Substrate::Libvirt(hosts) => {
            let backend = Libvirt::start(*hosts);
            let ended = providerkit_runtime::run(runtime, metrics, signals, Arc::new(backend.clone())).await;
            backend.stop().await;
            ended
        }
        Substrate::Fake(fake) => {
            tracing::warn!(
                slots = fake.fake.seed_count,
                "the hosts are fake: their machines are not real"
            );
            let mut started: Option<Libvirt> = None;
            // What the hosts remember belongs to whoever has the state.
            let backend = async {
                let backend = started.insert(fake.start().await?).clone();
                Ok::<Arc<dyn Backend>, anyhow::Error>(Arc::new(backend))
            };
            let ended = providerkit_runtime::run_with(runtime, metrics, signals, backend).await;
            if let Some(backend) = started {
                backend.stop().await;
            }
            ended
        }
    }
}
