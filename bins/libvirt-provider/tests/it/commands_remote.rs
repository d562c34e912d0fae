//! `probe` and `inspect`, on a provider that runs and on the file it keeps.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    net::{SocketAddr, TcpListener},
    path::Path,
    time::Duration,
};

use bigfleet_proto::{
    ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, HostRef, ListFilter, Machine, MachineList,
    MachineRef, MachineState, TransitionAck,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tonic::{Request, Response, Status};

use crate::{
    harness::{AWAIT, Binding, Launch, Run, Shard, Token, eventually, operation},
    tls::Authority,
};

/// Long enough that it is seen, with whatever else the machine does.
const LONG: Duration = Duration::from_secs(600);

fn at(command: &[&str], address: SocketAddr) -> Run {
    Run::of(command).flag("--addr", address.to_string())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The words of every line.
fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

/// Waits until a command succeeds: a port is open a moment before its provider says that it serves.
async fn in_the_end(command: impl Fn() -> Run) -> String {
    let mut out = String::new();
    eventually("the command succeeds", AWAIT, async || {
        let end = command().end();
        out = end.out;
        end.code == 0
    })
    .await;
    out
}

/// Every file of a state, but SQLite's shared memory, which every reader takes part in, and what fake hosts keep.
fn bytes_of(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = entries.map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    });
    let is_state = |name: &str| !name.ends_with("-shm") && !name.contains(".hosts");
    files.filter(|(name, _)| is_state(name)).collect()
}

#[tokio::test]
async fn a_probe_says_in_one_line_what_it_saw() {
    let admin = SocketAddr::from(([127, 0, 0, 1], crate::harness::fresh_port()));
    let launch = Launch::new().seeds(5).metrics(Some(&admin.to_string()));
    let provider = launch.start().await;
    provider.idle().await;
    let address = provider.address();
    assert_eq!(
        at(&["probe"], address).ok(),
        format!("{address}: serving, 5 machines, 1 IDLE, 4 SPECULATIVE\n")
    );
    assert_eq!(
        at(&["probe", "--health"], address).ok(),
        format!("{address}: serving\n")
    );
}

#[test]
fn a_probe_of_nobody_and_of_somebody_silent_fails_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let deaf = silent.local_addr().unwrap();
    let nobody = SocketAddr::from(([127, 0, 0, 1], crate::harness::fresh_port()));
    for address in [nobody, deaf] {
        let end = at(&["probe", "--timeout=500ms"], address).end();
        assert_eq!((end.code, end.out.as_str()), (69, ""), "{}", end.err);
        assert!(end.err.contains(&address.to_string()), "{}", end.err);
    }
    for arguments in [["probe", "--addr=x"], ["probe", "--tls-name=n"]] {
        assert_eq!(Run::of(&arguments).end().code, 64, "{arguments:?}");
    }
}

