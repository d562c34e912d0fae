//! Pools that are full, and blobs that are large.

use std::time::Duration;

use libvirt_backend::settings::Settings;
use providerkit_backend::{Backend as _, Bytes, Known, Transition};
use std::sync::Arc;

use crate::{
    counted,
    lab::{Host, TINY, soon},
    walk::{Walk, offered, settings},
};

const IMAGES: &str = "/var/lib/libvirt/images";

/// A pool of so many MiB with the image in it.
fn shrink(host: &Host, mebibytes: u32) {
    let image = TINY.name();
    host.run(&format!(
        "cp {IMAGES}/{image} /tmp/lab-{image}; mount -t tmpfs -o size={mebibytes}m tmpfs {IMAGES}; mv /tmp/lab-{image} {IMAGES}/{image}"
    ));
    host.virsh(&["pool-refresh", "default"]);
}

/// Leaves not a byte of the pool, or gives the room back.
fn fill(host: &Host) {
    host.run(&format!("dd if=/dev/zero of={IMAGES}/.ballast bs=64k 2>/dev/null || :"));
}

fn empty(host: &Host) {
    host.run(&format!("rm {IMAGES}/.ballast"));
}

fn with_disk(mut settings: Settings, gib: u64) -> Settings {
    settings.offerings[0].instance_type.disk_gib = Some(gib);
    settings.budget.storage_overcommit = 1.0;
    settings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_without_room_is_told_before_or_after_and_nothing_is_left() {
    let test = "a_pool_without_room_is_told_before_or_after_and_nothing_is_left";
    let Some(host) = Host::start(test).await else {
        return;
    };
    shrink(&host, 64);
    // What is known to be missing is refused before the ack, and not offered.
    let mut walk = Walk::new(with_disk(settings(&[("rack1", &host)]), 1)).await;
    let slots = offered(&walk.backend).await;
    assert!(slots.iter().all(|slot| slot.withheld.is_some()), "{slots:?}");
    let refusal = walk.create().await.unwrap_err().report();
    assert!(refusal.contains("1 GiB of disk asked"), "{refusal}");
    walk.backend.stop().await;
    // What comes out in the middle fails with its cause.
    let mut walk = Walk::new(settings(&[("rack1", &host)])).await;
    fill(&host);
    let operation = walk.operation();
    let id = operation.id;
    let error = walk.create_as(operation).await.unwrap_err().report();
    assert!(error.contains("No space left on device"), "{error}");
    walk.cleanup(id, Transition::Create).await;
    empty(&host);
    assert_eq!((host.domains(), host.volumes()), (vec![], vec![]));
    walk.create().await.unwrap();
    walk.backend.stop().await;
}

/// Field report F40: a guest that QEMU stopped because its disk could not grow goes on when there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_ran_out_of_room_goes_on_when_there_is_some() {
    let test = "a_machine_that_ran_out_of_room_goes_on_when_there_is_some";
    let Some(host) = Host::start(test).await else {
        return;
    };
    counted::begin();
    shrink(&host, 64);
    let mut walk = Walk::new(settings(&[("full", &host)])).await;
    walk.create().await.unwrap();
    let known = [Known::new(Arc::from(walk.machine.id.as_str()), walk.machine.clone())];
    walk.backend.describe(&known).await.unwrap();
    let domain = host.domains().remove(0);
    fill(&host);
    host.run_in_guest(
        &domain,
        "(head -c 8000000 /dev/urandom >/etc/bigfleet/data; sync; : >/run/written) >/dev/null 2>&1 &",
    );
    soon("QEMU stops the guest", || {
        host.virsh(&["domstate", &domain, "--reason"]).contains("I/O error")
    })
    .await;
    let healed = || {
        counted::count(
            "healed_total",
            &[("zone", "full"), ("action", "resumed"), ("outcome", "ok")],
        )
    };
    assert_eq!(healed(), 0, "there is no room yet");
    empty(&host);
    soon("the guest goes on", || host.guest_has(&domain, "/run/written")).await;
    assert!(healed() >= 1);
    assert_eq!(host.run_in_guest(&domain, "wc -c </etc/bigfleet/data"), "8000000");
    walk.delete().await.unwrap();
    walk.backend.stop().await;
}

/// Field report F62: the largest blob there may be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_of_64_mib_arrives() {
    let Some(host) = Host::start("a_blob_of_64_mib_arrives").await else {
        return;
    };
    let mut settings = settings(&[("rack1", &host)]);
    settings.offerings[0].instance_type.memory_mib = 384;
    let mut walk = Walk::new(settings).await;
    walk.budget = Duration::from_secs(400);
    walk.create().await.unwrap();
    let blob = Bytes::from(
        (0..64_u32 << 20)
            .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0])
            .collect::<Vec<_>>(),
    );
    let begun = tokio::time::Instant::now();
    walk.configure(blob.clone()).await.unwrap();
    eprintln!("64 MiB after {:.1?}", begun.elapsed());
    let domain = host.domains().remove(0);
    let file = host.dir().join("blob");
    std::fs::write(&file, &blob).unwrap();
    let sum = std::process::Command::new("sha256sum")
        .arg(&file)
        .output()
        .unwrap()
        .stdout;
    let sum = String::from_utf8(sum).unwrap();
    assert_eq!(
        host.run_in_guest(&domain, "cat /etc/bigfleet/blob.sha256"),
        sum.split_whitespace().next().unwrap()
    );
    walk.backend.stop().await;
}
