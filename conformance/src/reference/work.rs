//! Transitions, and how they end (contract §6, §12.3).

use std::{future::pending, sync::Arc, time::Duration};

use bigfleet_proto::{HostRef, MachineState as S};
use tokio::time::sleep;

use super::{
    engine::{Call, Shared},
    world::{Kind, World},
};

/// Begins the work of an accepted call.
pub(super) fn begin(shared: &Arc<Shared>, call: &Call, operation: String) {
    let (shared, call) = (Arc::clone(shared), call.clone());
    tokio::spawn(async move {
        let work = carry_out(&shared, &call);
        // Neither do those end whose failure is to hang.
        let hangs = ["no-timeout", "create-error-hangs", "drain-error-hangs"];
        let result = if hangs.iter().any(|name| shared.rules.breaks(name)) {
            Some(work.await)
        } else {
            tokio::time::timeout(shared.timeout, work).await.ok()
        };
        let late = result.is_none() && call.cluster == "fault-slow-ok";
        let result = result.unwrap_or_else(|| Err(format!("{:?} took longer than {:?}", call.kind, shared.timeout)));
        end(&shared, &call, &operation, result, false);
        if late {
            sleep(Duration::from_secs(1)).await;
            let counts = shared.rules.breaks("late-success-counts");
            end(&shared, &call, &operation, Ok(()), counts);
        }
    });
}

async fn carry_out(shared: &Shared, call: &Call) -> Result<(), String> {
    sleep(shared.delay).await;
    let rules = &shared.rules;
    let (label, cluster) = {
        let world = shared.world();
        let machine = world.machines.get(&call.id).map(|record| &record.machine);
        let label = machine.is_some_and(|machine| machine.labels.contains_key(crate::fleet::CREATE_FAULT.0));
        (
            label,
            machine.map(|machine| machine.cluster.clone()).unwrap_or_default(),
        )
    };
    match (call.kind, cluster.as_str()) {
        (Kind::Create, _) if label => match rules.breaks("create-error-hangs") {
            true => pending().await,
            false => Err("injected: the machine cannot be created".into()),
        },
        (Kind::Configure, "fault-error") if !rules.breaks("error-succeeds") => {
            Err("injected: the bootstrap failed".into())
        }
        (Kind::Configure, "fault-timeout") => pending().await,
        (Kind::Configure, "fault-slow-ok") => {
            sleep(shared.timeout + Duration::from_secs(1)).await;
            Ok(())
        }
        (Kind::Configure, "fault-readiness-block") if !rules.breaks("readiness-not-awaited") => pending().await,
        (Kind::Drain, "fault-drain-error") => match rules.breaks("drain-error-hangs") {
            true => pending().await,
            false => Err("injected: the drain failed".into()),
        },
        (Kind::Drain, _) if call.grace == 0 && rules.breaks("zero-grace-hangs") => pending().await,
        _ => {
            while shared
                .world()
                .machines
                .get(&call.id)
                .is_some_and(|record| record.caller.is_some())
            {
                sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        }
    }
}

fn end(shared: &Shared, call: &Call, operation: &str, result: Result<(), String>, whatever: bool) {
    let mut world = shared.world();
    let world = &mut *world;
    let Some(record) = world.machines.get_mut(&call.id) else {
        return;
    };
    // A result that comes after the operation was given up changes nothing (B704).
    let mine = record.running.as_ref().is_some_and(|(_, running)| running == operation);
    if !mine && !whatever {
        return;
    }
    record.running = None;
    match result {
        Err(why) => {
            record.machine.state = S::Failed.into();
            record.machine.last_error = why;
        }
        Ok(()) => settle(shared, world, call),
    }
    world.touch(&call.id);
    // What cannot be written now is written with the next change; until then a kill only makes it FAILED.
    shared.save(world).ok();
}

fn settle(shared: &Shared, world: &mut World, call: &Call) {
    let rules = &shared.rules;
    let Some(record) = world.machines.get_mut(&call.id) else {
        return;
    };
    let machine = &mut record.machine;
    machine.state = call.kind.target().into();
    machine.last_error.clear();
    match call.kind {
        Kind::Create => {
            let (provider, r#ref) = (shared.provider.clone(), format!("host-{}", call.id));
            machine.host = Some(HostRef { provider, r#ref });
        }
        Kind::Configure => {}
        Kind::Drain => {
            record.before = machine.shard_metadata.clone();
            record.drains += 1;
            if !rules.breaks("drain-keeps-cluster") {
                machine.cluster.clear();
            }
            if !rules.breaks("drain-keeps-metadata") {
                machine.shard_metadata.clear();
            }
            if record.drains > 1 && rules.breaks("residue-after-cycles") {
                machine.last_error = "what was left".into();
            }
        }
        Kind::Delete => {
            if !rules.breaks("delete-keeps-host") {
                machine.host = None;
            }
            machine.cluster.clear();
            machine.shard_metadata.clear();
            world.deletions += 1;
            if rules.breaks("fence-forgets-deleted") {
                world.marks.retain(|(_, machine), _| *machine != call.id);
            }
            if rules.breaks("delete-forgets") && world.deletions.is_multiple_of(3) {
                world.machines.remove(&call.id);
            }
        }
    }
}
