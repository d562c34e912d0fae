//! Subscriptions.

use std::time::Duration;

use libvirt_rpc::{
    Options,
    event::{
        Interruption,
        domain::{AgentLifecycle, Lifecycle},
        network, storage_pool,
    },
    fake::{Daemon, Effect, Fault},
    wire::constant::{
        domain::{DomainCreateFlags, DomainEventType},
        error::ErrorNumber,
    },
};

use tokio::task::JoinSet;

use crate::support::{define, soon};

#[tokio::test]
async fn each_subscriber_gets_its_events_in_order() {
    let daemon = Daemon::new();
    let (near, far) = (daemon.connect().await.unwrap(), daemon.connect().await.unwrap());
    let (one, two) = (define(&near, "one").await, define(&near, "two").await);
    let mut all = near.subscribe::<Lifecycle>(None).await.unwrap();
    let mut only = near.subscribe::<Lifecycle>(Some(&two)).await.unwrap();
    let mut agent = near.subscribe::<AgentLifecycle>(None).await.unwrap();
    for domain in [&one, &two] {
        let running = far.domain_create(domain, DomainCreateFlags::empty()).await.unwrap();
        far.domain_destroy(&running, Default::default()).await.unwrap();
    }
    let mut seen = Vec::new();
    for _ in 0..8 {
        let event = soon(all.next()).await.unwrap();
        seen.push((event.msg.dom.name.to_string(), DomainEventType(event.msg.event)));
    }
    let life = |name: &str| {
        [
            DomainEventType::RESUMED,
            DomainEventType::STARTED,
            DomainEventType::SHUTDOWN,
            DomainEventType::STOPPED,
        ]
        .map(|event| (name.to_owned(), event))
    };
    assert_eq!(seen, [life("one"), life("two")].concat());
    for _ in 0..4 {
        assert_eq!(soon(only.next()).await.unwrap().msg.dom.name, "two");
    }
    assert!(only.try_next().is_none());
    assert_eq!(soon(agent.next()).await.unwrap().dom.name, "one");
}

#[tokio::test]
async fn networks_and_pools_tell_too() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    let mut networks = connection.subscribe::<network::Lifecycle>(None).await.unwrap();
    let mut pools = connection.subscribe::<storage_pool::Lifecycle>(None).await.unwrap();
    let net = connection.network_lookup_by_name("default").await.unwrap();
    connection.network_destroy(&net).await.unwrap();
    let pool = connection.storage_pool_lookup_by_name("default").await.unwrap();
    connection.storage_pool_destroy(&pool).await.unwrap();
    assert_eq!(soon(networks.next()).await.unwrap().net.name, "default");
    assert_eq!(soon(pools.next()).await.unwrap().pool.name, "default");
}

/// Row 3: go-libvirt#98, #96: a consumer that calls while events flow.
#[tokio::test]
async fn a_consumer_may_call_while_thousands_of_events_arrive() {
    let daemon = Daemon::new();
    let connection = daemon.connect_with(Options::new().event_queue(100_000)).await.unwrap();
    let busy = daemon.connect().await.unwrap();
    let domain = define(&busy, "busy").await;
    let domain = busy.domain_create(&domain, DomainCreateFlags::empty()).await.unwrap();
    let mut events = connection.subscribe::<Lifecycle>(None).await.unwrap();
    let rounds = 2_000;
    let noise = {
        let domain = domain.clone();
        tokio::spawn(async move {
            for _ in 0..rounds {
                busy.domain_suspend(&domain).await.unwrap();
                busy.domain_resume(&domain).await.unwrap();
            }
        })
    };
    for _ in 0..2 * rounds {
        soon(events.next()).await.unwrap();
        soon(connection.domain_state(&domain)).await.unwrap();
    }
    soon(noise).await.unwrap();
}

