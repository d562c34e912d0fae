//! SC: a fleet of thousands (contract §13, B11xx).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use bigfleet_proto::{ListFilter, MachineState as S};
use bytes::Bytes;
use tokio::task::JoinSet;

use super::sound;
use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability, Lane, Profile},
    call::{Binding, free, page, since, sketch},
    expect::{distinct, operation},
    latency::nearest_rank,
    outcome::{Stop, ensure, ensure_eq},
    walk::{TRANSITIONAL, by_id, clean},
};

const fn scale(
    id: &'static str,
    texts: [&'static str; 3],
    run: for<'a> fn(&'a Context) -> crate::behaviour::Checking<'a>,
) -> Behaviour {
    Behaviour::new(id, Area::Scale, texts, run)
        .profiles(&[Profile::Scale])
        .needs(Capability::Scale)
        .lane(Lane::Scale)
}

pub(super) const ALL: &[Behaviour] = &[
    scale(
        "B1101",
        [
            "Every record of a large fleet is sound",
            "one bad record in thousands spoils the whole list for the shard",
            "the full list has at least as many records as seeded; each has id, state, instance_type, zone, \
             capacity_type, and a price and probability as B802 wants them",
        ],
        |cx| Box::pin(b1101(cx)),
    )
    .machines(0),
    scale(
        "B1102",
        [
            "A delta costs what changed, not what exists",
            "the shard polls every 10 s, and more often when busy",
            "20 idle machines, a cursor, 20 Configures (1 key) awaited within 30 s each: the delta is exactly those 20",
        ],
        |cx| Box::pin(b1102(cx)),
    )
    .machines(20)
    .alone(),
    scale(
        "B1103",
        [
            "Pages of 500 cover a large fleet",
            "a machine that no page has is deleted by the shard",
            "full list = truth; a page of 500 from no cursor: at most 500, a subset, no duplicates; the page from its \
             cursor is disjoint; if it has new members, threading covers all within N/500 + 8 pages",
        ],
        |cx| Box::pin(b1103(cx)),
    )
    .machines(0)
    .alone(),
    scale(
        "B1104",
        [
            "Cycles leave nothing behind",
            "what is left a little at a time shows after a week",
            "8 machines, for the soak time: Configure all, await, Drain 0 all, await (within 30 s each); clean at each \
             IDLE; at least one cycle",
        ],
        |cx| Box::pin(b1104(cx)),
    )
    .machines(8),
    scale(
        "B1105",
        [
            "What is created and deleted adds up",
            "capacity that leaks is paid for and never used",
            "for the soak time: walk one to idle, delete it back (with Delete, within 30 s); resident = created - \
             deleted at each step; the same fleet size before and after",
        ],
        |cx| Box::pin(b1105(cx)),
    )
    .machines(0),
    scale(
        "B1106",
        [
            "Calls are answered within their budgets",
            "the shard's actions have 30 s in all, and its List 10 s",
            "sequential client, p99 by nearest rank: 120 Gets of one id within 250 ms, 120 full Lists within 2 s, 60 \
             Creates within 250 ms",
        ],
        |cx| Box::pin(b1106(cx)),
    )
    .machines(60)
    .alone(),
    scale(
        "B1107",
        [
            "A full list of a large fleet takes at most 3 s",
            "the shard gives up after 10 s and goes on with its old view",
            "a second full list has at least as many records as seeded, within 3 s",
        ],
        |cx| Box::pin(b1107(cx)),
    )
    .machines(0)
    .alone(),
    scale(
        "B1108",
        [
            "16 machines are created at once",
            "a shard executes up to 256 actions side by side",
            "16 parallel Creates on distinct machines: no error, ids distinct and not empty, all IDLE within 30 s",
        ],
        |cx| Box::pin(b1108(cx)),
    )
    .machines(16),
    scale(
        "B1109",
        [
            "Idle machines rest, however large the fleet",
            "a background job that touches a stable machine breaks it sooner or later",
            "8 idle machines looked at each 20 ms for a quarter of the soak time (0.5 to 3 s): never transitional, never \
             FAILED",
        ],
        |cx| Box::pin(b1109(cx)),
    )
    .machines(8),
];

const LONG: Duration = Duration::from_secs(30);

async fn b1101(cx: &Context) -> Outcome {
    let fleet = cx.fleet().await?;
    let seeded = cx.sizes.scale_seed;
    ensure!(
        fleet.len() >= seeded,
        format!("at least {seeded} machines"),
        fleet.len()
    );
    fleet.values().try_for_each(sound)
}

async fn b1102(cx: &Context) -> Outcome {
    if !cx.abilities.revisions {
        return Err(Stop::skipped("the provider has no cursors"));
    }
    let ids = cx.idles().await?;
    let cursor = cx.revision().await?;
    for id in &ids {
        let answer = cx.configure(id, &Binding::to("c").with("k", "v"), &free()).await;
        operation(answer, "Configure")?;
    }
    for id in &ids {
        cx.reach_within(id, S::Configured, LONG).await?;
    }
    let delta: BTreeSet<String> = cx.map(since(cursor)).await?.into_keys().collect();
    let wanted: BTreeSet<String> = ids.into_iter().collect();
    let missing = wanted.difference(&delta).count();
    ensure!(
        delta == wanted,
        "a delta of exactly the 20 machines",
        format!("{} machines, {missing} of the 20 missing", delta.len())
    );
    Ok(())
}

