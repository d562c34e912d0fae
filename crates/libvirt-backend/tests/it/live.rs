//! Machines on a real host, from Create to nothing.

mod faults;
mod hook;
mod ignition;
mod image;
mod node;
mod space;
mod zone;

use std::{sync::Arc, time::Duration};

use libvirt_backend::{
    Leftover,
    settings::{DrainReset, InstanceType},
};
use providerkit_backend::{Backend as _, HostRef, Known, MachineId, State, Transition};

use crate::{
    lab::{Host, soon},
    walk::{Walk, offered, settings},
};

const SECRET: &str = "token-a8f1c20e";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_lives_and_leaves_nothing() {
    let Some(host) = Host::start("a_machine_lives_and_leaves_nothing").await else {
        return;
    };
    let mut walk = Walk::new(settings(&[("rack1", &host)])).await;
    walk.create().await.unwrap();
    assert!(
        walk.machine
            .host
            .as_ref()
            .unwrap()
            .reference
            .starts_with("libvirt://rack1/")
    );
    let [domain] = &host.domains()[..] else {
        panic!("one domain")
    };
    assert!(domain.starts_with("bf-live-rack1-tiny-000-"), "{domain}");

    // The blob tells who can read it.
    let blob =
        format!("#!/bin/sh\n# {SECRET}\nls -ln \"$BIGFLEET_BLOB\" >/etc/bigfleet/mode; env >/etc/bigfleet/env\n");
    walk.configure(blob).await.unwrap();
    let description = host.virsh(&["dumpxml", domain]);
    assert!(
        description.contains("blue") && !description.contains(SECRET),
        "{description}"
    );
    let in_guest = |script: &str| host.run_in_guest(domain, script);
    assert!(in_guest("cat /etc/bigfleet/mode").starts_with("-rw-------    1 0        0"));
    let environment = in_guest("cat /etc/bigfleet/env");
    for line in [
        "BIGFLEET_CLUSTER_ID=blue",
        "BIGFLEET_ZONE=rack1",
        "HOME=/root",
        "BIGFLEET_MACHINE_ID=live-rack1-tiny-000",
    ] {
        assert!(environment.lines().any(|found| found == line), "{line}: {environment}");
    }
    assert_eq!(
        in_guest("ls /run/bigfleet-provider"),
        "",
        "the blob is gone when its hook has ended"
    );

    walk.drain(Duration::from_secs(10)).await.unwrap();
    assert!(!host.virsh(&["dumpxml", domain]).contains("blue"));
    assert_eq!(
        in_guest("ls /etc/bigfleet /var/lib/bigfleet-provider 2>/dev/null | grep -v :").trim(),
        ""
    );

    walk.delete().await.unwrap();
    assert_eq!(host.domains(), [""; 0]);
    assert_eq!(host.volumes(), [""; 0]);
    walk.backend.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_forbids_programs_takes_its_blob_by_seed() {
    let Some(host) = Host::start("an_image_that_forbids_programs_takes_its_blob_by_seed").await else {
        return;
    };
    let mut settings = settings(&[("rack1", &host)]);
    let forbids = "#cloud-config\n# tiny: block-rpcs=guest-exec,guest-exec-status\n{}\n";
    settings.machine.user_data = libvirt_backend::UserData::cloud_init(forbids).unwrap();
    let mut walk = Walk::new(settings).await;
    walk.create().await.unwrap();
    walk.configure(format!("#!/bin/sh\n# {SECRET}\necho joined\n"))
        .await
        .unwrap();
    let domain = host.domains().remove(0);
    assert!(host.virsh(&["dumpxml", &domain]).contains("blue"));
    let seed = host
        .volumes()
        .into_iter()
        .find(|name| name.ends_with("-seed.iso"))
        .unwrap();
    let content = std::fs::read(host.dir().join("lib/images").join(seed)).unwrap();
    let secret = content.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    assert!(!secret, "the secret stays in the seed no longer than it has to");
    // There is no way to run its drain hook, so it is made anew.
    walk.drain(Duration::from_secs(1)).await.unwrap();
    let error = walk
        .configure("#!/bin/sh\necho no route to the API server\nexit 4\n")
        .await
        .unwrap_err()
        .report();
    assert!(
        error.contains("exit code 4") && error.contains("no route to the API server"),
        "{error}"
    );
    walk.backend.stop().await;
}

/// Nothing of the first cluster is readable by the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_is_made_anew_is_clean() {
    let Some(host) = Host::start("a_machine_that_is_made_anew_is_clean").await else {
        return;
    };
    let mut settings = settings(&[("rack1", &host)]);
    settings.guest.drain_reset = DrainReset::Recreate;
    let mut walk = Walk::new(settings).await;
    walk.create().await.unwrap();
    let reference = walk.machine.host.clone();
    walk.configure("#!/bin/sh\nmkdir -p /state; echo left behind >/state/trace; sync\n")
        .await
        .unwrap();
    let before = host.volumes();
    walk.drain(Duration::from_secs(1)).await.unwrap();
    let after = host.volumes();
    assert!(
        after.len() == 2 && before.iter().all(|name| !after.contains(name)),
        "{before:?} {after:?}"
    );
    assert_eq!(walk.machine.host, reference, "the machine is the same");
    let domain = host.domains().remove(0);
    assert_eq!(
        host.run_in_guest(&domain, "cat /state/trace 2>/dev/null || echo clean"),
        "clean"
    );
    walk.configure("anything").await.unwrap();
    walk.backend.stop().await;
}

