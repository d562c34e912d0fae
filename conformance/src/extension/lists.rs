//! Filters and cursors beyond the registered ones (contract §3, §9; trap 1).

use std::collections::BTreeSet;

use bigfleet_proto::{ListFilter, MachineState as S};
use bytes::Bytes;

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability},
    call::{Binding, capped, only, since},
    outcome::{ensure, ensure_eq},
    walk::by_id,
};

const AREA: Area = Area::Lists;

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "X201",
        AREA,
        [
            "A state that nobody knows matches nothing, and is no error",
            "the next version of the contract will have one",
            "List of states 99 and -1: no error, no machine; together with IDLE: only IDLE machines, an own one among them",
        ],
        |cx| Box::pin(x201(cx)),
    )
    .extension(),
    Behaviour::new(
        "X202",
        AREA,
        [
            "A negative max_results is no cap",
            "no other reading keeps the shard's inventory",
            "List with max_results -1 and the least number: every machine",
        ],
        |cx| Box::pin(x202(cx)),
    )
    .machines(0)
    .extension(),
    Behaviour::new(
        "X203",
        AREA,
        [
            "Filter and cursor combine",
            "a machine of another state in a filtered delta is used wrongly",
            "2 idle machines, a cursor, one configured: the delta of IDLE is empty, that of CONFIGURED has just it",
        ],
        |cx| Box::pin(x203(cx)),
    )
    .machines(2)
    .alone()
    .needs(Capability::SinceRevision)
    .extension(),
    Behaviour::new(
        "X204",
        AREA,
        [
            "A capped list without a cursor does not always begin with the same machine",
            "the public program picks its machines this way, and takes two picks for two machines (trap 1)",
            "List(SPECULATIVE, max 1) 12 times without a change: at least 2 different machines",
        ],
        |cx| Box::pin(x204(cx)),
    )
    .machines(0)
    .alone()
    .extension(),
    Behaviour::new(
        "X205",
        AREA,
        [
            "Pages of a filtered list cover it exactly once and end at the head",
            "a machine between two pages is lost",
            "List(SPECULATIVE) in pages of 7, threaded: each machine once, all of them; the delta since the last cursor \
             is empty. A first page that comes with the head is the other style of contract §9.4, and is let go",
        ],
        |cx| Box::pin(x205(cx)),
    )
    .machines(0)
    .alone()
    .needs(Capability::SinceRevision)
    .extension(),
];

async fn x201(cx: &Context) -> Outcome {
    let id = cx.idle().await?;
    let strange = ListFilter {
        states: vec![99, -1],
        ..ListFilter::default()
    };
    let none = cx.list(strange).await?.machines.len();
    ensure_eq!("machines of a state that nobody knows", none, 0);
    let mixed = ListFilter {
        states: vec![99, S::Idle.into()],
        ..ListFilter::default()
    };
    let idle = cx.map(mixed).await?;
    ensure!(
        idle.contains_key(&id) && idle.values().all(|machine| machine.state() == S::Idle),
        "the IDLE machines and no others",
        format!("{:?}", idle.keys())
    );
    Ok(())
}

async fn x202(cx: &Context) -> Outcome {
    let all = cx.fleet().await?.len();
    for max in [-1, i32::MIN] {
        let seen = cx.map(capped(max)).await?.len();
        ensure_eq!(format!("machines with max_results {max}"), seen, all);
    }
    Ok(())
}

async fn x203(cx: &Context) -> Outcome {
    let ids = cx.idles().await?;
    let cursor = cx.revision().await?;
    let id = ids.first().map_or("", String::as_str);
    cx.bind(id, &Binding::to("c")).await?;
    let delta = |state| ListFilter {
        since_revision: cursor.clone(),
        ..only(&[state])
    };
    let idle: Vec<String> = cx.map(delta(S::Idle)).await?.into_keys().collect();
    ensure!(idle.is_empty(), "an empty delta of IDLE", format!("{idle:?}"));
    let configured: Vec<String> = cx.map(delta(S::Configured)).await?.into_keys().collect();
    ensure_eq!("the delta of CONFIGURED", configured, [id]);
    Ok(())
}

async fn x204(cx: &Context) -> Outcome {
    let filter = ListFilter {
        max_results: 1,
        ..only(&[S::Speculative])
    };
    let mut picks = BTreeSet::new();
    for _ in 0..12 {
        picks.extend(cx.map(filter.clone()).await?.into_keys());
    }
    ensure!(
        picks.len() > 1,
        "different machines in 12 picks",
        format!("only {picks:?}")
    );
    Ok(())
}

async fn x205(cx: &Context) -> Outcome {
    let all: BTreeSet<String> = cx.map(only(&[S::Speculative])).await?.into_keys().collect();
    let (mut seen, mut cursor) = (BTreeSet::new(), Bytes::new());
    for number in 0..all.len() / 7 + 8 {
        let filter = ListFilter {
            max_results: 7,
            since_revision: cursor.clone(),
            ..only(&[S::Speculative])
        };
        let list = cx.list(filter).await?;
        let (revision, page) = (list.revision, by_id(list.machines)?);
        ensure!(page.len() <= 7, "at most 7 machines a page", page.len());
        let ended = page.is_empty() || revision == cursor;
        if ended && number == 1 {
            return Ok(());
        }
        for id in page.into_keys() {
            let twice = format!("`{id}` twice");
            ensure!(seen.insert(id), "each machine on one page", twice);
        }
        cursor = revision;
        if ended || seen.len() >= all.len() {
            break;
        }
    }
    ensure_eq!("machines on all pages", seen.len(), all.len());
    ensure!(seen == all, "the machines of the full list", "others");
    let rest = cx.map(since(cursor)).await?;
    ensure!(
        rest.is_empty(),
        "the last page's cursor at the head",
        format!("{:?}", rest.keys())
    );
    Ok(())
}
