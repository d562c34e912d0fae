//! A zone with more than one host.

use std::sync::Arc;

use libvirt_backend::{Endpoint, settings::HostSettings};
use providerkit_backend::{Backend as _, Known};

use crate::{
    lab::{Host, soon},
    walk::{Walk, during, offered, settings},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_of_a_zone_are_spread_over_its_hosts_and_found_there() {
    let test = "machines_of_a_zone_are_spread_over_its_hosts_and_found_there";
    let (Some(one), Some(mut two)) = (Host::start(test).await, Host::start(test).await) else {
        return;
    };
    let mut settings = settings(&[("rack1", &one)]);
    for hosts in settings.zones.values_mut() {
        hosts.push(HostSettings {
            name: "rack1-host-2".into(),
            endpoint: Endpoint::Uri(two.uri()),
            cordon: false,
        });
    }
    let mut first = Walk::new(settings).await;
    // Until both are known, the slots of their zone are not offered.
    let slots = offered(&first.backend).await;
    let mut second = Walk::of(first.backend.clone(), &slots[1]);
    first.create().await.unwrap();
    second.create().await.unwrap();
    assert_eq!(
        (one.domains().len(), two.domains().len()),
        (1, 1),
        "the roomiest host is taken"
    );
    let name = |walk: &Walk| libvirt_backend::name::DomainName::new("live", &walk.machine.id).to_string();
    let (on_one, on_two) = if one.domains() == [name(&first)] {
        (&mut first, &mut second)
    } else {
        (&mut second, &mut first)
    };

    // With one host without power, the other's machines do not notice, and nothing is taken for lost.
    two.kill().await;
    on_one.configure("works").await.unwrap();
    let known = [&*on_one, &*on_two].map(|walk| Known::new(Arc::from(walk.machine.id.as_str()), walk.machine.clone()));
    let slots = on_one.backend.describe(&known).await.unwrap();
    assert!(slots.iter().all(|slot| slot.lost.is_none()), "{slots:?}");
    // What is asked of the one that is away waits for it.
    let boots = async {
        two.boot().await;
    };
    let configured = during(on_two.configure("works"), boots).await;
    configured.unwrap();
    for walk in [on_one, on_two] {
        walk.drain(std::time::Duration::ZERO).await.unwrap();
        walk.delete().await.unwrap();
    }
    for host in [&one, &two] {
        soon("nothing is left", || {
            host.domains().is_empty() && host.volumes().is_empty()
        })
        .await;
    }
    first.backend.stop().await;
}
