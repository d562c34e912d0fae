//! Whether we serve, as told to everybody who asks: HTTP probes, gRPC health, systemd.

use std::collections::BTreeMap;

use bigfleet_proto::SERVICE_NAME;
use tokio::sync::watch;
use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};

use super::systemd;
use crate::HostStatus;

/// Where the process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Starting,
    Serving,
    Stopping,
}

impl Phase {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Stopping => "stopping",
        }
    }
}

/// The one place where the phase is kept.
#[derive(Clone, Debug)]
pub(super) struct Health {
    phase: watch::Sender<Phase>,
    reporter: HealthReporter,
}

impl Health {
    /// Begins with starting.
    pub(super) async fn new() -> Self {
        let health = Self {
            phase: watch::Sender::new(Phase::Starting),
            reporter: HealthReporter::new(),
        };
        health.report(ServingStatus::NotServing).await;
        health
    }

    pub(super) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// A gRPC service that tells the phase.
    pub(super) fn service(&self) -> HealthServer<HealthService> {
        HealthServer::new(HealthService::from_health_reporter(self.reporter.clone()))
    }

    pub(super) async fn serving(&self) {
        self.phase.send_replace(Phase::Serving);
        self.report(ServingStatus::Serving).await;
        systemd::ready();
    }

    pub(super) async fn stopping(&self) {
        self.phase.send_replace(Phase::Stopping);
        self.report(ServingStatus::NotServing).await;
        systemd::stopping();
    }

    /// Tells of each zone, under `zone/NAME`, whether one of its hosts can be reached.
    pub(super) async fn zones(&self, hosts: &[HostStatus]) {
        let mut zones = BTreeMap::<&str, bool>::new();
        for host in hosts {
            *zones.entry(&host.zone).or_insert(false) |= host.down.is_none();
        }
        for (zone, up) in zones {
            let status = match self.phase() {
                Phase::Serving if up => ServingStatus::Serving,
                _ => ServingStatus::NotServing,
            };
            self.reporter.set_service_status(format!("zone/{zone}"), status).await;
        }
    }

    async fn report(&self, status: ServingStatus) {
        for service in ["", SERVICE_NAME] {
            self.reporter.set_service_status(service, status).await;
        }
    }
}
