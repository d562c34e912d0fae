//! LC: the life of a machine (contract §2, §7).

use std::time::Duration;

use bigfleet_proto::{Machine, MachineState as S};

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability, Profile},
    call::{Binding, free, host_of, sketch, state_name},
    expect::operation,
    outcome::{Stop, ensure, ensure_eq},
    walk::{TRANSITIONAL, clean},
};

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "B101",
        Area::Lifecycle,
        [
            "Configure and Drain can be repeated, and every cycle leaves a clean IDLE machine",
            "what is left of one cluster on a machine reaches the next one",
            "one idle machine, checked clean, then 4 x (Configure with 2 metadata keys -> CONFIGURED within 15 s with \
             its cluster, Drain grace 5 -> IDLE within 15 s); after each: no cluster, no metadata, no last_error",
        ],
        |cx| Box::pin(b101(cx)),
    ),
    Behaviour::new(
        "B103",
        Area::Lifecycle,
        [
            "Configure passes through CONFIGURING only and ends CONFIGURED",
            "the shard drops what does not come along a legal edge, and never learns of the end",
            "idle -> Configure; a look each 1 ms until CONFIGURED (within 15 s): every transitional state seen is \
             CONFIGURING. Seeing none is fine",
        ],
        |cx| Box::pin(b103(cx)),
    ),
    Behaviour::new(
        "B104",
        Area::Lifecycle,
        [
            "Drain passes through DRAINING only and ends IDLE",
            "the shard drops what does not come along a legal edge, and never learns of the end",
            "configured -> Drain grace 5; a look each 1 ms until IDLE (within 15 s): every transitional state seen is \
             DRAINING",
        ],
        |cx| Box::pin(b104(cx)),
    ),
    Behaviour::new(
        "B105",
        Area::Lifecycle,
        [
            "A whole life takes only legal steps, from SPECULATIVE on",
            "an illegal step is dropped by the shard at every cycle, for ever",
            "Create, Configure, Drain 5 on a fresh machine; three 1 ms traces joined without repeats start at \
             SPECULATIVE, and each step is an edge of the state machine or jumps over one transitional state",
        ],
        |cx| Box::pin(b105(cx)),
    ),
    Behaviour::new(
        "B106",
        Area::Lifecycle,
        [
            "The cluster is set from CONFIGURING on and empty again after the drain",
            "a bound machine without its cluster is rejected by the shard and lost to it",
            "no cluster at IDLE; looks each 1 ms during Configure: set in every CONFIGURING sample; as asked at \
             CONFIGURED; empty after Drain",
        ],
        |cx| Box::pin(b106(cx)),
    ),
    Behaviour::new(
        "B107",
        Area::Lifecycle,
        [
            "A machine has a host exactly from IDLE on, and rests in stable states only",
            "a Create acknowledged with a host, or an IDLE machine without one, fails that machine in the shard for good",
            "the seed is SPECULATIVE without host; IDLE, CONFIGURED and IDLE after the drain have one",
        ],
        |cx| Box::pin(b107(cx)),
    ),
    Behaviour::new(
        "B108",
        Area::Lifecycle,
        [
            "A stable machine moves only when it is told to",
            "a machine that wanders off takes workloads with it",
            "configured: stays CONFIGURED for 300 ms, then 4 x 300 ms never in each transitional state; Drain; the same \
             at IDLE",
        ],
        |cx| Box::pin(b108(cx)),
    ),
    Behaviour::new(
        "B109",
        Area::Lifecycle,
        [
            "Delete passes through DELETING only and ends SPECULATIVE without a host",
            "capacity that is given back and keeps a host is paid for and never used",
            "idle -> Delete; a look each 1 ms until SPECULATIVE (within 15 s): every transitional state seen is \
             DELETING; no host at the end",
        ],
        |cx| Box::pin(b109(cx)),
    )
    .profiles(&[Profile::Core, Profile::Cloud])
    .needs(Capability::Delete),
];

/// No transitional state but one may have been seen on the way.
fn only_through(trace: &[Machine], allowed: S, last: S) -> Outcome {
    for machine in trace {
        let state = machine.state();
        let fits = !TRANSITIONAL.contains(&state) || state == allowed;
        let expected = format!("no transitional state but {}", state_name(allowed));
        ensure!(fits && state != S::Failed, expected, sketch(machine));
    }
    ensure_eq!("the last state", trace.last().map(Machine::state), Some(last));
    Ok(())
}

async fn b101(cx: &Context) -> Outcome {
    let id = cx.machine()?;
    clean(&cx.make_idle(&id).await?, S::Idle)?;
    for cycle in 0..4 {
        let cluster = format!("cluster-{cycle}");
        let binding = Binding::to(&cluster).with("a", "1").with("b", cluster.as_str());
        cx.bind(&id, &binding).await?;
        ensure_eq!("cluster", cx.get(&id).await?.cluster, cluster);
        cx.release(&id, 5).await?;
        clean(&cx.get(&id).await?, S::Idle)?;
    }
    Ok(())
}

