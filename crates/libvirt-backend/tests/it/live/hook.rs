//! Hooks in guests.

use std::time::Duration;

use libvirt_backend::UserData;
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

/// A reboot is no death (field report F89), but no hook outlives it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_reboots_stays_and_says_which_hook_it_cut_off() {
    let Some(host) = Host::start("a_guest_that_reboots_stays_and_says_which_hook_it_cut_off").await else {
        return;
    };
    // With what is known of a hook on the guest's disk, and lost with its memory.
    for (keeps, said) in [
        (
            "on",
            "was cut off by a restart of the guest; the end of its output: new kernel",
        ),
        ("off", "was cut off by a restart of the guest, which has forgotten it"),
    ] {
        let mut settings = settings(&[("rack1", &host)]);
        let knob = format!("#cloud-config\n# tiny: keep-runs={keeps}\n{{}}\n");
        settings.machine.user_data = UserData::cloud_init(knob).unwrap();
        let mut walk = Walk::new(settings).await;
        walk.create().await.unwrap();
        let domain = host.domains().remove(0);
        let same = || (host.virsh(&["domuuid", &domain]), host.volumes());
        let boot = || host.run_in_guest(&domain, "cat /proc/sys/kernel/random/boot_id");
        let (first, before) = (same(), boot());
        // Between two operations, nobody notices.
        host.virsh(&["reset", &domain]);
        walk.configure("#!/bin/sh\necho joined\n").await.unwrap();
        assert_ne!(boot(), before);
        walk.drain(Duration::ZERO).await.unwrap();
        assert_eq!(same(), first);

        let reboots = "#!/bin/sh\necho new kernel\nsleep 4\nsync\necho b >/proc/sysrq-trigger\nsleep 600\n";
        let error = walk.configure(reboots).await.unwrap_err().report();
        assert!(error.contains(said), "{keeps}: {error}");
        assert_eq!(same(), first);

        walk.cleanup(OperationId::mint(), Transition::Configure).await;
        assert_eq!((host.domains(), host.volumes()), (vec![], vec![]));
        walk.backend.stop().await;
    }
}

/// A hook whose blob is gone with the guest's memory is not run without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_hook_runs_without_its_blob() {
    let Some(host) = Host::start("no_hook_runs_without_its_blob").await else {
        return;
    };
    let mut walk = Walk::new(settings(&[("rack1", &host)])).await;
    walk.create().await.unwrap();
    // At once, so that most often the guest could not tell yet that the hook was started, and is told so again.
    let reboots = "#!/bin/sh\necho b >/proc/sysrq-trigger\nsleep 600\n";
    let error = walk.configure(reboots).await.unwrap_err().report();
    let (again, waited) = (
        "the bootstrap blob that was in its memory is gone",
        "which has forgotten it",
    );
    assert!(error.contains(again) || error.contains(waited), "{error}");
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
