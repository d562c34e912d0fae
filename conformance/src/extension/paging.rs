//! Lists while machines change under them (contract §9.4).

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use bigfleet_proto::{ListFilter, Machine};
use bytes::Bytes;
use tokio::task::JoinSet;

use super::shape::invariant;
use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability},
    call::{Binding, page, since},
    client::Client,
    outcome::{Stop, ensure},
    walk::{AWAIT, Patience, by_id},
};

const AREA: Area = Area::Lists;

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "X206",
        AREA,
        [
            "Pages while machines change, and then deltas, become the truth",
            "a machine that moves from a page not yet read to one already read is lost",
            "6 machines go through lives; 3 walks in pages of 7, then deltas in pages of 7 until nothing is left: each \
             view equals the fleet. A first page that comes with the head is let go",
        ],
        |cx| Box::pin(x206(cx)),
    )
    .machines(6)
    .alone()
    .needs(Capability::SinceRevision)
    .extension(),
    Behaviour::new(
        "X207",
        AREA,
        [
            "Lists under load are whole, and deltas lose nothing",
            "a list that is a few machines short deletes them from the shard's inventory",
            "6 machines go through lives; 4 readers with connections of their own, 25 full lists each: every machine once \
             and every record sound; 40 deltas in a row make the same fleet",
        ],
        |cx| Box::pin(x207(cx)),
    )
    .machines(6)
    .alone()
    .extension(),
];

/// Leads machines through lives until told to stop.
struct Churn {
    stop: Arc<AtomicBool>,
    lives: Arc<AtomicUsize>,
    tasks: JoinSet<Outcome>,
}

impl Churn {
    async fn start(cx: &Context) -> Outcome<Self> {
        let (stop, lives) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for id in cx.idles().await? {
            let (client, stop, lives) = (cx.client.clone(), Arc::clone(&stop), Arc::clone(&lives));
            tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    client.bind(&id, &Binding::to("c").with("k", id.as_str())).await?;
                    client.release(&id, 0).await?;
                    lives.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
        }
        Ok(Self { stop, lives, tasks })
    }

    /// Waits until some machine has moved on.
    async fn go_on(&self) -> Outcome {
        let until = self.lives.load(Ordering::Relaxed) + 1;
        let patience = Patience::new("a machine to go through a life", AWAIT);
        while self.lives.load(Ordering::Relaxed) < until {
            patience.more("none").await?;
        }
        Ok(())
    }

    async fn stop(self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        self.tasks.join_all().await.into_iter().collect()
    }
}

/// Reads pages until every machine was seen; nothing where the first page comes with the head.
async fn walk(client: &Client, count: usize, churn: &Churn) -> Outcome<Option<(BTreeMap<String, Machine>, Bytes)>> {
    let (mut seen, mut cursor) = (BTreeMap::new(), Bytes::new());
    for number in 0..count / 7 + 16 {
        let list = client.list(page(7, cursor.clone())).await?;
        ensure!(
            list.machines.len() <= 7,
            "at most 7 machines a page",
            list.machines.len()
        );
        let ended = list.machines.is_empty() || list.revision == cursor;
        // Heads move while machines do, so that a page of only what has moved is the head's style as well.
        if number == 1 && (ended || list.machines.iter().all(|machine| seen.contains_key(&machine.id))) {
            return Ok(None);
        }
        cursor = list.revision;
        seen.extend(by_id(list.machines)?);
        if seen.len() >= count {
            return Ok(Some((seen, cursor)));
        }
        if number % 4 == 0 {
            churn.go_on().await?;
        }
    }
    Err(Stop::failed(
        format!("all {count} machines within {} pages", count / 7 + 16),
        format!("{} machines", seen.len()),
    ))
}

async fn x206(cx: &Context) -> Outcome {
    let count = cx.fleet().await?.len();
    let churn = Churn::start(cx).await?;
    let mut views = Vec::new();
    for _ in 0..3 {
        views.extend(walk(cx, count, &churn).await?);
    }
    churn.stop().await?;
    let truth = cx.fleet().await?;
    for (mut view, mut cursor) in views {
        for _ in 0..count {
            let list = cx.list(page(7, cursor.clone())).await?;
            let ended = list.machines.is_empty();
            cursor = list.revision;
            view.extend(by_id(list.machines)?);
            if ended {
                break;
            }
        }
        same(&view, &truth)?;
    }
    Ok(())
}

fn same(view: &BTreeMap<String, Machine>, truth: &BTreeMap<String, Machine>) -> Outcome {
    let differ = truth
        .iter()
        .find(|(id, machine)| view.get(*id) != Some(machine))
        .map(|(id, machine)| format!("`{id}`: {machine:?}, in the view {:?}", view.get(id)));
    ensure!(
        view == truth,
        "the view to become the fleet",
        differ.unwrap_or_else(|| "machines that do not exist".into())
    );
    Ok(())
}

async fn x207(cx: &Context) -> Outcome {
    let ids: Vec<String> = cx.fleet().await?.into_keys().collect();
    let ids = Arc::new(ids);
    let churn = Churn::start(cx).await?;
    let mut readers = JoinSet::new();
    for _ in 0..4 {
        let (client, ids) = (cx.connection()?, Arc::clone(&ids));
        readers.spawn(async move {
            for _ in 0..25 {
                let fleet = client.fleet().await?;
                let missing = ids.iter().filter(|id| !fleet.contains_key(*id)).count();
                ensure!(
                    missing == 0 && fleet.len() == ids.len(),
                    format!("all {} machines in every list", ids.len()),
                    format!("{} machines, {missing} missing", fleet.len())
                );
                fleet.values().try_for_each(invariant)?;
            }
            Ok(())
        });
    }
    let list = cx.list(ListFilter::default()).await?;
    let (mut view, mut cursor) = (by_id(list.machines)?, list.revision);
    for _ in 0..40 {
        let delta = cx.list(since(cursor)).await?;
        delta.machines.iter().try_for_each(invariant)?;
        view.extend(by_id(delta.machines)?);
        cursor = delta.revision;
    }
    readers.join_all().await.into_iter().collect::<Outcome>()?;
    churn.stop().await?;
    view.extend(cx.map(since(cursor)).await?);
    same(&view, &cx.fleet().await?)
}
