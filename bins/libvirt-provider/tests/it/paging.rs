//! Lists while the fleet changes under them (contract §9.4).

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bigfleet_proto::{ListFilter, Machine, MachineState as S};
use bytes::Bytes;
use tokio::task::JoinSet;

use crate::{
    fields::assert_sound,
    harness::{AWAIT, Binding, Client, Launch, by_id, eventually, only, since},
};

/// Leads machines through whole lives until told to stop.
struct Churn {
    stop: Arc<AtomicBool>,
    steps: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

impl Churn {
    /// Half of the machines, so that the other half never changes.
    async fn start(client: &Client) -> Self {
        let (stop, steps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for id in client.fleet().await.into_keys().step_by(2) {
            let (client, stop, steps) = (client.clone(), Arc::clone(&stop), Arc::clone(&steps));
            tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    live(&client, &id).await;
                    steps.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Self { stop, steps, tasks }
    }

    /// Waits until the machines have been led about some more.
    async fn go_on(&self) {
        let until = self.steps.load(Ordering::Relaxed) + 1;
        eventually("another life", AWAIT, async || {
            self.steps.load(Ordering::Relaxed) >= until
        })
        .await;
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
    }
}

/// One whole life, back to SPECULATIVE.
async fn live(client: &Client, id: &str) {
    let free = crate::harness::Token::unfenced();
    client.create(id, &free).await.unwrap();
    client.reach(id, S::Idle).await;
    client.bind(id, &Binding::to("c").with("k", id)).await;
    client.release(id, 0).await;
    client.give_back(id).await;
}

/// Reads pages of 7 without a filter until every machine was seen; answers what was seen and the last cursor.
async fn walk(client: &Client, count: usize, mut between: impl AsyncFnMut()) -> (BTreeMap<String, Machine>, Bytes) {
    let (mut seen, mut cursor) = (BTreeMap::new(), Bytes::new());
    for _ in 0..count / 7 + 8 {
        let filter = ListFilter {
            max_results: 7,
            ..since(cursor)
        };
        let page = client.list(filter).await;
        assert!(page.machines.len() <= 7);
        cursor = page.revision;
        for (id, machine) in by_id(page.machines) {
            assert_sound(&machine);
            assert!(seen.insert(id.clone(), machine).is_none(), "`{id}` is on two pages");
        }
        if seen.len() >= count {
            assert_eq!(seen.len(), count);
            return (seen, cursor);
        }
        between().await;
    }
    panic!(
        "{} of {count} machines seen when the pages should have ended",
        seen.len()
    );
}

/// The view of a client that pages and then follows deltas must become the truth.
#[tokio::test]
async fn pages_show_each_machine_once_while_machines_change_and_deltas_complete_them() {
    let provider = Launch::new().delay(Duration::from_millis(2)).seeds(60).start().await;
    let count = provider.fleet().await.len();
    let churn = Churn::start(&provider).await;
    let mut views = Vec::new();
    for _ in 0..4 {
        views.push(walk(&provider, count, async || churn.go_on().await).await);
    }
    churn.stop().await;
    let truth = provider.fleet().await;
    for (mut view, mut cursor) in views {
        for _ in 0..count / 7 + 8 {
            let filter = ListFilter {
                max_results: 7,
                ..since(cursor.clone())
            };
            let page = provider.list(filter).await;
            if page.machines.is_empty() {
                break;
            }
            view.extend(by_id(page.machines));
            cursor = page.revision;
        }
        assert_eq!(view, truth);
    }
}

/// §9.4 with trap 1: also a filtered walk that starts anywhere shows each machine once.
#[tokio::test]
async fn pages_of_a_filtered_list_cover_it_exactly_once() {
    let provider = Launch::new().start().await;
    for _ in 0..5 {
        provider.idle().await;
    }
    let all = by_id(provider.list(only(&[S::Speculative])).await.machines);
    for _ in 0..5 {
        let (mut seen, mut cursor) = (BTreeMap::new(), Bytes::new());
        for _ in 0..all.len() / 7 + 8 {
            let filter = ListFilter {
                max_results: 7,
                since_revision: cursor.clone(),
                ..only(&[S::Speculative])
            };
            let page = provider.list(filter).await;
            if page.machines.is_empty() || page.revision == cursor {
                break;
            }
            cursor = page.revision;
            for (id, machine) in by_id(page.machines) {
                assert!(seen.insert(id.clone(), machine).is_none(), "`{id}` is on two pages");
            }
        }
        assert_eq!(seen, all);
        assert!(provider.list(since(cursor)).await.machines.is_empty());
    }
}

/// Every list, whatever else goes on, has every machine once and every record sound; every delta goes on from the
/// last one.
#[tokio::test]
async fn lists_under_load_are_whole_and_deltas_lose_nothing() {
    let provider = Launch::new().delay(Duration::from_millis(2)).seeds(48).start().await;
    let ids: Vec<String> = provider.fleet().await.into_keys().collect();
    let churn = Churn::start(&provider).await;
    let mut readers = JoinSet::new();
    for _ in 0..4 {
        let (client, ids) = (provider.connect().await, ids.clone());
        readers.spawn(async move {
            for _ in 0..40 {
                let fleet = client.fleet().await;
                assert!(fleet.keys().eq(&ids));
                fleet.values().for_each(assert_sound);
            }
        });
    }
    let list = provider.list(ListFilter::default()).await;
    let (mut view, mut cursor) = (by_id(list.machines), list.revision);
    for _ in 0..60 {
        let delta = provider.list(since(cursor)).await;
        delta.machines.iter().for_each(assert_sound);
        view.extend(by_id(delta.machines));
        cursor = delta.revision;
    }
    readers.join_all().await;
    churn.stop().await;
    view.extend(by_id(provider.list(since(cursor)).await.machines));
    assert_eq!(view, provider.fleet().await);
}
