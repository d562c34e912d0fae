//! LR: List, its filters and its cursors (contract §9).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use bigfleet_proto::{ListFilter, MachineState as S};
use bytes::Bytes;

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability},
    call::{Binding, capped, only, page, since, state_name},
    outcome::{ensure, ensure_eq},
    walk::by_id,
};

const AREA: Area = Area::Lists;

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "B901",
        AREA,
        [
            "A filtered list has exactly the states asked for",
            "the shard decides by them what it may use",
            "each of 8 single-state lists only has that state; with one idle and one configured added, List(SPECULATIVE, \
             IDLE, CONFIGURED) equals the union of the singles (machines that changed in between excused), no duplicates",
        ],
        |cx| Box::pin(b901(cx)),
    )
    .alone()
    .machines(2),
    Behaviour::new(
        "B902",
        AREA,
        [
            "max_results is a ceiling, and 0 is none",
            "a page larger than asked for breaks the reader, an empty one stops it",
            "max 1, 2, 3: never more, at least 1, a subset of the full list, no duplicates; max 0: as many as the full list",
        ],
        |cx| Box::pin(b902(cx)),
    )
    .machines(0),
    Behaviour::new(
        "B903",
        AREA,
        [
            "The revision moves with a change, and the delta has it",
            "a change that no delta carries is never seen by an incremental shard",
            "revision not empty; another after a walk to idle; the delta since the old one has the machine, no duplicates",
        ],
        |cx| Box::pin(b903(cx)),
    )
    .alone()
    .needs(Capability::SinceRevision),
    Behaviour::new(
        "B904",
        AREA,
        [
            "Nothing changed is an empty delta",
            "a delta of everything at every poll is a full list with extra steps",
            "the delta since the current revision is empty",
        ],
        |cx| Box::pin(b904(cx)),
    )
    .alone()
    .needs(Capability::SinceRevision),
    Behaviour::new(
        "B905",
        AREA,
        [
            "An older cursor has everything that changed since",
            "a shard that was away must miss nothing",
            "4 machines walked to idle one by one, another revision each time; the delta since each earlier cursor has \
             all later ones",
        ],
        |cx| Box::pin(b905(cx)),
    )
    .alone()
    .machines(4)
    .needs(Capability::SinceRevision),
    Behaviour::new(
        "B906",
        AREA,
        [
            "What is no cursor lists everything",
            "an error here stops the shard's every cycle",
            "cursor unset, empty, an ASCII word, 5 binary bytes, 4096 x 0xDE: no error, every machine present",
        ],
        |cx| Box::pin(b906(cx)),
    )
    .machines(0),
    Behaviour::new(
        "B907",
        AREA,
        [
            "Pages of a delta are disjoint and cover it",
            "a machine between two pages is lost to the reader",
            "5 machines walked to idle after a base cursor; the uncapped delta has all 5; a page of 2 has at most 2, a \
             subset; the page from its cursor is disjoint; if that has new members, threading (at most 64 pages) covers \
             all 5",
        ],
        |cx| Box::pin(b907(cx)),
    )
    .machines(5)
    .alone()
    .needs(Capability::SinceRevision),
    Behaviour::new(
        "B908",
        AREA,
        [
            "The delta stays empty while nothing happens",
            "background work that moves the revision wakes every shard for nothing",
            "no mutation: the delta since an anchor is empty at every poll, each 50 ms over 750 ms",
        ],
        |cx| Box::pin(b908(cx)),
    )
    .machines(0)
    .alone()
    .needs(Capability::SinceRevision),
    Behaviour::new(
        "B909",
        AREA,
        [
            "A spoiled cursor lists everything, an exact one nothing",
            "half of a cursor that is taken for another hides changes",
            "the exact cursor -> empty; with ! appended, ~ before, 0x00 0xFF appended -> the whole fleet; last bit \
             flipped -> no error, a subset of the fleet, no duplicates",
        ],
        |cx| Box::pin(b909(cx)),
    )
    .alone()
    .needs(Capability::SinceRevision),
];