#[tokio::test]
async fn a_probe_of_a_provider_that_leaves_says_try_again() {
    let provider = Launch::new().flag("--set=shutdown.delay=1h").start().await;
    in_the_end(|| at(&["probe"], provider.address())).await;
    let pid = Pid::from_raw(i32::try_from(provider.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    eventually("the probe says so", AWAIT, async || {
        let end = at(&["probe"], provider.address()).end();
        end.code == 75 && end.err.contains("not serving")
    })
    .await;
}

#[tokio::test]
async fn commands_speak_tls_and_show_a_certificate() {
    let authority = Authority::new();
    let provider = authority.mutual().seeds(2).start().await;
    let leaf = authority.client(&["bigfleet://shard/alpha"]);
    let certificate = authority.write("client.crt", &leaf.certificate.pem());
    let key = authority.write("client.key", &leaf.key.serialize_pem());
    let run = |command: &[&str]| {
        let run = Run::of(command).flag("--addr", format!("localhost:{}", provider.address().port()));
        run.flag("--tls-ca", authority.file())
    };
    let known = |command: &[&str]| run(command).flag("--tls-cert", &certificate).flag("--tls-key", &key);
    let probed = in_the_end(|| known(&["probe"])).await;
    assert!(probed.ends_with("serving, 2 machines, 2 SPECULATIVE\n"), "{probed}");
    assert_eq!(known(&["inspect", "machines", "--no-headers"]).ok().lines().count(), 2);

    let stranger = run(&["probe"]).end();
    assert_eq!(stranger.code, 69, "{}", stranger.err);
    let plain = at(&["probe"], provider.address()).end();
    assert_eq!(plain.code, 69, "{}", plain.err);
    let other = Authority::new();
    let distrusted = Run::of(&["probe"])
        .flag("--addr", format!("localhost:{}", provider.address().port()))
        .flag("--tls-ca", other.file())
        .end();
    assert!(
        distrusted.code == 69 && distrusted.err.contains("certificate"),
        "{}",
        distrusted.err
    );
}

#[tokio::test]
async fn machines_are_shown_as_tables_and_as_json() {
    let provider = Launch::new().seeds(6).start().await;
    let id = provider.configured(&Binding::to("blue").with("k", "v")).await;
    let show = |command: &[&str]| at(command, provider.address()).ok();

    let table = show(&["inspect", "machines"]);
    let lines = words(&table);
    assert_eq!(lines[0], ["ID", "STATE", "TYPE", "ZONE", "CLUSTER", "LAST", "ERROR"]);
    let ours = lines.iter().find(|line| line[0] == id).unwrap();
    assert_eq!((ours[1], ours[4], lines.len()), ("CONFIGURED", "blue", 7));
    assert_eq!(show(&["inspect", "machines", "--no-headers"]).lines().count(), 6);
    let wide = show(&["inspect", "machines", "-o", "wide"]);
    assert!(
        wide.starts_with("ID ") && wide.contains("PRICE/H") && wide.contains("libvirt://fake-zone-"),
        "{wide}"
    );

    let all = json(&show(&["inspect", "machines", "-o", "json"]));
    assert_eq!(all.as_array().unwrap().len(), 6);
    let one = json(&show(&["inspect", "machine", &id, "-o", "json"]));
    assert_eq!(
        (&one["state"], &one["cluster"], &one["shard_metadata"]["k"]),
        (&"CONFIGURED".into(), &"blue".into(), &"v".into())
    );
    assert!(all.as_array().unwrap().contains(&one));
    let text = show(&["inspect", "machine", &id]);
    assert!(
        text.contains("\nstate         CONFIGURED\n") && text.contains("\nmetadata      k=v\n"),
        "{text}"
    );

    let offerings = json(&show(&["inspect", "offerings", "-o", "json"]));
    let count = |of: &str| {
        offerings
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row[of].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(
        (count("slots"), count("free"), count("in_use"), count("failed")),
        (6, 5, 1, 0)
    );
    assert!(show(&["inspect", "offerings"]).starts_with("ZONE "));

    let unknown = at(&["inspect", "machine", "nobody"], provider.address()).end();
    assert!(
        unknown.code == 64 && unknown.err.contains("no machine `nobody`"),
        "{}",
        unknown.err
    );
}

#[tokio::test]
async fn a_watch_goes_on_until_nobody_reads() {
    let provider = Launch::new().seeds(1).start().await;
    let mut child = at(&["inspect", "machines", "--watch"], provider.address()).spawn();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        assert!(lines.next().unwrap().unwrap().starts_with("ID "));
        assert!(lines.next().unwrap().unwrap().contains("SPECULATIVE"));
    }
    drop(lines);
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap());
    assert_eq!(status.await.unwrap().code(), Some(0));
}

/// The Go reference has six calls, and of them only these two are asked for.
#[tokio::test]
async fn a_provider_with_nothing_but_the_contract_is_shown_too() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let service = bigfleet_proto::CapacityProviderServer::new(Bare);
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(incoming),
    );
    let show = async |command: &'static [&'static str]| {
        let ended = tokio::task::spawn_blocking(move || at(command, address).ok());
        ended.await.unwrap()
    };
    assert_eq!(
        show(&["probe"]).await,
        format!("{address}: without a health service, 1 machines, 1 IDLE\n")
    );
    let table = show(&["inspect", "machines"]).await;
    assert_eq!(words(&table)[1], ["m-1", "IDLE", "t", "z", "-", "-"]);
    let machine = show(&["inspect", "machine", "m-1", "-o", "json"]).await;
    assert_eq!(
        (&json(&machine)["host"], &json(&machine)["last_error"]),
        (&"vm-1".into(), &"".into())
    );
}

