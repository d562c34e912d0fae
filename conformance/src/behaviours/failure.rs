//! TF: what fails, fails for good and says why (contract §6). Checked on a provider that fails on demand, whose
//! transitions may take 2 s.

use std::time::Duration;

use bigfleet_proto::{Machine, MachineState as S};

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability, Lane, MachineKind, Profile},
    call::{Binding, free, only, sketch},
    expect::{operation, refused},
    outcome::{Stop, ensure, ensure_eq},
};

const fn fault(
    id: &'static str,
    texts: [&'static str; 3],
    run: for<'a> fn(&'a Context) -> crate::behaviour::Checking<'a>,
) -> Behaviour {
    Behaviour::new(id, Area::Failure, texts, run)
        .profiles(&[Profile::Fault])
        .needs(Capability::Fault)
        .lane(Lane::Fault)
}

pub(super) const ALL: &[Behaviour] = &[
    fault(
        "B701",
        [
            "A Configure that fails ends in FAILED and says why",
            "a machine that hangs in CONFIGURING counts as capacity that never comes",
            "Configure onto the erring cluster accepted -> FAILED within 7 s with last_error; no CONFIGURING for 300 ms",
        ],
        |cx| Box::pin(b701(cx)),
    ),
    fault(
        "B702",
        [
            "A Create that fails ends in FAILED and says why",
            "a machine that hangs in CREATING counts as capacity that never comes",
            "Create of a machine whose Create errs accepted -> FAILED within 7 s with last_error; no CREATING for 300 ms",
        ],
        |cx| Box::pin(b702(cx)),
    )
    .kind(MachineKind::CreateFails),
    fault(
        "B703",
        [
            "A transition that takes too long ends in FAILED",
            "without a limit one lost host keeps a machine in between for ever",
            "Configure that blocks, limit 2 s -> FAILED within 5 s with last_error",
        ],
        |cx| Box::pin(b703(cx)),
    ),
    fault(
        "B704",
        [
            "A success that comes too late is thrown away",
            "a machine that rises from FAILED is on no edge the shard knows",
            "Configure that succeeds after its limit -> FAILED within 5 s; 4 s later still FAILED with last_error",
        ],
        |cx| Box::pin(b704(cx)),
    ),
    fault(
        "B705",
        [
            "No call leads out of FAILED",
            "a retry on a broken host breaks the next workload",
            "FAILED; another Configure is refused, not with FAILED_PRECONDITION; state FAILED, the same last_error",
        ],
        |cx| Box::pin(b705(cx)),
    ),
    fault(
        "B706",
        [
            "A Drain that fails ends in FAILED or IDLE, not in between",
            "a machine that drains for ever is neither used nor freed",
            "configured so that Drain errs; Drain 0 accepted; within 7 s FAILED with last_error or IDLE; no DRAINING for \
             300 ms after",
        ],
        |cx| Box::pin(b706(cx)),
    ),
    fault(
        "B707",
        [
            "FAILED machines stay in the inventory and keep their words",
            "a machine that is missing from a list is deleted by the shard, bound or not",
            "3 Gets and List(FAILED) show FAILED and the same last_error, not empty",
        ],
        |cx| Box::pin(b707(cx)),
    ),
    fault(
        "B708",
        [
            "CONFIGURED is said only of a node that is Ready",
            "workloads wait on a node that never joined (ADR-0056)",
            "Configure whose node never becomes Ready: for 1.5 s never CONFIGURED; FAILED within 7 s with last_error",
        ],
        |cx| Box::pin(b708(cx)),
    ),
];

const SOON: Duration = Duration::from_secs(7);
const TIMED_OUT: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(300);

fn explained(machine: &Machine) -> Outcome {
    let explained = machine.state() == S::Failed && !machine.last_error.is_empty();
    ensure!(explained, "FAILED with a last_error", sketch(machine));
    Ok(())
}

/// Configures an idle machine onto a cluster that fails it.
async fn broken(cx: &Context, cluster: &str, limit: Duration) -> Outcome<Machine> {
    let id = cx.idle().await?;
    let answer = cx.configure(&id, &Binding::to(cluster), &free()).await;
    operation(answer, "Configure")?;
    let machine = cx.reach_within(&id, S::Failed, limit).await?;
    explained(&machine)?;
    Ok(machine)
}

async fn b701(cx: &Context) -> Outcome {
    let machine = broken(cx, &cx.fault.error, SOON).await?;
    cx.never(&machine.id, &[S::Configuring], GLANCE).await
}

async fn b702(cx: &Context) -> Outcome {
    let id = cx.machine()?;
    operation(cx.create(&id, &free()).await, "Create")?;
    explained(&cx.reach_within(&id, S::Failed, SOON).await?)?;
    cx.never(&id, &[S::Creating], GLANCE).await
}

async fn b703(cx: &Context) -> Outcome {
    broken(cx, &cx.fault.timeout, TIMED_OUT).await.map(drop)
}

async fn b704(cx: &Context) -> Outcome {
    let machine = broken(cx, &cx.fault.slow_ok, TIMED_OUT).await?;
    // The late success comes within this.
    tokio::time::sleep(Duration::from_secs(4)).await;
    explained(&cx.get(&machine.id).await?)
}

async fn b705(cx: &Context) -> Outcome {
    let machine = broken(cx, &cx.fault.error, SOON).await?;
    let answer = cx.configure(&machine.id, &Binding::to("another"), &free()).await;
    refused(&answer, "Configure at FAILED")?;
    let after = cx.get(&machine.id).await?;
    explained(&after)?;
    ensure_eq!("last_error", after.last_error, machine.last_error);
    Ok(())
}

async fn b706(cx: &Context) -> Outcome {
    let id = cx.configured(&Binding::to(&cx.fault.drain_error)).await?;
    operation(cx.drain(&id, 0, &free()).await, "Drain")?;
    let end = std::time::Instant::now() + cx.session().limit(SOON);
    loop {
        let machine = cx.get(&id).await?;
        match machine.state() {
            S::Failed => {
                explained(&machine)?;
                break;
            }
            S::Idle => break,
            _ => ensure!(
                std::time::Instant::now() < end,
                "FAILED or IDLE within 7 s",
                sketch(&machine)
            ),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    cx.never(&id, &[S::Draining], GLANCE).await
}

async fn b707(cx: &Context) -> Outcome {
    let machine = broken(cx, &cx.fault.error, SOON).await?;
    for _ in 0..3 {
        let again = cx.get(&machine.id).await?;
        explained(&again)?;
        ensure_eq!("last_error", again.last_error, machine.last_error);
    }
    let listed = cx.map(only(&[S::Failed])).await?;
    let Some(listed) = listed.get(&machine.id) else {
        return Err(Stop::failed(
            format!("`{}` in List(FAILED)", machine.id),
            "it is not there",
        ));
    };
    explained(listed)?;
    ensure_eq!("last_error in List(FAILED)", listed.last_error, machine.last_error);
    Ok(())
}

async fn b708(cx: &Context) -> Outcome {
    let id = cx.idle().await?;
    let answer = cx
        .configure(&id, &Binding::to(&cx.fault.readiness_block), &free())
        .await;
    operation(answer, "Configure")?;
    cx.never(&id, &[S::Configured], Duration::from_millis(1500)).await?;
    explained(&cx.reach_within(&id, S::Failed, SOON).await?)
}
