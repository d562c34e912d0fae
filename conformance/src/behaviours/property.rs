//! PF: random calls against an oracle (contract §13, B12xx). The numbers come from the seed.

use std::{collections::BTreeMap, time::Duration};

use bigfleet_proto::MachineState as S;
use futures_util::future::join_all;
use tonic::Code;

use super::tokens::judge;
use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour},
    call::{Binding, Metadata, free, only},
    expect::{is, not_fenced, operation, refused, refused_with},
    outcome::{Stop, ensure_eq},
    random::Random,
    walk::{bound, clean},
};

const AREA: Area = Area::Property;

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "B1201",
        AREA,
        [
            "240 tokens are judged as the oracle judges them",
            "whoever gets one of them wrong gets a zombie wrong",
            "one machine and shard, 240 seeded tokens (replays, +-2 sequence, +-1 epoch, epoch+1 with a low sequence, \
             far points; negatives occur): first or strictly greater -> no error, else FAILED_PRECONDITION; ends at the \
             first mismatch",
        ],
        |cx| Box::pin(b1201(cx)),
    ),
    Behaviour::new(
        "B1202",
        AREA,
        [
            "Random metadata comes back verbatim and goes with the drain",
            "nobody knows what the next version of the shard writes",
            "20 rounds on one machine: 0-11 random UTF-8 entries (values of 0-23 characters, controls and astral planes \
             too), Configure within 15 s, Get and List(CONFIGURED) verbatim, cluster right; Drain 0 -> both empty",
        ],
        |cx| Box::pin(b1202(cx)),
    ),
    Behaviour::new(
        "B1203",
        AREA,
        [
            "Random calls move a machine along legal edges only",
            "the state machine is the contract",
            "5 machines x 9 random calls: a legal edge succeeds and settles within 15 s; a call at its target succeeds \
             or errs, the state held for 80 ms; other calls err, held for 80 ms; never FAILED_PRECONDITION; Delete \
             without support is UNIMPLEMENTED",
        ],
        |cx| Box::pin(b1203(cx)),
    )
    .machines(5),
    Behaviour::new(
        "B1204",
        AREA,
        [
            "Marks of shards and machines never mix",
            "a mark on the wrong pair fences an innocent or lets a zombie in",
            "4 machines x 3 shards, 200 random fenced Creates against an oracle for each pair; at last a new shard's \
             (1,1) is accepted; negatives occur",
        ],
        |cx| Box::pin(b1204(cx)),
    )
    .machines(4),
    Behaviour::new(
        "B1205",
        AREA,
        [
            "Nonsense gets the right code, and never the one for fencing",
            "FAILED_PRECONDITION pages a human",
            "4 x: empty id on Create, Configure, Drain, Get -> INVALID_ARGUMENT; unknown id on Get, Create, Configure, \
             Drain and a fenced Create with a huge token -> NOT_FOUND; once each a hugely negative grace, 400-799 \
             random keys, a random blob of 64-128 KiB, a fenced Create (1, random): anything but FAILED_PRECONDITION",
        ],
        |cx| Box::pin(b1205(cx)),
    )
    .machines(4),
];

/// Near the mark, far from it, before and after it. Whatever the seed, some are negative.
fn token(random: &mut Random, mark: Option<(i64, i64)>) -> (i64, i64) {
    let (epoch, sequence) = mark.unwrap_or((0, 0));
    match random.below(7) {
        0 => (epoch, sequence),
        1 => (epoch, sequence + random.within(-2, 2)),
        2 => (epoch + random.within(-1, 1), sequence),
        3 => (epoch + 1, random.within(-3, 3)),
        4 => (epoch + random.within(-20, 2), random.within(-1000, 1000)),
        _ => (epoch, sequence + 1),
    }
}

async fn b1201(cx: &Context) -> Outcome {
    let (id, shard, mut random) = (cx.machine()?, cx.shard(), cx.random());
    let mut mark: Option<(i64, i64)> = None;
    for _ in 0..240 {
        let at = token(&mut random, mark);
        let accepted = mark.is_none_or(|mark| at > mark);
        judge(cx, &id, &shard, at, accepted).await?;
        if accepted {
            mark = Some(at);
        }
    }
    Ok(())
}

async fn b1202(cx: &Context) -> Outcome {
    let (id, mut random) = (cx.idle().await?, cx.random());
    for round in 0..20 {
        let mut metadata = Metadata::new();
        for _ in 0..random.below(12) {
            let (key, value) = (random.below(12) + 1, random.below(24));
            metadata.insert(random.text(key), random.text(value));
        }
        let binding = Binding::to(format!("cluster-{round}")).metadata(metadata);
        cx.bind(&id, &binding).await?;
        bound(&cx.get(&id).await?, &binding)?;
        match cx.map(only(&[S::Configured])).await?.get(&id) {
            Some(machine) => bound(machine, &binding)?,
            None => {
                let expected = format!("`{id}` in List(CONFIGURED)");
                return Err(Stop::failed(expected, "it is not there"));
            }
        }
        cx.release(&id, 0).await?;
        clean(&cx.get(&id).await?, S::Idle)?;
    }
    Ok(())
}

async fn b1203(cx: &Context) -> Outcome {
    let mut random = cx.random();
    let machines = cx.all_machines().into_iter();
    let walks = machines.map(|id| wander(cx, id, random.fork()));
    join_all(walks).await.into_iter().collect()
}

