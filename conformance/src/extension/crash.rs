//! Kills in the middle of transitions (contract §6).

use std::time::Duration;

use bigfleet_proto::{Machine, MachineState as S};

use super::shape::invariant;
use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability, Lane},
    call::{Binding, free, sketch, state_name},
    client::{Answer, Client},
    context::speculative,
    expect::operation,
    launch::Start,
    outcome::{Stop, ensure, ensure_eq},
    walk::{AWAIT, bound},
};

pub(super) const ALL: &[Behaviour] = &[Behaviour::new(
    "X505",
    Area::Durability,
    [
        "A transition that a kill interrupts ends at its target or in FAILED, under its own operation id",
        "a machine that hangs in between after a restart is lost to everybody",
        "for Create, Configure, Drain and Delete: 8 calls at once, SIGKILL right after their acks, start: each \
             machine is in the transition, at its target, or FAILED with last_error; within 15 s at the target or \
             FAILED; a repeated call at the target has the id of before the kill",
    ],
    |cx| Box::pin(x505(cx)),
)
.machines(0)
.lane(Lane::Own)
.needs(Capability::Durable)
.extension()];

/// One of the four calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Create,
    Configure,
    Drain,
    Delete,
}

impl Step {
    pub(super) const ALL: [Self; 4] = [Self::Create, Self::Configure, Self::Drain, Self::Delete];

    pub(super) fn start(self) -> S {
        match self {
            Self::Create => S::Speculative,
            Self::Configure | Self::Delete => S::Idle,
            Self::Drain => S::Configured,
        }
    }

    pub(super) fn running(self) -> S {
        match self {
            Self::Create => S::Creating,
            Self::Configure => S::Configuring,
            Self::Drain => S::Draining,
            Self::Delete => S::Deleting,
        }
    }

    pub(super) fn target(self) -> S {
        match self {
            Self::Create | Self::Drain => S::Idle,
            Self::Configure => S::Configured,
            Self::Delete => S::Speculative,
        }
    }

    pub(super) async fn call(self, client: &Client, id: &str, binding: &Binding, token: &crate::call::Token) -> Answer {
        match self {
            Self::Create => client.create(id, token).await,
            Self::Configure => client.configure(id, binding, token).await,
            Self::Drain => client.drain(id, 0, token).await,
            Self::Delete => client.delete(id, token).await,
        }
    }
}

/// Waits until the machine is at rest: at the target, or FAILED.
pub(super) async fn settles(client: &Client, id: &str, step: Step) -> Outcome<Machine> {
    let end = std::time::Instant::now() + client.session.limit(AWAIT);
    loop {
        let machine = client.get(id).await?;
        invariant(&machine)?;
        let state = machine.state();
        if state == step.target() || state == S::Failed {
            return Ok(machine);
        }
        ensure!(
            state == step.running() && std::time::Instant::now() < end,
            format!("{step:?} to be under way, at its target or FAILED, and to end within 15 s"),
            sketch(&machine)
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn x505(cx: &Context) -> Outcome {
    let start = Start::new("x505").state(cx.scratch.join("x505.json"));
    let binding = Binding::to("kept").with("k", "v");
    let mut provider = cx.launch(&start).await?;
    let mut client = cx.client_of(&provider)?;
    let mut ids = speculative(&client, 8).await?;
    for step in Step::ALL {
        if step == Step::Delete {
            ids = revive(&client, &ids).await?;
        }
        let mut operations = Vec::new();
        for id in &ids {
            let answer = step.call(&client, id, &binding, &free()).await;
            if step == Step::Delete && crate::expect::is(&answer, tonic::Code::Unimplemented) {
                return Ok(());
            }
            operations.push(operation(answer, &format!("{step:?}"))?);
        }
        provider.kill();
        cx.trace_note("SIGKILL");
        provider = cx.launch(&start).await?;
        client = cx.client_of(&provider)?;
        let mut left = Vec::new();
        for (id, first) in ids.iter().zip(&operations) {
            let machine = settles(&client, id, step).await?;
            if machine.state() == S::Failed {
                continue;
            }
            if step == Step::Configure {
                bound(&machine, &binding)?;
            }
            let answer = step.call(&client, id, &binding, &free()).await;
            let again = operation(answer, &format!("a repeated {step:?}"))?;
            ensure_eq!("operation id after the kill", &again, first);
            left.push(id.clone());
        }
        ids = left;
        if ids.is_empty() {
            // All were failed by the kill, as the reference does: go on with others.
            ids = others(&client, step).await?;
        }
    }
    Ok(())
}

/// Machines in the state that the next step begins from.
async fn others(client: &Client, after: Step) -> Outcome<Vec<String>> {
    let ids = speculative(client, 8).await?;
    for id in &ids {
        client.make_idle(id).await?;
        if after == Step::Configure {
            client.bind(id, &Binding::to("kept").with("k", "v")).await?;
        }
    }
    Ok(ids)
}

/// IDLE machines for a Delete.
async fn revive(client: &Client, ids: &[String]) -> Outcome<Vec<String>> {
    for id in ids {
        let machine = client.get(id).await?;
        if machine.state() != S::Idle {
            let expected = format!("{} before a Delete", state_name(S::Idle));
            return Err(Stop::failed(expected, sketch(&machine)));
        }
    }
    Ok(ids.to_vec())
}
