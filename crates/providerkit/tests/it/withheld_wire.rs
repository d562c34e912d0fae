//! Withheld slots over real gRPC: whole lists, pages and deltas while slots come and go.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bigfleet_proto::{CapacityProviderClient, CreateRequest, ListFilter, MachineRef, MachineState::Speculative};
use providerkit::{Engine, store::Memory};
use tokio::{net::TcpListener, time::Instant};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Code,
    transport::{Channel, Endpoint, Server},
};

use crate::{client::options, scripted::Scripted};

const FULL: Option<&str> = Some("full");

struct Wire {
    backend: Arc<Scripted>,
    engine: Engine,
    client: CapacityProviderClient<Channel>,
    names: Vec<String>,
}

impl Wire {
    async fn start(machines: usize) -> Self {
        let backend = Arc::new(Scripted::new(machines));
        let engine = Engine::start(options(), Box::new(Memory::default()), Arc::clone(&backend) as _)
            .await
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let server = Server::builder().add_service(providerkit::server(engine.clone()));
        // Ends with the test's runtime.
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let channel = endpoint.connect().await.unwrap();
        Self {
            backend,
            engine,
            client: CapacityProviderClient::new(channel),
            names: (0..machines).map(|n| format!("m-{n}")).collect(),
        }
    }

    /// Has the backend withhold these slots and no others, and waits until the engine does.
    async fn withhold(&mut self, withheld: impl Fn(usize) -> bool) {
        let offers = self.names.iter().enumerate();
        let offers: Vec<_> = offers
            .map(|(n, name)| (&**name, FULL.filter(|_| withheld(n))))
            .collect();
        let offered = offers.iter().filter(|(_, withheld)| withheld.is_none());
        let expected: Vec<_> = offered.map(|(name, _)| (*name).to_owned()).collect();
        self.backend.offer(&offers);
        self.backend.change();
        let deadline = Instant::now() + Duration::from_secs(30);
        // The full List keeps the order in which the slots were added.
        while self.list(0, &[]).await.0 != expected {
            assert!(Instant::now() < deadline, "{:?}", self.engine.summary());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let withheld = self.names.len() - expected.len();
        assert_eq!(self.engine.summary().withheld, withheld);
    }

    async fn list(&mut self, cap: i32, cursor: &[u8]) -> (Vec<String>, Vec<u8>) {
        let filter = ListFilter {
            max_results: cap,
            since_revision: cursor.to_vec().into(),
            ..Default::default()
        };
        let list = self.client.list(filter).await.unwrap().into_inner();
        let ids = list.machines.into_iter().map(|machine| machine.id).collect();
        (ids, list.revision.to_vec())
    }
}

#[tokio::test]
async fn pages_show_what_is_offered_throughout_once_and_what_is_withheld_throughout_never() {
    let mut wire = Wire::start(60).await;
    // Multiples of 3 are always withheld; of the others, every second page the odd or the even ones.
    let always = |n: usize| n.is_multiple_of(3);
    let steady = |n: usize| n % 6 == 1;
    let (mut cursor, mut seen, mut page) = (Vec::new(), BTreeMap::<String, usize>::new(), 0);
    let mut flipping = 0;
    loop {
        wire.withhold(|n| always(n) || (!steady(n) && n % 2 == flipping % 2))
            .await;
        let (ids, next) = wire.list(5, &cursor).await;
        page += 1;
        if ids.is_empty() {
            break;
        }
        for id in ids {
            *seen.entry(id).or_default() += 1;
        }
        cursor = next;
        flipping += usize::from(page < 8);
        assert!(page < 60, "the walk does not end");
    }
    for (n, name) in wire.names.iter().enumerate() {
        match seen.get(name) {
            times if always(n) => assert_eq!(times, None, "{name}"),
            times if steady(n) => assert_eq!(times, Some(&1), "{name}"),
            _ => {}
        }
    }
    // What is offered in the end was told, in the walk or as a change after it.
    let (offered, _) = wire.list(0, &[]).await;
    assert!(offered.len() > 20);
    assert!(offered.iter().all(|id| seen.contains_key(id)));
}

#[tokio::test]
async fn a_delta_in_pages_brings_back_what_is_offered_again_and_nothing_else() {
    let mut wire = Wire::start(20).await;
    wire.withhold(|n| n >= 10).await;
    let (ids, since) = wire.list(0, &[]).await;
    assert_eq!(ids, wire.names[..10]);
    wire.withhold(|n| n >= 18).await;
    let (whole, head) = wire.list(0, &since).await;
    assert_eq!(
        whole.iter().cloned().collect::<BTreeSet<_>>(),
        wire.names[10..18].iter().cloned().collect()
    );
    assert_eq!(wire.list(0, &head).await.0, [""; 0]);

    let (first, next) = wire.list(3, &since).await;
    assert_eq!(first, whole[..3]);
    // Two that were not told yet are taken back, one comes anew.
    let gone: Vec<usize> = whole[4..6].iter().map(|id| id[2..].parse().unwrap()).collect();
    wire.withhold(|n| gone.contains(&n) || n == 19).await;
    let (mut rest, mut cursor) = (Vec::new(), next);
    loop {
        let (ids, next) = wire.list(3, &cursor).await;
        if ids.is_empty() {
            break;
        }
        rest.extend(ids);
        cursor = next;
    }
    let expected = [&whole[3..4], &whole[6..], &["m-18".to_owned()]].concat();
    assert_eq!(rest, expected);
}

#[tokio::test]
async fn a_caller_that_wants_one_machine_gets_none_that_is_withheld() {
    let mut wire = Wire::start(4).await;
    wire.withhold(|n| n % 2 == 0).await;
    let mut told = BTreeSet::new();
    for _ in 0..6 {
        let filter = ListFilter {
            states: vec![Speculative as i32],
            max_results: 1,
            ..Default::default()
        };
        let list = wire.client.list(filter).await.unwrap().into_inner();
        told.extend(list.machines.into_iter().map(|machine| machine.id));
    }
    assert_eq!(told, ["m-1", "m-3"].map(str::to_owned).into());
    let request = MachineRef { id: "m-2".into() };
    let machine = wire.client.get(request).await.unwrap().into_inner();
    assert_eq!(machine.state(), Speculative);
    let request = CreateRequest {
        machine_id: "m-2".into(),
        ..Default::default()
    };
    let status = wire.client.create(request).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains("full"), "{status:?}");
}
