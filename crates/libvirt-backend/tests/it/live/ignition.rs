//! A guest that takes Ignition instead of cloud-init's seed (field report F53).

use std::{fs, time::Duration};

use libvirt_backend::{UserData, settings::DrainReset};

use crate::{
    lab::Host,
    walk::{Walk, settings},
};

/// Longer than a page, so that more than one read is needed to have it.
fn configuration() -> String {
    let padding = "x".repeat(8192);
    format!(r#"{{"ignition": {{"version": "3.3.0"}}, "storage": {{"files": [{{"path": "/etc/{padding}"}}]}}}}"#)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ignition_image_finds_its_configuration_and_leaves_none() {
    let Some(host) = Host::start("an_ignition_image_finds_its_configuration_and_leaves_none").await else {
        return;
    };
    let mut settings = settings(&[("rack1", &host)]);
    settings.machine.user_data = UserData::ignition(configuration()).unwrap();
    settings.guest.drain_reset = DrainReset::Recreate;
    let mut walk = Walk::new(settings).await;
    walk.create().await.unwrap();
    let domain = host.domains().remove(0);
    let first = read(&host, &domain);
    walk.configure("#!/bin/sh\necho joined\n").await.unwrap();
    walk.drain(Duration::from_secs(1)).await.unwrap();
    let second = read(&host, &domain);
    assert_ne!(first, second, "a machine that is made anew has another name");
    walk.delete().await.unwrap();
    assert_eq!((host.domains(), host.volumes()), (vec![], vec![]));
    walk.backend.stop().await;
}

/// What the guest finds under either name, which is what is in the one volume that is no disk.
fn read(host: &Host, domain: &str) -> String {
    let volumes = host.volumes();
    let [configuration] = &volumes.iter().filter(|name| name.ends_with(".ign")).collect::<Vec<_>>()[..] else {
        panic!("{volumes:?}")
    };
    assert_eq!(volumes.len(), 2, "{volumes:?}");
    let given = fs::read_to_string(host.dir().join("lib/images").join(configuration)).unwrap();
    for name in ["opt/com.coreos/config", "opt/org.flatcar-linux/config"] {
        let found = host.run_in_guest(domain, &format!("cat /sys/firmware/qemu_fw_cfg/by_name/{name}/raw"));
        assert_eq!(found, given, "{name}");
    }
    given
}
