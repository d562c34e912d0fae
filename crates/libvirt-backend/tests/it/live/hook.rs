//! Hooks in guests.

use std::time::Duration;

use providerkit_backend::{Bytes, Operation, OperationId, Transition};

use crate::{
    lab::Host,
    walk::{Walk, settings},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_may_do_what_hooks_do() {
    let Some(host) = Host::start("hooks_may_do_what_hooks_do").await else {
        return;
    };
    let mut walk = Walk::new(settings(&[("rack1", &host)])).await;
    walk.create().await.unwrap();
    for (what, blob) in [
        ("prints 20 MB", "#!/bin/sh\nyes 'a line of output' | head -c 20000000\n"),
        ("leaves a process behind", "#!/bin/sh\nsleep 600 &\necho started\n"),
    ] {
        walk.configure(blob)
            .await
            .unwrap_or_else(|error| panic!("a hook that {what}: {}", error.report()));
        walk.drain(Duration::ZERO).await.unwrap();
    }
    walk.configure(Bytes::from(vec![b'x'; 8 << 20])).await.unwrap();
    walk.drain(Duration::ZERO).await.unwrap();

    let error = walk
        .configure("#!/bin/sh\necho certificate expired >&2\nexit 7\n")
        .await
        .unwrap_err()
        .report();
    assert!(
        error.contains("exit code 7") && error.contains("certificate expired"),
        "{error}"
    );

    walk.budget = Duration::from_secs(20);
    let error = walk.configure("#!/bin/sh\nsleep 600\n").await.unwrap_err().report();
    assert!(
        error.contains("/opt/bigfleet/bootstrap to end") && error.contains("deadline"),
        "{error}"
    );
    walk.budget = Duration::from_secs(300);
    let id = OperationId::mint();
    walk.cleanup(id, Transition::Configure).await;
    assert_eq!((host.domains(), host.volumes()), (vec![], vec![]));
    walk.backend.stop().await;
}

/// A reboot is no death (field report F89).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_reboots_is_the_same_machine() {
    let Some(host) = Host::start("a_guest_that_reboots_is_the_same_machine").await else {
        return;
    };
    let mut walk = Walk::new(settings(&[("rack1", &host)])).await;
    walk.create().await.unwrap();
    let domain = host.domains().remove(0);
    let same = || (host.virsh(&["domuuid", &domain]), host.volumes());
    let boot = || host.run_in_guest(&domain, "cat /proc/sys/kernel/random/boot_id");
    let (first, before) = (same(), boot());
    host.virsh(&["reset", &domain]);
    walk.configure("#!/bin/sh\necho joined\n").await.unwrap();
    assert_ne!(boot(), before);
    assert_eq!(same(), first);
    walk.drain(Duration::ZERO).await.unwrap();
    walk.delete().await.unwrap();
    assert_eq!((host.domains(), host.volumes()), (vec![], vec![]));
    walk.backend.stop().await;
}

/// The same operation, begun again in the middle of the first run, does not run the hook twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_is_driven_on_runs_its_hook_once() {
    let Some(host) = Host::start("an_operation_that_is_driven_on_runs_its_hook_once").await else {
        return;
    };
    let mut walk = Walk::new(settings(&[("rack1", &host)])).await;
    let id = OperationId::mint();
    // A provider that is killed in the middle of a Create, again and again, a little later each time.
    for attempt in 1..=5_u32 {
        let operation = Operation::new(id, walk.budget).attempt(attempt);
        let cut = Duration::from_millis(u64::from(attempt * attempt) * 150);
        drop(tokio::time::timeout(cut, walk.create_as(operation)).await);
        assert!(
            host.domains().len() <= 1 && host.volumes().len() <= 2,
            "{:?}",
            host.volumes()
        );
    }
    walk.create_as(Operation::new(id, walk.budget).attempt(6))
        .await
        .unwrap();
    assert_eq!((host.domains().len(), host.volumes().len()), (1, 2));

    let blob = Bytes::from_static(b"#!/bin/sh\necho once >>/etc/bigfleet/runs\nsleep 3\n");
    let operation = Operation::new(OperationId::mint(), walk.budget);
    for cut in [500, 2500] {
        let again = walk.configure_as(operation.clone(), blob.clone());
        drop(tokio::time::timeout(Duration::from_millis(cut), again).await);
    }
    walk.configure_as(operation.clone(), blob.clone()).await.unwrap();
    // A reply that was lost: the operation has ended, and is asked for again.
    walk.configure_as(operation, blob).await.unwrap();
    let domain = host.domains().remove(0);
    assert_eq!(host.run_in_guest(&domain, "cat /etc/bigfleet/runs"), "once");
    walk.backend.stop().await;
}