/// A provider that only lists.
struct Bare;

impl Bare {
    fn machine() -> Machine {
        let host = HostRef {
            provider: "bare".into(),
            r#ref: "vm-1".into(),
        };
        Machine {
            id: "m-1".into(),
            state: MachineState::Idle.into(),
            host: Some(host),
            instance_type: "t".into(),
            zone: "z".into(),
            ..Machine::default()
        }
    }
}

#[tonic::async_trait]
impl bigfleet_proto::CapacityProvider for Bare {
    async fn list(&self, _: Request<ListFilter>) -> Result<Response<MachineList>, Status> {
        Ok(Response::new(MachineList {
            machines: vec![Self::machine()],
            ..MachineList::default()
        }))
    }

    async fn get(&self, _: Request<MachineRef>) -> Result<Response<Machine>, Status> {
        Ok(Response::new(Self::machine()))
    }

    async fn create(&self, _: Request<CreateRequest>) -> Result<Response<TransitionAck>, Status> {
        Err(Status::internal("nobody asked for this"))
    }

    async fn configure(&self, _: Request<ConfigureRequest>) -> Result<Response<TransitionAck>, Status> {
        Err(Status::internal("nobody asked for this"))
    }

    async fn drain(&self, _: Request<DrainRequest>) -> Result<Response<TransitionAck>, Status> {
        Err(Status::internal("nobody asked for this"))
    }

    async fn delete(&self, _: Request<DeleteRequest>) -> Result<Response<TransitionAck>, Status> {
        Err(Status::internal("nobody asked for this"))
    }
}

#[test]
fn a_doctor_reads_the_certificate_as_a_start_would() {
    let authority = Authority::new();
    let examine = |validity: std::ops::Range<i32>, names: &[&str]| {
        let leaf = authority.server(names, validity);
        let certificate = authority.write("server.crt", &leaf.certificate.pem());
        let key = authority.write("server.key", &leaf.key.serialize_pem());
        let run = Run::of(&["doctor", "--use-fake-backend"]).flag("--tls-cert", certificate);
        run.flag("--tls-key", key).end()
    };
    let good = examine(2000..4000, &["provider.example", "10.0.0.7"]);
    assert!(
        good.code == 0
            && good
                .out
                .contains("✓ names          it is for provider.example, 10.0.0.7"),
        "{}",
        good.out
    );
    assert!(
        good.out.contains("✓ expiry         it is valid for another "),
        "{}",
        good.out
    );
    for (validity, names, word) in [
        (2000..2001, &["provider.example"][..], "✗ expiry         it expired "),
        (
            3000..4000,
            &["provider.example"],
            "✗ expiry         it is not valid for another ",
        ),
        (2000..4000, &[], "✗ names          the certificate names no host"),
    ] {
        let end = examine(validity, names);
        assert!(end.code == 69 && end.out.contains(word), "{word}: {}", end.out);
    }
    let torn = Run::of(&["doctor", "--use-fake-backend"]).flag("--tls-cert", authority.file());
    let torn = torn.flag("--tls-key", authority.file()).end();
    assert!(
        torn.code == 69 && torn.out.contains("holds no private key"),
        "{}",
        torn.out
    );
}