async fn wander(cx: &Context, id: String, mut random: Random) -> Outcome {
    let glance = Duration::from_millis(80);
    let mut state = S::Speculative;
    for _ in 0..9 {
        let (what, start, target, answer) = match random.below(4) {
            0 => ("Create", S::Speculative, S::Idle, cx.create(&id, &free()).await),
            1 => {
                let answer = cx.configure(&id, &Binding::to("c"), &free()).await;
                ("Configure", S::Idle, S::Configured, answer)
            }
            2 => ("Drain", S::Configured, S::Idle, cx.drain(&id, 0, &free()).await),
            _ => {
                let answer = cx.delete(&id, &free()).await;
                if !cx.abilities.delete {
                    refused_with(&answer, Code::Unimplemented, "Delete without support")?;
                    cx.stays(&id, state, glance).await?;
                    continue;
                }
                ("Delete", S::Idle, S::Speculative, answer)
            }
        };
        if state == start {
            operation(answer, what)?;
            cx.reach(&id, target).await?;
            state = target;
        } else {
            let place = format!("{what} at {}", crate::call::state_name(state));
            if state == target {
                not_fenced(&answer, &place)?;
            } else {
                refused(&answer, &place)?;
            }
            cx.stays(&id, state, glance).await?;
        }
        ensure_eq!("state", cx.get(&id).await?.state(), state);
    }
    Ok(())
}

async fn b1204(cx: &Context) -> Outcome {
    let (ids, mut random) = (cx.all_machines(), cx.random());
    let shards = [cx.shard(), cx.shard(), cx.shard()];
    let mut marks = BTreeMap::new();
    for _ in 0..200 {
        let (Some(id), Some(shard)) = (random.pick(&ids), random.pick(&shards)) else {
            return Err(Stop::failed("the harness to have machines", "none"));
        };
        let mark = marks.get(&(id, shard)).copied();
        let at = token(&mut random, mark);
        let accepted = mark.is_none_or(|mark| at > mark);
        judge(cx, id, shard, at, accepted).await?;
        if accepted {
            marks.insert((id, shard), at);
        }
    }
    let id = ids.first().map_or("", String::as_str);
    judge(cx, id, &cx.shard(), (1, 1), true).await
}

async fn b1205(cx: &Context) -> Outcome {
    let (binding, mut random) = (Binding::to("c"), cx.random());
    for _ in 0..4 {
        let code = Code::InvalidArgument;
        refused_with(&cx.create("", &free()).await, code, "Create of nothing")?;
        refused_with(&cx.configure("", &binding, &free()).await, code, "Configure of nothing")?;
        refused_with(&cx.drain("", 5, &free()).await, code, "Drain of nothing")?;
        refused_with(&cx.try_get("").await, code, "Get of nothing")?;

        let (id, code) = (format!("{}-{:x}", cx.stranger(), random.next()), Code::NotFound);
        refused_with(&cx.try_get(&id).await, code, "Get of a stranger")?;
        let huge = cx.shard().at(
            i64::MAX - random.within(0, 1 << 40),
            i64::MAX - random.within(0, 1 << 40),
        );
        for (answer, what) in [
            (cx.create(&id, &free()).await, "Create of a stranger"),
            (cx.configure(&id, &binding, &free()).await, "Configure of a stranger"),
            (cx.drain(&id, 5, &free()).await, "Drain of a stranger"),
            (cx.create(&id, &huge).await, "Create of a stranger with a huge token"),
        ] {
            let tolerated = !cx.abilities.delete && is(&answer, Code::Unimplemented);
            if !tolerated {
                refused_with(&answer, code, what)?;
            }
        }
    }
    odd_arguments(cx, &mut random).await
}

async fn odd_arguments(cx: &Context, random: &mut Random) -> Outcome {
    let id = cx.configured(&Binding::to("c")).await?;
    let grace = random.within(i64::MIN, -(1 << 40));
    not_fenced(
        &cx.drain(&id, grace, &free()).await,
        "Drain with a hugely negative grace",
    )?;
    let keys = 400 + random.below(400);
    let metadata = (0..keys)
        .map(|n| (format!("{n}-{}", random.text(8)), random.text(16)))
        .collect();
    let (id, many) = (cx.idle().await?, Binding::to("c").metadata(metadata));
    not_fenced(&cx.configure(&id, &many, &free()).await, "Configure with many keys")?;
    let len = (64 << 10) + random.below(64 << 10);
    let (id, large) = (cx.idle().await?, Binding::to("c").blob(random.bytes(len)));
    not_fenced(
        &cx.configure(&id, &large, &free()).await,
        "Configure with a random blob",
    )?;
    let (id, token) = (cx.machine()?, cx.shard().at(1, random.within(0, i64::MAX)));
    not_fenced(&cx.create(&id, &token).await, "Create with a random sequence")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_seed_tokens_of_every_kind_occur() {
        for seed in 0..200 {
            let mut random = Random::of(seed, "B1201");
            let (mut mark, mut accepted, mut negative) = (None, 0, 0);
            for _ in 0..240 {
                let at = token(&mut random, mark);
                negative += usize::from(at.0 < 0 || at.1 < 0);
                if mark.is_none_or(|mark| at > mark) {
                    (mark, accepted) = (Some(at), accepted + 1);
                }
            }
            assert!((60..220).contains(&accepted), "seed {seed}: {accepted} accepted");
            assert!(negative > 5, "seed {seed}: {negative} negative");
        }
    }
}
