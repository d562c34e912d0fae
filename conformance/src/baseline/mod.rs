//! The 25 tests of the upstream baseline that look at a remote provider (contract §14). They look at states each 100 ms,
//! and an error of a Get while they wait is fatal.

mod fencing;
mod fleet;
mod lifecycle;

use std::time::{Duration, Instant};

use bigfleet_proto::{Machine, MachineState as S};

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Checking},
    call::{Binding, free, sketch, state_name},
    expect::operation,
    outcome::ensure,
};

const POLL: Duration = Duration::from_millis(100);
const SOON: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(30);

pub(crate) fn all() -> Vec<Behaviour> {
    [lifecycle::ALL, fleet::ALL, fencing::ALL].concat()
}

const fn test(id: &'static str, texts: [&'static str; 3], run: for<'a> fn(&'a Context) -> Checking<'a>) -> Behaviour {
    Behaviour::new(id, Area::Baseline, texts, run).profiles(&[])
}

/// Waits for a state as the baseline does.
async fn await_state(cx: &Context, id: &str, state: S, limit: Duration) -> Outcome<Machine> {
    let (began, limit) = (Instant::now(), cx.session().limit(limit));
    loop {
        let machine = cx.get(id).await?;
        if machine.state() == state {
            return Ok(machine);
        }
        ensure!(
            began.elapsed() < limit,
            format!("`{id}` to be {} within {limit:?}", state_name(state)),
            sketch(&machine)
        );
        tokio::time::sleep(cx.session().pace(POLL)).await;
    }
}

async fn idle(cx: &Context) -> Outcome<String> {
    let id = cx.machine()?;
    operation(cx.create(&id, &free()).await, "Create")?;
    await_state(cx, &id, S::Idle, SOON).await?;
    Ok(id)
}

async fn configured(cx: &Context, binding: &Binding) -> Outcome<String> {
    let id = idle(cx).await?;
    operation(cx.configure(&id, binding, &free()).await, "Configure")?;
    await_state(cx, &id, S::Configured, SOON).await?;
    Ok(id)
}