/// What is not there any more is not in the way (field reports F74, F75).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_gone_already_deleting_succeeds_and_takes_the_rest() {
    let Some(host) = Host::start("whatever_is_gone_already_deleting_succeeds_and_takes_the_rest").await else {
        return;
    };
    let mut settings = settings(&[("rack1", &host)]);
    settings.guest.idle_when = libvirt_backend::settings::IdleWhen::Running;
    settings.guest.stop_grace = Duration::ZERO;
    settings.guest.restart = false;
    let mut walk = Walk::new(settings).await;
    // Its neighbours: a domain of somebody else's with a name like ours, and a volume.
    let foreign = "<domain type='qemu'><name>bf-live-rack1-tiny-000-00000000</name><memory unit='MiB'>16</memory>\
        <os><type>hvm</type></os></domain>";
    host.define(foreign);
    host.virsh(&[
        "vol-create-as",
        "default",
        "bf-live-rack1-tiny-000-00000000-11111111.qcow2",
        "1M",
        "--format",
        "qcow2",
    ]);
    for gone in 0..8_u8 {
        walk.create().await.unwrap();
        let domain = host
            .domains()
            .into_iter()
            .find(|name| name != "bf-live-rack1-tiny-000-00000000")
            .unwrap();
        let volume = |suffix: &str| {
            let own = host
                .volumes()
                .into_iter()
                .find(|name| name.starts_with(&domain) && name.ends_with(suffix));
            own.unwrap()
        };
        let (disk, seed) = (volume(".qcow2"), volume("-seed.iso"));
        if gone & 1 != 0 {
            host.virsh(&["destroy", &domain]);
            host.virsh(&["undefine", &domain]);
        }
        if gone & 2 != 0 {
            host.virsh(&["vol-delete", "--pool", "default", &disk]);
        }
        if gone & 4 != 0 {
            host.virsh(&["vol-delete", "--pool", "default", &seed]);
        }
        walk.delete()
            .await
            .unwrap_or_else(|error| panic!("case {gone}: {}", error.report()));
        assert_eq!(host.domains(), ["bf-live-rack1-tiny-000-00000000"], "case {gone}");
        assert_eq!(
            host.volumes(),
            ["bf-live-rack1-tiny-000-00000000-11111111.qcow2"],
            "case {gone}"
        );
    }
    walk.backend.stop().await;
}