async fn ids(cx: &Context, filter: ListFilter) -> Outcome<BTreeSet<String>> {
    Ok(cx.map(filter).await?.into_keys().collect())
}

fn has_all(what: &str, seen: &BTreeSet<String>, wanted: &BTreeSet<String>) -> Outcome {
    let missing: Vec<_> = wanted.difference(seen).take(5).collect();
    ensure!(
        missing.is_empty(),
        format!("{what} to have all {} machines", wanted.len()),
        format!("{} machines, without {missing:?}", seen.len())
    );
    Ok(())
}

fn subset(what: &str, seen: &BTreeSet<String>, of: &BTreeSet<String>) -> Outcome {
    let strange: Vec<_> = seen.difference(of).take(5).collect();
    ensure!(
        strange.is_empty(),
        format!("{what} to have no other machines"),
        format!("{strange:?}")
    );
    Ok(())
}

async fn b901(cx: &Context) -> Outcome {
    let idle = cx.idle().await?;
    let configured = cx.configured(&Binding::to("c")).await?;
    let wanted = [S::Speculative, S::Idle, S::Configured];
    let before = cx.fleet().await?;
    let mut union = BTreeSet::new();
    for state in (1..=8).filter_map(|number| S::try_from(number).ok()) {
        for machine in cx.map(only(&[state])).await?.into_values() {
            ensure!(
                machine.state() == state,
                format!("only {} machines", state_name(state)),
                crate::call::sketch(&machine)
            );
            if wanted.contains(&state) {
                union.insert(machine.id);
            }
        }
    }
    let several = ids(cx, only(&wanted)).await?;
    let after = cx.fleet().await?;
    // What moved while we looked may be in one and not in the other.
    let moved = |id: &String| {
        before.get(id) != after.get(id) || after.get(id).is_none_or(|machine| !wanted.contains(&machine.state()))
    };
    let differ: Vec<_> = several.symmetric_difference(&union).filter(|id| !moved(id)).collect();
    ensure!(
        differ.is_empty(),
        "List(SPECULATIVE, IDLE, CONFIGURED) to equal the union of the singles",
        format!("{differ:?} in only one of them")
    );
    has_all(
        "List(SPECULATIVE, IDLE, CONFIGURED)",
        &several,
        &BTreeSet::from([idle, configured]),
    )
}

async fn b902(cx: &Context) -> Outcome {
    let all = ids(cx, ListFilter::default()).await?;
    for max in 1..=3 {
        let some = ids(cx, capped(max)).await?;
        let fits = (1..=max).contains(&i32::try_from(some.len()).unwrap_or(i32::MAX));
        ensure!(fits, format!("1 to {max} machines"), some.len());
        subset("a capped list", &some, &all)?;
    }
    let uncapped = ids(cx, capped(0)).await?;
    ensure_eq!("machines with max 0", uncapped.len(), all.len());
    Ok(())
}

async fn b903(cx: &Context) -> Outcome {
    let before = cx.revision().await?;
    ensure!(!before.is_empty(), "a revision", "an empty one");
    let id = cx.idle().await?;
    ensure!(cx.revision().await? != before, "another revision", "the same");
    has_all("the delta", &ids(cx, since(before)).await?, &BTreeSet::from([id]))
}

/// Waits until nothing changes any more: others were here before, and may have left work in the background.
async fn settled(cx: &Context) -> Outcome<Bytes> {
    let (began, limit) = (Instant::now(), cx.session().limit(crate::walk::AWAIT));
    let mut revision = cx.revision().await?;
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let list = cx.list(ListFilter::default()).await?;
        let moving = list
            .machines
            .iter()
            .any(|machine| crate::walk::TRANSITIONAL.contains(&machine.state()));
        if list.revision == revision && !moving {
            return Ok(revision);
        }
        ensure!(began.elapsed() < limit, "a fleet at rest", "it goes on changing");
        revision = list.revision;
    }
}

