//! LR: List, its filters and its cursors (contract §9).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use bigfleet_proto::{ListFilter, MachineState as S};
use bytes::Bytes;
use tokio::time::sleep;

use crate::harness::{Binding, Client, Launch, by_id, capped, only, operation, since};

/// The ids of an answer, each once.
async fn ids(client: &Client, filter: ListFilter) -> BTreeSet<String> {
    by_id(client.list(filter).await.machines).into_keys().collect()
}

/// Walks one machine to IDLE; answers its id.
async fn change(client: &Client) -> String {
    client.idle().await
}

fn spoiled(cursor: &Bytes) -> [Vec<u8>; 3] {
    let with = |before: &[u8], after: &[u8]| [before, cursor, after].concat();
    [with(b"", b"!"), with(b"~", b""), with(b"", &[0x00, 0xff])]
}

/// B901.
#[tokio::test]
async fn b901_a_filtered_list_has_exactly_the_states_asked_for() {
    let provider = Launch::new().start().await;
    provider.idle().await;
    provider.configured(&Binding::to("c")).await;
    let mut singles = BTreeMap::new();
    for state in (1..=8).map(|number| S::try_from(number).unwrap()) {
        let machines = by_id(provider.list(only(&[state])).await.machines);
        assert!(machines.values().all(|machine| machine.state() == state), "{state:?}");
        singles.insert(state, machines.into_keys().collect::<BTreeSet<_>>());
    }
    let wanted = [S::Speculative, S::Idle, S::Configured];
    let union: BTreeSet<_> = wanted.iter().flat_map(|state| singles[state].clone()).collect();
    assert_eq!(ids(&provider, only(&wanted)).await, union);
    assert_eq!((singles[&S::Idle].len(), singles[&S::Configured].len()), (1, 1));
    assert_eq!(ids(&provider, only(&[S::Idle, S::Idle])).await, singles[&S::Idle]);
}

/// B902.
#[tokio::test]
async fn b902_max_results_is_a_ceiling_and_zero_is_none() {
    let provider = Launch::new().start().await;
    let all = ids(&provider, ListFilter::default()).await;
    for max in 1..=3 {
        let some = ids(&provider, capped(max)).await;
        assert!((1..=usize::try_from(max).unwrap()).contains(&some.len()), "{some:?}");
        assert!(some.is_subset(&all));
    }
    assert_eq!(ids(&provider, capped(0)).await, all);
    assert_eq!(ids(&provider, capped(-3)).await, all, "§3: a negative cap is none");
}

/// B903.
#[tokio::test]
async fn b903_the_revision_moves_with_a_change_and_the_delta_has_it() {
    let provider = Launch::new().start().await;
    let before = provider.revision().await;
    assert!(!before.is_empty());
    let id = change(&provider).await;
    assert_ne!(provider.revision().await, before);
    assert_eq!(ids(&provider, since(before)).await, BTreeSet::from([id]));
}

/// A provider that looks at its substrate all the time, and must not take that for a change.
fn restless() -> Launch {
    Launch::new().flag("--set=transitions.reconcile_interval=20ms")
}

/// B904.
#[tokio::test]
async fn b904_nothing_changed_is_an_empty_delta() {
    let provider = restless().start().await;
    change(&provider).await;
    let revision = provider.revision().await;
    let delta = provider.list(since(revision.clone())).await;
    assert_eq!((delta.machines, delta.revision), (Vec::new(), revision));
}

/// B905.
#[tokio::test]
async fn b905_an_older_cursor_has_everything_that_changed_since() {
    let provider = Launch::new().start().await;
    let mut cursors = vec![provider.revision().await];
    let mut changed = Vec::new();
    for _ in 0..4 {
        changed.push(change(&provider).await);
        let cursor = provider.revision().await;
        assert!(!cursors.contains(&cursor));
        cursors.push(cursor);
    }
    for (age, cursor) in cursors.into_iter().enumerate() {
        let expected: BTreeSet<_> = changed[age..].iter().cloned().collect();
        assert_eq!(ids(&provider, since(cursor)).await, expected);
    }
}