/// Snapshots, checkpoints, saved memory: what a plain undefine is refused for (field report F76).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_came_to_a_machine_since_goes_with_it() {
    let Some(host) = Host::start("what_came_to_a_machine_since_goes_with_it").await else {
        return;
    };
    let mut settings = settings(&[("rack1", &host)]);
    settings.guest.idle_when = libvirt_backend::settings::IdleWhen::Running;
    settings.guest.stop_grace = Duration::ZERO;
    let mut walk = Walk::new(settings).await;
    walk.create().await.unwrap();
    let domain = host.domains().remove(0);
    host.virsh(&[
        "snapshot-create-as",
        &domain,
        "before",
        "--disk-only",
        "--diskspec",
        "vdb,snapshot=no",
    ]);
    assert_eq!(host.volumes().len(), 3, "the snapshot made a file");
    walk.delete().await.unwrap();
    assert_eq!((host.domains(), host.volumes()), (vec![], vec![]));
    walk.backend.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_domain_that_is_not_ours_is_never_taken_for_ours() {
    let Some(host) = Host::start("a_domain_that_is_not_ours_is_never_taken_for_ours").await else {
        return;
    };
    let mut walk = Walk::new(settings(&[("rack1", &host)])).await;
    let name = libvirt_backend::name::DomainName::new("live", &walk.machine.id);
    host.define(&format!(
        "<domain type='qemu'><name>{name}</name><memory unit='MiB'>16</memory><os><type>hvm</type></os></domain>"
    ));
    let operation = walk.operation();
    let id = operation.id;
    let error = walk.create_as(operation).await.unwrap_err().report();
    assert!(error.contains("not ours") && error.contains(name.as_str()), "{error}");
    walk.cleanup(id, Transition::Create).await;
    walk.machine.state = State::Deleting;
    walk.delete().await.unwrap();
    assert_eq!(host.domains(), [name.as_str()]);
    walk.backend.stop().await;
}

/// A daemon that restarts, or stands still, in the middle of a Create costs time and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_ends_or_freezes_only_costs_time() {
    let (Some(host), Some(other)) = (
        Host::start("a_daemon_that_ends_or_freezes_only_costs_time").await,
        Host::start("a_daemon_that_ends_or_freezes_only_costs_time, second host").await,
    ) else {
        return;
    };
    let mut walk = Walk::new(settings(&[("rack1", &host), ("rack2", &other)])).await;
    let neighbour = loop {
        let slots = offered(&walk.backend).await;
        if let Some(slot) = slots.into_iter().find(|slot| slot.profile.zone == "rack2") {
            break slot;
        }
        walk.backend.changed().await;
    };
    let mut neighbour = Walk {
        backend: walk.backend.clone(),
        machine: providerkit_backend::Machine::new(
            MachineId::new(Arc::clone(&neighbour.name)).unwrap(),
            Arc::clone(&neighbour.profile),
        ),
        budget: walk.budget,
    };
    let trouble = async {
        soon("the domain is defined", || !host.domains().is_empty()).await;
        host.signal_daemon("KILL");
        host.start_daemon().await;
        soon("the daemon is back", || host.answers()).await;
        host.signal_daemon("STOP");
        // The other host does not notice.
        neighbour.create().await.unwrap();
        host.signal_daemon("CONT");
    };
    let (created, ()) = tokio::join!(walk.create(), trouble);
    created.unwrap();
    assert_eq!((host.domains().len(), host.volumes().len()), (1, 2));
    walk.backend.stop().await;
}