async fn b103(cx: &Context) -> Outcome {
    let id = cx.idle().await?;
    operation(cx.configure(&id, &Binding::to("c"), &free()).await, "Configure")?;
    only_through(&cx.trace(&id, S::Configured).await?, S::Configuring, S::Configured)
}

async fn b104(cx: &Context) -> Outcome {
    let id = cx.configured(&Binding::to("c")).await?;
    operation(cx.drain(&id, 5, &free()).await, "Drain")?;
    only_through(&cx.trace(&id, S::Idle).await?, S::Draining, S::Idle)
}

async fn b105(cx: &Context) -> Outcome {
    let id = cx.machine()?;
    let mut seen = vec![cx.get(&id).await?.state()];
    operation(cx.create(&id, &free()).await, "Create")?;
    seen.extend(cx.trace(&id, S::Idle).await?.iter().map(Machine::state));
    operation(cx.configure(&id, &Binding::to("c"), &free()).await, "Configure")?;
    seen.extend(cx.trace(&id, S::Configured).await?.iter().map(Machine::state));
    operation(cx.drain(&id, 5, &free()).await, "Drain")?;
    seen.extend(cx.trace(&id, S::Idle).await?.iter().map(Machine::state));
    seen.dedup();
    ensure_eq!("the first state", seen.first(), Some(&S::Speculative));
    for (from, to) in seen.iter().zip(seen.iter().skip(1)) {
        let legal = matches!(
            (from, to),
            (S::Speculative, S::Creating | S::Idle)
                | (S::Creating | S::Draining, S::Idle)
                | (S::Idle, S::Configuring | S::Configured)
                | (S::Configuring, S::Configured)
                | (S::Configured, S::Draining | S::Idle)
        );
        let step = format!("{} -> {} in {seen:?}", state_name(*from), state_name(*to));
        ensure!(legal, "only legal steps", step);
    }
    Ok(())
}

async fn b106(cx: &Context) -> Outcome {
    let id = cx.machine()?;
    ensure_eq!("cluster at IDLE", cx.make_idle(&id).await?.cluster, "");
    operation(cx.configure(&id, &Binding::to("blue"), &free()).await, "Configure")?;
    let trace = cx.trace(&id, S::Configured).await?;
    for machine in trace.iter().filter(|machine| machine.state() == S::Configuring) {
        ensure!(!machine.cluster.is_empty(), "a cluster at CONFIGURING", sketch(machine));
    }
    let cluster = trace.last().map(|machine| machine.cluster.as_str());
    ensure_eq!("cluster at CONFIGURED", cluster, Some("blue"));
    cx.release(&id, 5).await?;
    ensure_eq!("cluster after Drain", cx.get(&id).await?.cluster, "");
    Ok(())
}

async fn b107(cx: &Context) -> Outcome {
    let id = cx.machine()?;
    let seed = cx.get(&id).await?;
    ensure!(
        seed.state() == S::Speculative && host_of(&seed).is_none(),
        "a SPECULATIVE machine without host",
        sketch(&seed)
    );
    let hosted = |machine: &Machine| match host_of(machine) {
        Some(_) => Ok(()),
        None => Err(Stop::failed("a host from IDLE on", sketch(machine))),
    };
    hosted(&cx.make_idle(&id).await?)?;
    cx.bind(&id, &Binding::to("c")).await?;
    hosted(&cx.get(&id).await?)?;
    cx.release(&id, 5).await?;
    hosted(&cx.get(&id).await?)
}

async fn b108(cx: &Context) -> Outcome {
    let window = Duration::from_millis(300);
    let id = cx.configured(&Binding::to("c")).await?;
    for state in [S::Configured, S::Idle] {
        cx.stays(&id, state, window).await?;
        for transitional in TRANSITIONAL {
            cx.never(&id, &[transitional], window).await?;
        }
        ensure_eq!("state", cx.get(&id).await?.state(), state);
        if state == S::Configured {
            cx.release(&id, 5).await?;
        }
    }
    Ok(())
}

async fn b109(cx: &Context) -> Outcome {
    let id = cx.idle().await?;
    operation(cx.delete(&id, &free()).await, "Delete")?;
    let trace = cx.trace(&id, S::Speculative).await?;
    only_through(&trace, S::Deleting, S::Speculative)?;
    if let Some(last) = trace.last() {
        ensure!(host_of(last).is_none(), "no host at SPECULATIVE", sketch(last));
    }
    Ok(())
}