async fn b904(cx: &Context) -> Outcome {
    settled(cx).await?;
    cx.idle().await?;
    let revision = cx.revision().await?;
    let delta = ids(cx, since(revision)).await?;
    ensure!(delta.is_empty(), "an empty delta", format!("{delta:?}"));
    Ok(())
}

async fn b905(cx: &Context) -> Outcome {
    let mut cursors = vec![cx.revision().await?];
    let mut changed = Vec::new();
    for id in cx.all_machines() {
        cx.make_idle(&id).await?;
        changed.push(id);
        let cursor = cx.revision().await?;
        ensure!(
            cursors.last() != Some(&cursor),
            "another revision after each walk",
            "the same"
        );
        cursors.push(cursor);
    }
    for (age, cursor) in cursors.into_iter().enumerate() {
        let later = changed.iter().skip(age).cloned().collect();
        has_all(
            "the delta since an earlier cursor",
            &ids(cx, since(cursor)).await?,
            &later,
        )?;
    }
    Ok(())
}

async fn b906(cx: &Context) -> Outcome {
    let all = ids(cx, ListFilter::default()).await?;
    let strange: [&[u8]; 5] = [b"", b"", b"latest", &[0xff, 0x00, 0x80, 0x01, 0xfe], &[0xde; 4096]];
    for cursor in strange {
        let seen = ids(cx, since(cursor.to_vec())).await?;
        has_all("the list since what is no cursor", &seen, &all)?;
    }
    Ok(())
}

async fn b907(cx: &Context) -> Outcome {
    let base = settled(cx).await?;
    let changed: BTreeSet<String> = cx.idles().await?.into_iter().collect();
    has_all("the uncapped delta", &ids(cx, since(base.clone())).await?, &changed)?;
    let (mut cursor, mut seen) = (base, BTreeSet::new());
    for number in 0..64 {
        let list = cx.list(page(2, cursor.clone())).await?;
        let (revision, page) = (list.revision, by_id(list.machines)?);
        ensure!(page.len() <= 2, "at most 2 machines a page", page.len());
        let page: BTreeSet<_> = page.into_keys().collect();
        subset("a page", &page, &changed)?;
        let again: Vec<_> = page.intersection(&seen).collect();
        ensure!(again.is_empty(), "disjoint pages", format!("{again:?} twice"));
        let ended = page.is_empty() || revision == cursor;
        seen.extend(page);
        cursor = revision;
        // The reference gives the head with the first page, so that the second is empty: the caller starts over.
        if ended && number == 1 {
            return Ok(());
        }
        if ended {
            break;
        }
    }
    has_all("all pages", &seen, &changed)
}

async fn b908(cx: &Context) -> Outcome {
    let anchor = settled(cx).await?;
    let end = Instant::now() + Duration::from_millis(750);
    while Instant::now() < end {
        let delta = ids(cx, since(anchor.clone())).await?;
        ensure!(delta.is_empty(), "an empty delta", format!("{delta:?}"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn b909(cx: &Context) -> Outcome {
    settled(cx).await?;
    cx.idle().await?;
    let list = cx.list(ListFilter::default()).await?;
    let (cursor, all): (Bytes, BTreeMap<_, _>) = (list.revision, by_id(list.machines)?);
    let all: BTreeSet<_> = all.into_keys().collect();
    let exact = ids(cx, since(cursor.clone())).await?;
    ensure!(
        exact.is_empty(),
        "an empty delta since the exact cursor",
        format!("{exact:?}")
    );
    for (before, after) in [(&b""[..], &b"!"[..]), (b"~", b""), (b"", &[0x00, 0xff])] {
        let spoiled = [before, &cursor, after].concat();
        has_all("the list since a spoiled cursor", &ids(cx, since(spoiled)).await?, &all)?;
    }
    let mut flipped = cursor.to_vec();
    if let Some(last) = flipped.last_mut() {
        *last ^= 1;
    }
    subset("the list since a flipped cursor", &ids(cx, since(flipped)).await?, &all)
}