/// Field report F90: after a host lost power, what should run runs again, without a call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_lost_power_gets_its_machines_back() {
    let Some(mut host) = Host::start("a_host_that_lost_power_gets_its_machines_back").await else {
        return;
    };
    let mut walk = Walk::new(settings(&[("rack1", &host)])).await;
    walk.create().await.unwrap();
    let known = [Known::new(Arc::from(walk.machine.id.as_str()), walk.machine.clone())];
    walk.backend.describe(&known).await.unwrap();
    host.kill().await;
    host.boot().await;
    let domain = host.domains().remove(0);
    soon("the machine runs again", || {
        host.virsh(&["domstate", &domain]) == "running"
    })
    .await;
    // The guest stopped by itself.
    host.virsh(&["destroy", &domain]);
    soon("the machine runs once more", || {
        host.virsh(&["domstate", &domain]) == "running"
    })
    .await;
    walk.configure("works").await.unwrap();
    walk.backend.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_host_has_is_told_as_it_is() {
    let Some(host) = Host::start("what_a_host_has_is_told_as_it_is").await else {
        return;
    };
    let mut settings = settings(&[("rack1", &host)]);
    settings.offerings[0].instance_type = InstanceType {
        name: "large".into(),
        vcpus: 1,
        // Two of them fit, not three.
        memory_mib: 9 * 1024,
        disk_gib: None,
    };
    let backend = libvirt_backend::Libvirt::start(settings.clone());
    let slots = offered(&backend).await;
    let count = slots.iter().filter(|slot| slot.withheld.is_none()).count();
    let fitting = usize::try_from((memory_mib() - 512) / (9 * 1024)).unwrap();
    assert_eq!(count, fitting.min(4), "{slots:?}");
    let machine = |n: usize| {
        let slot = &slots[n];
        providerkit_backend::Machine::new(
            MachineId::new(Arc::clone(&slot.name)).unwrap(),
            Arc::clone(&slot.profile),
        )
    };
    for n in 0..fitting.min(4) {
        backend.admit(&machine(n), Transition::Create).unwrap();
    }
    if fitting < 4 {
        let refusal = backend
            .admit(&machine(fitting), Transition::Create)
            .unwrap_err()
            .report();
        assert!(refusal.contains("MiB of memory asked"), "{refusal}");
        let slots = backend.describe(&[]).await.unwrap();
        assert!(slots.iter().all(|slot| slot.withheld.is_some()), "all room is promised");
    }
    backend.stop().await;

    // A machine that was there is found again when the state was lost, and is lost when somebody removed it.
    let mut walk = Walk::new(crate::walk::settings(&[("rack1", &host)])).await;
    walk.create().await.unwrap();
    walk.configure("x").await.unwrap();
    walk.backend.stop().await;
    let backend = libvirt_backend::Libvirt::start(crate::walk::settings(&[("rack1", &host)]));
    let slots = offered(&backend).await;
    let adopted: Vec<_> = slots.iter().filter_map(|slot| slot.adopted.as_ref()).collect();
    let [adopted] = adopted[..] else {
        panic!("one machine: {slots:?}")
    };
    assert_eq!(
        (&adopted.machine, &adopted.host),
        (&walk.machine.id, walk.machine.host.as_ref().unwrap())
    );
    assert_eq!(adopted.cluster.as_ref().unwrap().as_str(), "blue");
    assert_eq!(adopted.metadata["note"], "a<b");

    let known = [Known::new(Arc::from(walk.machine.id.as_str()), walk.machine.clone())];
    let slots = backend.describe(&known).await.unwrap();
    assert!(slots.iter().all(|slot| slot.lost.is_none()));
    let domain = host.domains().remove(0);
    host.virsh(&["destroy", &domain]);
    host.virsh(&["undefine", &domain]);
    let gone = async || {
        let slots = backend.describe(&known).await.unwrap();
        slots.into_iter().find_map(|slot| slot.lost)
    };
    let lost: Option<HostRef> = loop {
        if let Some(lost) = gone().await {
            break Some(lost.host);
        }
        backend.changed().await;
    };
    assert_eq!(lost, walk.machine.host);
    backend.stop().await;
}