/// The lock is the provider's, and so are the bytes.
#[tokio::test]
async fn a_state_file_is_read_beside_its_provider_and_nothing_of_it_changes() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state.db");
    let provider = Launch::on(&state).seeds(4).delay(LONG).start().await;
    let ids: [String; 2] = provider.pick().await;
    let shard = Shard::new("alpha");
    let create = operation(provider.create(&ids[0], &shard.at(3, 7)).await);
    operation(provider.create(&ids[1], &Token::unfenced()).await);

    let show = |what: &[&str]| {
        let run = Run::of(&["inspect"]);
        what.iter().fold(run, Run::arg).flag("--state", &state).ok()
    };
    let fences = json(&show(&["fences", "-o", "json"]));
    assert_eq!(
        fences,
        serde_json::json!([
            {"machine": ids[0], "shard": "alpha", "epoch": 3, "sequence": 7, "known": true}
        ])
    );
    assert_eq!(words(&show(&["fences"]))[1], [&ids[0], "alpha", "3", "7", "yes"]);
    let operations = json(&show(&["operations", "-o", "json"]));
    let operations = operations.as_array().unwrap();
    let ours = operations.iter().find(|it| it["machine"] == ids[0].as_str()).unwrap();
    assert_eq!(
        (operations.len(), &ours["operation"], &ours["status"]),
        (2, &create.into(), &"running".into())
    );
    let table = show(&["operations"]);
    assert!(table.lines().count() == 3 && table.contains("  Create  "), "{table}");
    let of_file = json(&show(&["machines", "-o", "json"]));
    let of_provider = at(&["inspect", "machines", "-o", "json"], provider.address()).ok();
    assert_eq!(of_file, json(&of_provider));
    assert_eq!(json(&show(&["machine", &ids[0], "-o", "json"]))["state"], "CREATING");
    // Again where the provider itself wrote meanwhile.
    eventually("a look changes nothing", AWAIT, async || {
        let before = bytes_of(folder.path());
        show(&["machines"]);
        show(&["operations"]);
        bytes_of(folder.path()) == before
    })
    .await;

    let doctor = Run::of(&["doctor", "--use-fake-backend"]).flag("--state", &state).ok();
    assert!(
        doctor.contains(&format!("process {} has it open", provider.pid())),
        "{doctor}"
    );
    // It is still the provider's, which goes on writing.
    let third = provider.pick_one().await;
    operation(provider.create(&third, &shard.at(4, 1)).await);
}

#[tokio::test]
async fn a_look_at_a_file_at_rest_leaves_nothing_beside_it() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state #1?.db");
    let provider = Launch::on(&state).seeds(3).start().await;
    let id = provider.idle().await;
    let (exit, _) = provider.terminate().await;
    assert_eq!(exit.code(), Some(0));
    let names = || {
        let entries = fs::read_dir(folder.path()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name())
            .collect::<std::collections::BTreeSet<_>>()
    };
    let (before, listed) = (bytes_of(folder.path()), names());
    let shown = Run::of(&["inspect", "machine", &id]).flag("--state", &state).ok();
    assert!(shown.contains("state         IDLE"), "{shown}");
    assert_eq!(names(), listed);
    assert!(bytes_of(folder.path()) == before);
}

/// What was committed last is in the log still.
#[tokio::test]
async fn what_a_crash_leaves_is_read_as_it_lies() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state.db");
    let provider = Launch::on(&state).seeds(3).delay(LONG).start().await;
    let id = provider.pick_one().await;
    operation(provider.create(&id, &Token::unfenced()).await);
    let launch = provider.kill();
    let before = bytes_of(folder.path());
    assert!(before["state.db-wal"].len() > 1000);
    let show = |what: &str| Run::of(&["inspect", what, "--no-headers"]).flag("--state", &state).ok();
    assert!(show("operations").starts_with(&id));
    assert_eq!(show("machines").lines().count(), 3);
    assert!(bytes_of(folder.path()) == before, "a look changed something");
    let provider = launch.start().await;
    assert_eq!(provider.state(&id).await, MachineState::Creating);
}

#[test]
fn a_look_at_what_is_no_state_says_so() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("notes.txt");
    fs::write(&file, "not a database at all, but long enough to be read as one").unwrap();
    let absent = folder.path().join("absent.db");
    for (path, word) in [(&file, "not a state file"), (&absent, "cannot be read")] {
        let end = Run::of(&["inspect", "fences"]).flag("--state", path).end();
        assert!(end.code == 64 && end.err.contains(word), "{}: {}", end.code, end.err);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
