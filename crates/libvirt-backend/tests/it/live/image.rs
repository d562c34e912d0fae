//! A golden image that somebody changes.

use std::{sync::Arc, time::Duration};

use providerkit_backend::{Backend as _, Known};

use crate::{
    lab::{Host, TINY, soon},
    walk::{Walk, offered, settings},
};

/// Field report F38: what is below the machines' disks is immutable, and a change is noticed before it does more harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_is_replaced_under_its_machines_makes_no_more_and_starts_none() {
    let test = "an_image_that_is_replaced_under_its_machines_makes_no_more_and_starts_none";
    let Some(host) = Host::start(test).await else {
        return;
    };
    let mut settings = settings(&[("rack1", &host)]);
    settings.guest.idle_when = libvirt_backend::settings::IdleWhen::Running;
    let mut walk = Walk::new(settings.clone()).await;
    walk.create().await.unwrap();
    walk.backend.stop().await;
    let domain = host.domains().remove(0);
    let image = host.dir().join("lib/images").join(TINY.name());
    let kept = image.with_extension("kept");
    std::fs::rename(&image, &kept).unwrap();
    let with_start = async |walk: &mut Walk| {
        walk.backend = libvirt_backend::Libvirt::start(settings.clone());
        offered(&walk.backend).await
    };
    let known = [Known::new(Arc::from(walk.machine.id.as_str()), walk.machine.clone())];

    // It is gone, then another has its name.
    for words in [
        &["is not in pool `default`"][..],
        &["was replaced under 1 machines", "another name"],
    ] {
        let slots = with_start(&mut walk).await;
        let other = slots
            .iter()
            .find(|slot| *slot.name != *walk.machine.id.as_str())
            .unwrap();
        let mut another = Walk::of(walk.backend.clone(), other);
        let refusal = another.create().await.unwrap_err().report();
        assert!(words.iter().all(|word| refusal.contains(word)), "{refusal}");
        assert_eq!(host.domains(), [domain.as_str()]);
        walk.backend.stop().await;
        if !image.exists() {
            std::fs::copy(&kept, &image).unwrap();
        }
    }

    // A machine that stops is left as it is until its image is back.
    with_start(&mut walk).await;
    walk.backend.describe(&known).await.unwrap();
    host.virsh(&["destroy", &domain]);
    loop {
        walk.backend.describe(&known).await.unwrap();
        if tokio::time::timeout(Duration::from_secs(5), walk.backend.changed())
            .await
            .is_err()
        {
            break;
        }
    }
    assert_eq!(host.virsh(&["domstate", &domain]), "shut off");
    walk.backend.stop().await;
    std::fs::rename(&kept, &image).unwrap();
    with_start(&mut walk).await;
    walk.backend.describe(&known).await.unwrap();
    soon("the machine runs again", || {
        host.virsh(&["domstate", &domain]) == "running"
    })
    .await;
    walk.delete().await.unwrap();
    assert!(image.exists());
    walk.backend.stop().await;
}