/// Field reports F33, F78, F85: what belongs to no machine is found, what is not ours is not even named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leftovers_are_found_and_decoys_are_not() {
    let Some(host) = Host::start("leftovers_are_found_and_decoys_are_not").await else {
        return;
    };
    let mut settings = settings(&[("rack1", &host)]);
    settings.guest.idle_when = libvirt_backend::settings::IdleWhen::Running;
    let mut other = settings.clone();
    other.provider = "somebody-else".into();
    let mut neighbour = Walk::new(other).await;
    neighbour.create().await.unwrap();
    let mut walk = Walk::new(settings).await;
    walk.create().await.unwrap();
    let own = host
        .domains()
        .into_iter()
        .find(|name| name.starts_with("bf-live-"))
        .unwrap();
    // The name of another life of the same machine's disk, and names that only look like one.
    let left = format!("{own}-00000000.qcow2");
    for name in [&left, &format!("{own}-data.qcow2"), "bf-live-rack1-tiny-001.qcow2"] {
        host.virsh(&["vol-create-as", "default", name, "1M", "--format", "qcow2"]);
    }

    let mut machine = walk.machine.clone();
    let told = async |machine: &providerkit_backend::Machine| {
        let known = [Known::new(Arc::from(machine.id.as_str()), machine.clone())];
        walk.backend.describe(&known).await.unwrap();
        let found = walk.backend.leftovers().await.unwrap();
        found.into_iter().map(|(_, leftover)| leftover).collect::<Vec<_>>()
    };
    let volume = Leftover::Volume("default".into(), left);
    assert_eq!(
        told(&machine).await,
        [volume],
        "a machine's own domain and volumes are none"
    );
    // As the machine's engine sees it after the Create had failed and was cleaned up: the domain is an attempt's.
    machine.host = None;
    machine.state = State::Speculative;
    let found = told(&machine).await;
    assert!(
        found.contains(&Leftover::Domain(machine.id.clone(), own.clone())),
        "{found:?}"
    );
    // A domain that is bound is kept, whatever the state says.
    walk.machine.cluster = Some(providerkit_backend::ClusterId::new("blue").unwrap());
    let element = format!(
        "<machine>{}</machine>",
        host.metadata(&own)
            .replace("\"since\"", "\"binding\":{\"cluster\":\"blue\"},\"since\"")
    );
    host.set_metadata(&own, &element);
    let stray = Leftover::Stray(machine.id.clone(), own.clone());
    loop {
        if told(&machine).await.contains(&stray) {
            break;
        }
        walk.backend.changed().await;
    }
    let known = [Known::new(
        Arc::from(neighbour.machine.id.as_str()),
        neighbour.machine.clone(),
    )];
    neighbour.backend.describe(&known).await.unwrap();
    assert_eq!(neighbour.backend.leftovers().await.unwrap(), []);
    walk.backend.stop().await;
    neighbour.backend.stop().await;
}

/// Names that are not there are told with those that are (field report F92).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_misspelt_is_told_with_what_there_is() {
    let Some(host) = Host::start("what_is_misspelt_is_told_with_what_there_is").await else {
        return;
    };
    type Change = fn(&mut libvirt_backend::settings::Settings);
    let cases: [(Change, &[&str]); 3] = [
        (
            |settings| settings.machine.image = "tyni.qcow2".into(),
            &["`tyni.qcow2`", "`tiny.qcow2`"],
        ),
        (
            |settings| settings.machine.pool = "fast".into(),
            &["`fast`", "`default`"],
        ),
        (
            |settings| settings.machine.networks = vec![libvirt_backend::settings::Network::Network("lan".into())],
            &["`lan`", "`default`"],
        ),
    ];
    for (change, words) in cases {
        let mut settings = settings(&[("rack1", &host)]);
        change(&mut settings);
        let mut walk = Walk::new(settings).await;
        let error = walk.create().await.unwrap_err().report();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        assert_eq!(host.domains(), [""; 0]);
        walk.backend.stop().await;
    }
}

fn memory_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|line| line.starts_with("MemTotal:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}