/// B906.
#[tokio::test]
async fn b906_what_is_no_cursor_lists_everything() {
    let provider = Launch::new().start().await;
    let all = ids(&provider, ListFilter::default()).await;
    let strange: [&[u8]; 4] = [b"", b"latest", &[0xff, 0x00, 0x80, 0x01, 0xfe], &[0xde; 4096]];
    for cursor in strange {
        assert_eq!(ids(&provider, since(cursor.to_vec())).await, all, "{cursor:?}");
    }
}

/// B907, the second style of §9.4.
#[tokio::test]
async fn b907_pages_of_a_delta_are_disjoint_and_cover_it() {
    let provider = Launch::new().start().await;
    let base = provider.revision().await;
    let mut changed = BTreeSet::new();
    for _ in 0..5 {
        changed.insert(change(&provider).await);
    }
    assert_eq!(ids(&provider, since(base.clone())).await, changed);
    let (mut cursor, mut seen) = (base, BTreeSet::new());
    for _ in 0..64 {
        let filter = ListFilter {
            max_results: 2,
            ..since(cursor.clone())
        };
        let page = provider.list(filter).await;
        assert!(page.machines.len() <= 2);
        if page.machines.is_empty() || page.revision == cursor {
            break;
        }
        for id in by_id(page.machines).into_keys() {
            assert!(changed.contains(&id), "`{id}` did not change");
            assert!(seen.insert(id.clone()), "`{id}` is on two pages");
        }
        cursor = page.revision;
    }
    assert_eq!(seen, changed);
    assert!(
        ids(&provider, since(cursor)).await.is_empty(),
        "the last page's cursor is not the head"
    );
}

/// B908.
#[tokio::test]
async fn b908_the_delta_stays_empty_while_nothing_happens() {
    let provider = restless().start().await;
    change(&provider).await;
    let anchor = provider.revision().await;
    let end = Instant::now() + Duration::from_millis(750);
    while Instant::now() < end {
        assert!(ids(&provider, since(anchor.clone())).await.is_empty());
        sleep(Duration::from_millis(50)).await;
    }
}

/// B909.
#[tokio::test]
async fn b909_a_spoiled_cursor_lists_everything() {
    let provider = Launch::new().start().await;
    change(&provider).await;
    let all = ids(&provider, ListFilter::default()).await;
    let cursor = provider.revision().await;
    assert!(ids(&provider, since(cursor.clone())).await.is_empty());
    for cursor in spoiled(&cursor) {
        assert_eq!(ids(&provider, since(cursor)).await, all);
    }
    let mut flipped = cursor.to_vec();
    *flipped.last_mut().unwrap() ^= 1;
    assert!(ids(&provider, since(flipped)).await.is_subset(&all));
}

/// §9.2: filter and cursor combine.
#[tokio::test]
async fn a_machine_that_left_the_filtered_state_is_not_in_the_filtered_delta() {
    let provider = Launch::new().start().await;
    let [a, b] = provider.idles().await;
    let cursor = provider.revision().await;
    provider.bind(&a, &Binding::to("c")).await;
    let delta = |state| ListFilter {
        since_revision: cursor.clone(),
        ..only(&[state])
    };
    assert_eq!(ids(&provider, delta(S::Idle)).await, BTreeSet::new());
    assert_eq!(ids(&provider, delta(S::Configured)).await, BTreeSet::from([a]));
    provider.give_back(&b).await;
    assert_eq!(ids(&provider, delta(S::Speculative)).await, BTreeSet::from([b]));
}

/// §3: List answers whatever the content.
#[tokio::test]
async fn a_state_nobody_knows_matches_nothing() {
    let provider = Launch::new().start().await;
    let filter = ListFilter {
        states: vec![99, -1],
        ..ListFilter::default()
    };
    assert_eq!(ids(&provider, filter).await, BTreeSet::new());
}

/// §9.2: a call that was refused is no change.
#[tokio::test]
async fn a_refused_call_does_not_move_the_revision() {
    let provider = Launch::new().start().await;
    let id = provider.idle().await;
    let revision = provider.revision().await;
    let shard = crate::harness::Shard::new("s");
    provider.drain(&id, 0, &shard.at(2, 2)).await.unwrap_err();
    provider.drain(&id, 0, &shard.at(1, 1)).await.unwrap_err();
    operation(provider.create(&id, &shard.at(3, 3)).await);
    assert_eq!(provider.revision().await, revision);
}
