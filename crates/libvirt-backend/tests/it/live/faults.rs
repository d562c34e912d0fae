//! What befalls a host while each transition is under way.

use std::time::Duration;

use crate::{
    counted,
    lab::{Host, soon},
    walk::{Walk, during, settings},
};

/// A guest that tells how far it has come, and takes its time.
const BLOB: &str = "#!/bin/sh
cat >/etc/bigfleet/on-drain <<'END'
#!/bin/sh
: >/etc/bigfleet/leaving
sleep 6
END
chmod +x /etc/bigfleet/on-drain
echo once >>/etc/bigfleet/runs
: >/etc/bigfleet/begun
sync
sleep 6
";
/// Has the guest note that its power button was pressed, and do nothing.
const DEAF: &str = "printf '#!/bin/sh\\n: >/run/pressed\\n' >/etc/acpi/PWRF/00000080";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The daemon is killed, and started again; guests run on.
    Restart,
    /// The daemon stands still until it is given up.
    Freeze,
    /// The host and its guests lose power; it boots again.
    Power,
}

impl Fault {
    async fn strike(self, host: &mut Host) {
        match self {
            Self::Restart => {
                host.signal_daemon("KILL");
                host.start_daemon().await;
                soon("the daemon is back", || host.answers()).await;
            }
            Self::Freeze => {
                let lost = || counted::count("host_reconnects_total", &[("zone", self.zone())]);
                let before = lost();
                host.signal_daemon("STOP");
                soon("the daemon is given up", || lost() > before).await;
                host.signal_daemon("CONT");
            }
            Self::Power => {
                host.kill().await;
                host.boot().await;
            }
        }
    }

    /// A zone of its own, by which its counts are known.
    const fn zone(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Freeze => "freeze",
            Self::Power => "power",
        }
    }
}

/// A machine's whole life, with the fault in the middle of each of its transitions.
async fn live_through(fault: Fault) {
    let Some(mut host) = Host::start(&format!("live_through {fault:?}")).await else {
        return;
    };
    counted::begin();
    let mut settings = settings(&[(fault.zone(), &host)]);
    settings.guest.stop_grace = Duration::from_secs(8);
    let mut walk = Walk::new(settings).await;

    let struck = async {
        soon("the domain is defined", || !host.domains().is_empty()).await;
        fault.strike(&mut host).await;
    };
    let created = during(walk.create(), struck).await;
    created.unwrap_or_else(|error| panic!("Create, {fault:?}: {}", error.report()));
    assert_eq!((host.domains().len(), host.volumes().len()), (1, 2));
    let domain = host.domains().remove(0);

    let struck = async {
        soon("the hook has begun", || host.guest_has(&domain, "/etc/bigfleet/begun")).await;
        fault.strike(&mut host).await;
    };
    let configured = during(walk.configure(BLOB), struck).await;
    configured.unwrap_or_else(|error| panic!("Configure, {fault:?}: {}", error.report()));
    assert_eq!(host.run_in_guest(&domain, "cat /etc/bigfleet/cluster"), "blue");
    // The tiny guest keeps in memory that its hook ran, so that with its power that is gone, too.
    let runs = if fault == Fault::Power { "once\nonce" } else { "once" };
    assert_eq!(host.run_in_guest(&domain, "cat /etc/bigfleet/runs"), runs);

    let disks = host.volumes();
    let struck = async {
        soon("the guest is leaving", || {
            host.guest_has(&domain, "/etc/bigfleet/leaving")
        })
        .await;
        fault.strike(&mut host).await;
    };
    let drained = during(walk.drain(Duration::from_secs(30)), struck).await;
    drained.unwrap_or_else(|error| panic!("Drain, {fault:?}: {}", error.report()));
    assert_eq!(host.run_in_guest(&domain, "ls /etc/bigfleet"), "");
    // A guest that lost its power in the middle of leaving is not trusted to have left.
    let forced = fault == Fault::Power;
    assert_eq!(
        counted::count("forced_drains_total", &[("zone", fault.zone())]) == 1,
        forced
    );
    assert_eq!(host.volumes() != disks, forced);

    host.run_in_guest(&domain, DEAF);
    let struck = async {
        soon("the guest is asked to stop", || host.guest_has(&domain, "/run/pressed")).await;
        fault.strike(&mut host).await;
    };
    let deleted = during(walk.delete(), struck).await;
    deleted.unwrap_or_else(|error| panic!("Delete, {fault:?}: {}", error.report()));
    assert_eq!((host.domains(), host.volumes()), (vec![], vec![]));
    walk.backend.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_restarts_costs_no_transition() {
    live_through(Fault::Restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_freezes_costs_no_transition() {
    live_through(Fault::Freeze).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_loses_power_costs_no_transition() {
    live_through(Fault::Power).await;
}

/// While a node is waited for, nobody else starts its machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_stops_while_its_node_is_waited_for_is_started_again() {
    let test = "a_machine_that_stops_while_its_node_is_waited_for_is_started_again";
    let Some(host) = Host::start(test).await else {
        return;
    };
    let mut walk = Walk::new(settings(&[("rack1", &host)])).await;
    walk.create().await.unwrap();
    let domain = host.domains().remove(0);
    let stopped = async {
        soon("the node is waited for", || host.guest_has(&domain, "/run/asked")).await;
        host.virsh(&["destroy", &domain]);
    };
    // Until the guest boots again, with the image's own hook.
    let blob = "#!/bin/sh\nprintf '#!/bin/sh\\n: >/run/asked; exit 1\\n' >/opt/bigfleet/ready\n";
    let configured = during(walk.configure(blob), stopped).await;
    configured.unwrap();
    walk.delete().await.unwrap();
    walk.backend.stop().await;
}

/// An agent that does not come ends the Create with what is known of it; one that comes late only costs time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_never_comes_is_told_and_a_late_one_is_waited_for() {
    let test = "an_agent_that_never_comes_is_told_and_a_late_one_is_waited_for";
    let Some(host) = Host::start(test).await else {
        return;
    };
    for (knob, comes) in [("agent=off", false), ("agent-delay=10", true)] {
        let mut settings = settings(&[("rack1", &host)]);
        let user_data = format!("#cloud-config\n# tiny: {knob}\n{{}}\n");
        settings.machine.user_data = libvirt_backend::UserData::cloud_init(user_data).unwrap();
        let mut walk = Walk::new(settings).await;
        if comes {
            walk.create().await.unwrap();
            walk.delete().await.unwrap();
        } else {
            walk.budget = Duration::from_secs(45);
            let operation = walk.operation();
            let id = operation.id;
            let error = walk.create_as(operation).await.unwrap_err().report();
            // The console says that the guest itself is well.
            for words in ["guest agent", "qemu-guest-agent at boot", "deadline", "tiny: up after"] {
                assert!(error.contains(words), "{words}: {error}");
            }
            walk.budget = Duration::from_secs(300);
            walk.cleanup(id, providerkit_backend::Transition::Create).await;
        }
        assert_eq!((host.domains(), host.volumes()), (vec![], vec![]), "{knob}");
        walk.backend.stop().await;
    }
}
