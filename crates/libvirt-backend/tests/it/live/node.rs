//! A Debian guest with all of cloud-init, systemd and the real kubectl, as the node of a cluster.

use std::time::Duration;

use libvirt_backend::settings::{IdleWhen, InstanceType, Readiness, Settings};
use tokio::time::Instant;

use crate::{
    cluster::{Cluster, NODE, Pod, Ready},
    counted,
    lab::{DEBIAN, Host, KUBECTL},
    walk::{self, Walk, during},
};

const FORCED: &str = "forced_drains_total";

fn settings(host: &Host) -> Settings {
    let mut settings = walk::settings(&[("rack1", host)]);
    settings.machine.image = DEBIAN.name().into();
    settings.offerings[0].count = 1;
    settings.offerings[0].instance_type = InstanceType {
        name: "debian".into(),
        vcpus: 1,
        memory_mib: 1024,
        disk_gib: None,
    };
    settings.guest.readiness = Readiness::Kubelet;
    settings
}

/// One guest for all of it, because its first boot takes minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_becomes_ready_and_is_drained_by_kubectl() {
    let test = "a_node_becomes_ready_and_is_drained_by_kubectl";
    let Some(host) = Host::start_with(test, &DEBIAN, &[&KUBECTL]).await else {
        return;
    };
    counted::begin();
    let cluster = Cluster::on(&host, KUBECTL.read());
    let begun = Instant::now();
    let told = |what: &str| eprintln!("{what} after {:.0?}", begun.elapsed());
    let mut walk = Walk::new(settings(&host)).await;
    // All of systemd and cloud-init under emulation, on a machine that does other things.
    walk.budget = Duration::from_secs(900);
    walk.create().await.unwrap();
    told("IDLE");
    let domain = host.domains().remove(0);
    let in_guest = |script: &str| host.run_in_guest(&domain, script);
    let result = in_guest("cat /run/cloud-init/result.json");
    assert!(result.contains("DataSourceNoCloud"), "{result}");

    // Late: it does not register at first, and then is not Ready for a while.

    cluster.state().ready = Ready::Unknown;
    let registers = async {
        let looked_for = format!("GET /api/v1/nodes/{NODE} 404");
        while !cluster.state().was_asked(&looked_for) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        told("looked for");
        cluster.state().ready = Ready::After(2);
    };
    let configured = during(walk.configure(cluster.bootstrap()), registers).await;
    configured.unwrap_or_else(|error| panic!("{}\n{}", error.report(), cluster.state().asked()));
    assert_eq!(cluster.state().ready, Ready::After(0), "it was not waited for");
    told("Ready");

    // Pods that may go, go; those of DaemonSets and the static ones stay.
    cluster.state().pods = vec![
        Pod::of("web", Some("ReplicaSet")),
        Pod::of("bare", None),
        Pod::of("proxy", Some("DaemonSet")),
        Pod {
            mirror: true,
            ..Pod::of("static", Some("Node"))
        },
    ];
    walk.drain(Duration::from_secs(240)).await.unwrap();
    told("drained");
    {
        let state = cluster.state();
        let left: Vec<_> = state.pods.iter().map(|pod| pod.name).collect();
        assert_eq!(left, ["proxy", "static"], "{}", state.asked());
        assert!(state.cordoned, "{}", state.asked());
        let eviction = |pod: &str| format!("POST /api/v1/namespaces/default/pods/{pod}/eviction 201");
        assert!(!state.was_asked(&eviction("proxy")) && state.was_asked(&eviction("bare")));
    }
    assert_eq!(counted::count(FORCED, &[]), 0);
    assert_eq!(
        in_guest("ls /etc/kubernetes/kubelet.conf /var/lib/kubelet /run/bigfleet-kubectl 2>/dev/null"),
        "/var/lib/kubelet:"
    );

    // Never Ready: the deadline ends it, and says what was waited for.
    cluster.state().ready = Ready::Never;
    walk.budget = Duration::from_secs(120);
    let error = walk.configure(cluster.bootstrap()).await.unwrap_err().report();
    for words in [
        "deadline",
        NODE,
        "KubeletNotReady",
        "container runtime network not ready",
    ] {
        assert!(error.contains(words), "{words}: {error}\n{}", cluster.state().asked());
    }
    told("never Ready");

    // A budget that never lets its pod go: the node leaves when its time is up, and is made anew.
    walk.budget = Duration::from_secs(900);
    cluster.state().ready = Ready::After(0);
    walk.configure(cluster.bootstrap()).await.unwrap();
    told("Ready again");
    cluster.state().pods = vec![
        Pod {
            held: true,
            ..Pod::of("held", Some("ReplicaSet"))
        },
        Pod::of("web", Some("ReplicaSet")),
    ];
    walk.backend.stop().await;
    let mut settings = settings(&host);
    // Its second first boot need not be waited for to its end.
    settings.guest.idle_when = IdleWhen::Running;
    // kubectl takes seconds to begin under emulation.
    settings.guest.drain_margin = Duration::from_secs(180);
    let grace = Duration::from_secs(20);
    walk.backend = libvirt_backend::Libvirt::start(settings);
    let before = host.volumes();
    walk.drain(grace).await.unwrap();
    told("drained by force");
    {
        let state = cluster.state();
        // One that is held holds back no other.
        for (pod, code) in [("held", 429), ("web", 201)] {
            let eviction = format!("POST /api/v1/namespaces/default/pods/{pod}/eviction {code}");
            assert!(state.was_asked(&eviction), "{eviction}: {}", state.asked());
        }
        assert!(state.pods.iter().any(|pod| pod.name == "held"));
    }
    assert_eq!(counted::count(FORCED, &[("zone", "rack1")]), 1);
    let after = host.volumes();
    assert!(before.iter().all(|name| !after.contains(name)), "{before:?} {after:?}");
    walk.delete().await.unwrap();
    assert_eq!((host.domains(), host.volumes()), (vec![], vec![]));
    walk.backend.stop().await;
}
