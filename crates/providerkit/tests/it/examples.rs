//! The examples as real processes over real gRPC: the fault-injecting provider by the behaviours of area TF (contract
//! §13), and the minimal one by a whole cycle.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use bigfleet_proto::{
    CapacityProviderClient, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, ListFilter, Machine,
    MachineRef,
    MachineState::{self, Configured, Configuring, Creating, Draining, Failed, Idle, Speculative},
};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

struct Process {
    child: Child,
    client: CapacityProviderClient<Channel>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have been killed by the test already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(
        path.exists(),
        "{} is missing; run `cargo build -p providerkit --examples`",
        path.display()
    );
    path
}

impl Process {
    /// Starts an example in a folder. The port may be taken between asking for it and using it; then it is tried again.
    async fn start(name: &str, folder: &Path, arguments: impl Fn(&str) -> Vec<String>) -> Self {
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let address = format!("127.0.0.1:{port}");
            let mut child = Command::new(example(name))
                .args(arguments(&address))
                .current_dir(folder)
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let deadline = Instant::now() + Duration::from_secs(20);
            while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
                let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
                if let Ok(channel) = endpoint.connect().await {
                    return Self {
                        child,
                        client: CapacityProviderClient::new(channel),
                    };
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            child.kill().ok();
            child.wait().unwrap();
        }
        panic!("{name} does not start");
    }

    async fn fault(timeout: &str, folder: &Path) -> Self {
        Self::start("fault", folder, |address| {
            let state = folder.join("state");
            vec![
                format!("--addr={address}"),
                "--provider=fault".to_owned(),
                "--seed-count=64".to_owned(),
                format!("--transition-timeout={timeout}"),
                format!("--state={}", state.display()),
            ]
        })
        .await
    }

    async fn get(&mut self, id: &str) -> Machine {
        self.client
            .get(MachineRef { id: id.into() })
            .await
            .unwrap()
            .into_inner()
    }