async fn b1103(cx: &Context) -> Outcome {
    let truth: BTreeSet<String> = cx.fleet().await?.into_keys().collect();
    let (mut cursor, mut seen) = (Bytes::new(), BTreeSet::new());
    for number in 0..truth.len() / 500 + 8 {
        let list = cx.list(page(500, cursor.clone())).await?;
        let (revision, machines) = (list.revision, by_id(list.machines)?);
        ensure!(machines.len() <= 500, "at most 500 machines a page", machines.len());
        let strange = machines.keys().find(|id| !truth.contains(*id));
        ensure!(
            strange.is_none(),
            "only machines of the full list",
            format!("{strange:?}")
        );
        let again = machines.keys().find(|id| seen.contains(*id));
        ensure!(again.is_none(), "disjoint pages", format!("{again:?} twice"));
        let ended = machines.is_empty() || revision == cursor;
        seen.extend(machines.into_keys());
        cursor = revision;
        if ended && number == 1 {
            return Ok(());
        }
        if ended || seen.len() == truth.len() {
            break;
        }
    }
    ensure_eq!("machines on all pages", seen.len(), truth.len());
    Ok(())
}

async fn b1104(cx: &Context) -> Outcome {
    let ids = cx.idles().await?;
    let end = Instant::now() + cx.sizes.soak;
    loop {
        for id in &ids {
            let answer = cx.configure(id, &Binding::to("c").with("k", "v"), &free()).await;
            operation(answer, "Configure")?;
        }
        for id in &ids {
            cx.reach_within(id, S::Configured, LONG).await?;
        }
        for id in &ids {
            operation(cx.drain(id, 0, &free()).await, "Drain")?;
        }
        for id in &ids {
            clean(&cx.reach_within(id, S::Idle, LONG).await?, S::Idle)?;
        }
        if Instant::now() > end {
            return Ok(());
        }
    }
}

async fn b1105(cx: &Context) -> Outcome {
    let size = cx.fleet().await?.len();
    let end = Instant::now() + cx.sizes.soak;
    let (mut mine, mut created, mut deleted) = (BTreeMap::new(), 0, 0);
    while created == 0 || Instant::now() < end {
        let id = cx.another().await?;
        cx.make_idle(&id).await?;
        created += 1;
        if cx.abilities.delete {
            operation(cx.delete(&id, &free()).await, "Delete")?;
            cx.reach_within(&id, S::Speculative, LONG).await?;
            deleted += 1;
        }
        mine.insert(id, ());
        let mut resident = 0;
        for id in mine.keys() {
            resident += usize::from(cx.get(id).await?.state() == S::Idle);
        }
        ensure_eq!(
            "machines that were created and not deleted",
            resident,
            created - deleted
        );
    }
    ensure_eq!("the fleet's size", cx.fleet().await?.len(), size);
    Ok(())
}

/// The latency that 99 of 100 calls do not exceed.
fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    nearest_rank(&times, 99).copied().unwrap_or_default()
}

fn within(what: &str, times: Vec<Duration>, budget: Duration) -> Outcome {
    let p99 = p99(times);
    ensure!(
        p99 <= budget,
        format!("p99 of {what} within {budget:?}"),
        format!("{p99:?}")
    );
    Ok(())
}

async fn b1106(cx: &Context) -> Outcome {
    let ids = cx.all_machines();
    let (mut gets, mut lists, mut creates) = (Vec::new(), Vec::new(), Vec::new());
    let first = ids.first().map_or("", String::as_str);
    for _ in 0..120 {
        let began = Instant::now();
        cx.get(first).await?;
        gets.push(began.elapsed());
    }
    for _ in 0..120 {
        let began = Instant::now();
        cx.list(ListFilter::default()).await?;
        lists.push(began.elapsed());
    }
    for id in &ids {
        let began = Instant::now();
        operation(cx.create(id, &free()).await, "Create")?;
        creates.push(began.elapsed());
    }
    within("Get", gets, Duration::from_millis(250))?;
    within("List", lists, Duration::from_secs(2))?;
    within("Create", creates, Duration::from_millis(250))
}

async fn b1107(cx: &Context) -> Outcome {
    cx.list(ListFilter::default()).await?;
    let began = Instant::now();
    let count = cx.list(ListFilter::default()).await?.machines.len();
    let (took, seeded) = (began.elapsed(), cx.sizes.scale_seed);
    ensure!(count >= seeded, format!("at least {seeded} machines"), count);
    ensure!(
        took <= Duration::from_secs(3),
        "a full list within 3 s",
        format!("{took:?}")
    );
    Ok(())
}

async fn b1108(cx: &Context) -> Outcome {
    let ids = cx.all_machines();
    let mut calls = JoinSet::new();
    for id in ids.clone() {
        let client = cx.client.clone();
        calls.spawn(async move { client.create(&id, &free()).await });
    }
    let mut operations = Vec::new();
    for answer in calls.join_all().await {
        operations.push(operation(answer, "each of 16 parallel Creates")?);
    }
    distinct(&operations, "16 parallel Creates")?;
    for id in &ids {
        cx.reach_within(id, S::Idle, LONG).await?;
    }
    Ok(())
}

async fn b1109(cx: &Context) -> Outcome {
    let ids = cx.idles().await?;
    let window = (cx.sizes.soak / 4).clamp(Duration::from_millis(500), Duration::from_secs(3));
    let end = Instant::now() + window;
    while Instant::now() < end {
        for id in &ids {
            let machine = cx.get(id).await?;
            let rests = !TRANSITIONAL.contains(&machine.state()) && machine.state() != S::Failed;
            ensure!(rests, "idle machines at rest", sketch(&machine));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
