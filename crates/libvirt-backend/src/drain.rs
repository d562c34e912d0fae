//! CONFIGURED to IDLE: out of the cluster, within bounds, and clean.

use std::{sync::Arc, time::Duration};

use providerkit_backend::{ClusterId, Machine, OperationId};
use tokio::time::Instant;

use crate::{
    configure::{self, Guest},
    create,
    failure::Failure,
    guest::{self, Agent, Hook, Run, Stuck},
    host::{Host, Lanes},
    name::Incarnation,
    plan::{self, Plan},
    pool::Pool,
    remove,
};

const DRAIN: &str = "/opt/bigfleet/drain";
/// What an error calls it: the hook, or our own way where the image has none.
const LEAVING: &str = "leaving the cluster";
/// Enough to see how a drain ended.
const LOOK: Duration = Duration::from_secs(15);
const NODE: &str = include_str!("guest/node.sh");

/// Has the guest leave its cluster. Says whether it did: one that is dead, or has not ended at the deadline, has to be
/// made anew.
pub(crate) async fn leave(
    lanes: &Lanes,
    provider: &str,
    machine: &Machine,
    operation: OperationId,
    grace: Duration,
    deadline: Instant,
    stuck: &Stuck,
) -> Result<Result<(), Failure>, Failure> {
    let Guest { domain, owner } = configure::guest(lanes, provider, machine).await?;
    if owner.seed_by.is_some() {
        return Ok(Err(Failure::told("its image lets nobody run its drain hook")));
    }
    let agent = Agent::new(lanes, &domain);
    let run = Run::new(agent, operation);
    let seconds = grace.as_secs().to_string();
    // The engine keeps the binding until the Drain has ended.
    let cluster = machine.cluster.clone().or_else(|| ClusterId::new("unknown").ok());
    let Some(cluster) = cluster else {
        return Ok(Ok(()));
    };
    let script = format!("if [ -x {DRAIN} ]; then exec {DRAIN} \"$1\"; fi\nset -- drain \"$1\"\n{NODE}");
    let hook = Hook {
        name: LEAVING,
        command: vec!["/bin/sh", "-c", &script, "bigfleet", &seconds],
        environment: configure::environment(machine, operation, &cluster),
    };
    stuck.on("the guest to leave its cluster");
    // A host that was away until now may have a guest that left meanwhile.
    let deadline = deadline.max(Instant::now() + LOOK);
    let left = tokio::time::timeout_at(deadline, async {
        run.start(&hook).await?;
        run.wait(&hook).await
    });
    match left.await {
        Ok(Err(failure)) if failure.is_connection() => Err(failure),
        Ok(left) => Ok(left),
        Err(_elapsed) => {
            drop(tokio::time::timeout(Duration::from_secs(10), run.stop()).await);
            Ok(Err(Failure::told(format!(
                "{LEAVING} did not end within its grace of {grace:?} and the margin after it"
            ))))
        }
    }
}

/// Removes what our own runs left in a guest that has left its cluster.
pub(crate) async fn tidy(
    lanes: &Lanes,
    provider: &str,
    machine: &Machine,
    operation: OperationId,
) -> Result<(), Failure> {
    let Guest { domain, .. } = configure::guest(lanes, provider, machine).await?;
    Run::new(Agent::new(lanes, &domain), operation).clear().await
}

/// Gives the machine a fresh disk and seed, under the same domain.
pub(crate) async fn renew(lanes: Arc<Lanes>, host: &Host, plan: &Plan, stuck: &Stuck) -> Result<guest::Guest, Failure> {
    let provider = &*plan.settings.provider;
    let machine = &plan.owner.machine;
    let found = plan::find(&lanes, &plan.name, provider, machine).await?;
    let Some((seen, owner)) = found else {
        return Err(Failure::told(format!(
            "domain `{}` is gone; it was removed by hand",
            plan.name
        )));
    };
    let fresh = plan
        .clone()
        .renewed(&owner, uuid::Uuid::from_bytes(seen.domain.uuid.0), plan.owner.disk_by);
    let domain = if owner.disk_by == fresh.owner.disk_by {
        seen.domain
    } else {
        stuck.on("the old disk to be replaced");
        remove::stop(&lanes, &seen.domain, Duration::ZERO).await?;
        fresh.define(&lanes, host).await?
    };
    // The old cluster's data goes before anybody else gets the machine.
    let pool = Pool::open(&lanes, &owner.pool).await?;
    let old = Incarnation::new(plan.name.clone(), owner.disk_by);
    let first = Incarnation::new(plan.name.clone(), owner.created_by);
    for incarnation in [old, first] {
        if incarnation != fresh.incarnation() {
            for volume in incarnation.volumes() {
                pool.delete(&volume).await?;
            }
        }
    }
    create::bring_up(lanes, host, &fresh, &domain, stuck).await
}