/// Row 2: go-libvirt#191: cancelling under load.
#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_subscription_under_load_never_harms_the_connection() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    let busy = daemon.connect().await.unwrap();
    let domain = define(&busy, "busy").await;
    let domain = busy.domain_create(&domain, DomainCreateFlags::empty()).await.unwrap();
    let noise = tokio::spawn(async move {
        loop {
            busy.domain_suspend(&domain).await.unwrap();
            busy.domain_resume(&domain).await.unwrap();
        }
    });
    for _ in 0..300 {
        let mut events = soon(connection.subscribe::<Lifecycle>(None)).await.unwrap();
        for _ in 0..5 {
            let event = soon(events.next()).await;
            assert!(matches!(event, Ok(_) | Err(Interruption::Lagged(_))), "{event:?}");
        }
        drop(events);
        assert_eq!(soon(connection.hostname()).await.unwrap(), "fake");
    }
    noise.abort();
}

#[tokio::test]
async fn a_slow_consumer_is_told_how_much_it_missed() {
    let daemon = Daemon::new();
    let connection = daemon.connect_with(Options::new().event_queue(4)).await.unwrap();
    let mut events = connection.subscribe::<Lifecycle>(None).await.unwrap();
    for name in ["a", "b", "c", "d", "e", "f"] {
        define(&connection, name).await;
    }
    assert!(matches!(soon(events.next()).await, Err(Interruption::Lagged(2))));
    assert_eq!(soon(events.next()).await.unwrap().msg.dom.name, "c");
}

/// go-libvirt#120, #133: a subscription ends with its connection.
#[tokio::test]
async fn the_end_of_the_connection_ends_the_subscription() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    let mut events = connection.subscribe::<Lifecycle>(None).await.unwrap();
    define(&connection, "last").await;
    daemon.restart();
    assert_eq!(soon(events.next()).await.unwrap().msg.dom.name, "last");
    assert!(matches!(soon(events.next()).await, Err(Interruption::Closed(_))));
}

#[tokio::test]
async fn giving_up_on_a_subscription_leaves_nothing_behind() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    let register = "connect_domain_event_callback_register_any";
    daemon.inject(Fault::on(register, Effect::Delay(Duration::from_millis(30))));
    let hasty = tokio::time::timeout(Duration::from_millis(5), connection.subscribe::<Lifecycle>(None));
    assert!(hasty.await.is_err());
    soon(async {
        while daemon.calls("connect_domain_event_callback_deregister_any") == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// libvirtd refuses a second registration of the same on one connection.
#[tokio::test]
async fn many_subscribe_to_the_same_and_the_daemon_is_asked_once() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    let domain = define(&connection, "one").await;
    let mut together = JoinSet::new();
    for _ in 0..8 {
        let connection = connection.clone();
        together.spawn(async move { connection.subscribe::<Lifecycle>(None).await.unwrap() });
    }
    let mut subscribers = together.join_all().await;
    let register = "connect_domain_event_callback_register_any";
    let deregister = "connect_domain_event_callback_deregister_any";
    assert_eq!(daemon.calls(register), 1);
    subscribers.truncate(3);
    connection
        .domain_create(&domain, DomainCreateFlags::empty())
        .await
        .unwrap();
    for subscriber in &mut subscribers {
        let event = soon(subscriber.next()).await.unwrap();
        assert_eq!(DomainEventType(event.msg.event), DomainEventType::RESUMED);
    }
    assert_eq!(daemon.calls(deregister), 0);
    drop(subscribers);
    let anew = soon(connection.subscribe::<Lifecycle>(None)).await.unwrap();
    assert_eq!((daemon.calls(deregister), daemon.calls(register)), (1, 2));
    drop(anew);
}

#[tokio::test]
async fn a_failed_registration_fails_only_its_caller() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    let refuse = Effect::Refuse(ErrorNumber::ERR_ACCESS_DENIED, "not you".into());
    daemon.inject(Fault::on("connect_domain_event_callback_register_any", refuse).times(1));
    let (first, second) = tokio::join!(
        connection.subscribe::<Lifecycle>(None),
        connection.subscribe::<Lifecycle>(None)
    );
    assert_eq!(first.unwrap_err().code(), Some(ErrorNumber::ERR_ACCESS_DENIED));
    second.unwrap();
}