    async fn reach(&mut self, id: &str, state: MachineState, limit: Duration) -> Machine {
        let deadline = Instant::now() + limit;
        loop {
            let machine = self.get(id).await;
            if machine.state() == state {
                return machine;
            }
            assert!(Instant::now() < deadline, "{id} is not {state:?} but {machine:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether the machine is never seen in this state for a while.
    async fn never(&mut self, id: &str, state: MachineState, span: Duration) {
        let end = Instant::now() + span;
        while Instant::now() < end {
            assert_ne!(self.get(id).await.state(), state);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn idle(&mut self, id: &str) {
        self.client
            .create(CreateRequest {
                machine_id: id.into(),
                ..Default::default()
            })
            .await
            .unwrap();
        self.reach(id, Idle, Duration::from_secs(15)).await;
    }

    async fn configure(&mut self, id: &str, cluster: &str) -> Result<(), Status> {
        let request = ConfigureRequest {
            machine_id: id.into(),
            cluster_id: cluster.into(),
            ..Default::default()
        };
        self.client.configure(request).await.map(drop)
    }

    async fn faulty(&mut self, id: &str, cluster: &str) -> Result<(), Status> {
        self.idle(id).await;
        self.configure(id, cluster).await
    }

    async fn list(&mut self, state: MachineState) -> Vec<Machine> {
        let filter = ListFilter {
            states: vec![state.into()],
            ..Default::default()
        };
        self.client.list(filter).await.unwrap().into_inner().machines
    }
}

const SETTLE: Duration = Duration::from_secs(7);
const WHILE: Duration = Duration::from_millis(300);

#[tokio::test]
async fn b701_to_b708_failures_and_timeouts() {
    let folder = tempfile::tempdir().unwrap();
    let mut p = Process::fault("2s", folder.path()).await;
    let seeds = p.list(Speculative).await;
    assert_eq!(seeds.len(), 72);
    let spot = seeds
        .iter()
        .filter(|machine| machine.interruption_probability > 0.0)
        .count();
    assert_eq!(spot, 21);

    // B701, B705, B707: an error is FAILED for good, and told the same every time.
    p.faulty("fault-spec-000", "fault-error").await.unwrap();
    let failed = p.reach("fault-spec-000", Failed, SETTLE).await;
    assert!(!failed.last_error.is_empty());
    p.never("fault-spec-000", Configuring, WHILE).await;
    let refused = p.configure("fault-spec-000", "fault-error").await.unwrap_err();
    assert_ne!(refused.code(), Code::FailedPrecondition);
    for _ in 0..3 {
        assert_eq!(p.get("fault-spec-000").await, failed);
    }
    assert!(p.list(Failed).await.contains(&failed));

    // B702
    p.client
        .create(CreateRequest {
            machine_id: "faultcreate-0".into(),
            ..Default::default()
        })
        .await
        .unwrap();
    assert!(!p.reach("faultcreate-0", Failed, SETTLE).await.last_error.is_empty());
    p.never("faultcreate-0", Creating, WHILE).await;

    // B703, B704, B708 side by side: each takes its timeout.
    p.faulty("fault-spec-001", "fault-timeout").await.unwrap();
    p.faulty("fault-spec-002", "fault-slow-ok").await.unwrap();
    p.faulty("fault-spec-003", "fault-readiness-block").await.unwrap();
    p.never("fault-spec-003", Configured, Duration::from_millis(1500)).await;
    for id in ["fault-spec-001", "fault-spec-002", "fault-spec-003"] {
        let failed = p.reach(id, Failed, Duration::from_secs(5)).await;
        assert!(failed.last_error.contains("2s"), "{}", failed.last_error);
    }
    p.never("fault-spec-002", Configured, Duration::from_secs(4)).await;
    assert_eq!(p.get("fault-spec-002").await.state(), Failed);

    // B706
    p.faulty("fault-spec-004", "fault-drain-error").await.unwrap();
    p.reach("fault-spec-004", Configured, SETTLE).await;
    p.client
        .drain(DrainRequest {
            machine_id: "fault-spec-004".into(),
            ..Default::default()
        })
        .await
        .unwrap();
    let failed = p.reach("fault-spec-004", Failed, SETTLE).await;
    assert!(!failed.last_error.is_empty());
    p.never("fault-spec-004", Draining, WHILE).await;
}

#[tokio::test]
async fn b1006_a_kill_in_the_middle_of_a_configure_is_failed_at_the_first_look() {
    let folder = tempfile::tempdir().unwrap();
    let mut p = Process::fault("30s", folder.path()).await;
    p.faulty("fault-spec-000", "fault-timeout").await.unwrap();
    p.reach("fault-spec-000", Configuring, Duration::from_secs(5)).await;
    drop(p);
    let mut p = Process::fault("30s", folder.path()).await;
    let failed = p.get("fault-spec-000").await;
    assert_eq!(failed.state(), Failed);
    assert!(
        failed.last_error.contains("interrupted by a provider restart"),
        "{}",
        failed.last_error
    );
}

#[tokio::test]
async fn the_minimal_provider_is_a_whole_one() {
    let folder = tempfile::tempdir().unwrap();
    let source = include_str!("../../examples/minimal.rs");
    assert!(source.lines().count() <= 60);
    let mut p = Process::start("minimal", folder.path(), |address| vec![address.to_owned()]).await;
    p.idle("shelf-2").await;
    p.configure("shelf-2", "c").await.unwrap();
    p.reach("shelf-2", Configured, SETTLE).await;
    drop(p);
    let mut p = Process::start("minimal", folder.path(), |address| vec![address.to_owned()]).await;
    assert_eq!(p.get("shelf-2").await.cluster, "c");
    p.client
        .drain(DrainRequest {
            machine_id: "shelf-2".into(),
            ..Default::default()
        })
        .await
        .unwrap();
    p.reach("shelf-2", Idle, SETTLE).await;
    p.client
        .delete(DeleteRequest {
            machine_id: "shelf-2".into(),
            ..Default::default()
        })
        .await
        .unwrap();
    p.reach("shelf-2", Speculative, SETTLE).await;
}
