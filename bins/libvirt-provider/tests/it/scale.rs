//! SC: a fleet of thousands, in a small form (contract §13, B11xx; the full form is the benchmark's).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use bigfleet_proto::{ListFilter, MachineState as S};
use tokio::task::JoinSet;

use crate::{
    fields::assert_sound,
    harness::{Binding, Launch, Provider, Token, by_id, operation, since},
};

const SEEDS: usize = 2000;

async fn provider() -> Provider {
    Launch::new().seeds(SEEDS).start().await
}

/// The value that 99 of 100 are not above (nearest rank).
fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[(times.len() * 99).div_ceil(100) - 1]
}

/// B1101, B1107.
#[tokio::test]
async fn b1101_every_record_of_a_large_fleet_is_sound_and_listed_in_time() {
    let provider = provider().await;
    let fleet = provider.fleet().await;
    assert!(fleet.len() >= SEEDS, "{}", fleet.len());
    fleet.values().for_each(assert_sound);
    let began = Instant::now();
    assert_eq!(provider.fleet().await.len(), fleet.len());
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

/// B1102.
#[tokio::test]
async fn b1102_a_delta_costs_what_changed() {
    let provider = provider().await;
    let ids: [String; 20] = provider.idles().await;
    let cursor = provider.revision().await;
    for id in &ids {
        operation(
            provider
                .configure(id, &Binding::to("c").with("k", "v"), &Token::unfenced())
                .await,
        );
    }
    for id in &ids {
        provider.reach_within(id, S::Configured, Duration::from_secs(30)).await;
    }
    let delta = by_id(provider.list(since(cursor)).await.machines);
    assert_eq!(delta.into_keys().collect::<BTreeSet<_>>(), BTreeSet::from(ids));
}

/// B1103.
#[tokio::test]
async fn b1103_pages_of_500_cover_a_large_fleet_exactly_once() {
    let provider = provider().await;
    let truth = provider.fleet().await;
    let (mut seen, mut cursor) = (BTreeMap::new(), bytes::Bytes::new());
    for _ in 0..truth.len() / 500 + 8 {
        let filter = ListFilter {
            max_results: 500,
            ..since(cursor.clone())
        };
        let page = provider.list(filter).await;
        assert!(page.machines.len() <= 500);
        if page.machines.is_empty() || page.revision == cursor {
            break;
        }
        cursor = page.revision;
        for (id, machine) in by_id(page.machines) {
            assert!(seen.insert(id.clone(), machine).is_none(), "`{id}` is on two pages");
        }
    }
    assert_eq!(seen, truth);
}

/// B1104, for a second.
#[tokio::test]
async fn b1104_cycles_leave_nothing_behind() {
    let provider = provider().await;
    let ids: [String; 8] = provider.idles().await;
    let end = Instant::now() + Duration::from_secs(1);
    let mut cycles = 0;
    while cycles == 0 || Instant::now() < end {
        for id in &ids {
            operation(
                provider
                    .configure(id, &Binding::to("c").with("k", "v"), &Token::unfenced())
                    .await,
            );
        }
        for id in &ids {
            provider.reach(id, S::Configured).await;
        }
        for id in &ids {
            operation(provider.drain(id, 0, &Token::unfenced()).await);
        }
        for id in &ids {
            let machine = provider.reach(id, S::Idle).await;
            assert!(
                machine.cluster.is_empty() && machine.shard_metadata.is_empty(),
                "{machine:?}"
            );
            assert_eq!(machine.last_error, "");
        }
        cycles += 1;
    }
}

/// B1105, for a second.
#[tokio::test]
async fn b1105_what_is_created_and_deleted_adds_up() {
    let provider = provider().await;
    let size = provider.fleet().await.len();
    let end = Instant::now() + Duration::from_secs(1);
    let mut resident = 0;
    for step in 0.. {
        let id = provider.idle().await;
        resident += 1;
        if step % 2 == 0 {
            provider.give_back(&id).await;
            resident -= 1;
        }
        let fleet = provider.fleet().await;
        let idle = fleet.values().filter(|machine| machine.state() == S::Idle).count();
        assert_eq!((fleet.len(), idle), (size, resident));
        if Instant::now() > end {
            break;
        }
    }
}

/// B1106: the suite's loose budgets; the tight ones are the benchmark's.
#[tokio::test]
async fn b1106_calls_are_answered_within_their_budgets() {
    let provider = provider().await;
    let ids: [String; 60] = provider.pick().await;
    let (mut gets, mut lists, mut creates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..120 {
        let began = Instant::now();
        provider.get(&ids[0]).await;
        gets.push(began.elapsed());
    }
    for _ in 0..20 {
        let began = Instant::now();
        provider.list(ListFilter::default()).await;
        lists.push(began.elapsed());
    }
    for id in &ids {
        let began = Instant::now();
        operation(provider.create(id, &Token::unfenced()).await);
        creates.push(began.elapsed());
    }
    let (gets, lists, creates) = (p99(gets), p99(lists), p99(creates));
    assert!(gets <= Duration::from_millis(250), "Get p99 {gets:?}");
    assert!(lists <= Duration::from_secs(2), "List p99 {lists:?}");
    assert!(creates <= Duration::from_millis(250), "Create p99 {creates:?}");
}

/// B1108.
#[tokio::test]
async fn b1108_16_machines_are_created_at_once() {
    let provider = provider().await;
    let ids: [String; 16] = provider.pick().await;
    let mut calls = JoinSet::new();
    for id in ids.clone() {
        let client = provider.client();
        calls.spawn(async move { operation(client.create(&id, &Token::unfenced()).await) });
    }
    let operations: BTreeSet<_> = calls.join_all().await.into_iter().collect();
    assert_eq!(operations.len(), 16);
    for id in &ids {
        provider.reach_within(id, S::Idle, Duration::from_secs(30)).await;
    }
}

/// B1109.
#[tokio::test]
async fn b1109_idle_machines_rest() {
    let provider = provider().await;
    let ids: [String; 8] = provider.idles().await;
    let end = Instant::now() + Duration::from_millis(500);
    while Instant::now() < end {
        for id in &ids {
            assert_eq!(provider.state(id).await, S::Idle);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
