//! ssh in pure Rust, against a real sshd.

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::Duration,
};

use libvirt_rpc::{
    Connection, Error, Kind, Options, Reason,
    transport::ssh::{HostKeyProblem, Ssh},
};

use crate::{
    libvirtd::Libvirtd,
    sshd::{Sshd, keygen},
    support::{port, soon},
};

const FORWARDS: &str = "AllowStreamLocalForwarding yes\n";

async fn open(uri: &str) -> Result<Connection, Error> {
    soon(Connection::open(uri)).await
}

async fn works(uri: &str) {
    let c = open(uri).await.unwrap_or_else(|error| panic!("{uri}: {error:?}"));
    assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");
}

async fn both(test: &str, more: &str) -> Option<(Libvirtd, Sshd)> {
    let daemon = Libvirtd::start(test).await?;
    let sshd = Sshd::start_with(test, more, None)?;
    sshd.ready().await;
    Some((daemon, sshd))
}

/// What docs/host-setup.md puts into `authorized_keys`.
#[tokio::test]
async fn a_key_that_may_only_reach_the_socket_is_enough() {
    let Some((daemon, sshd)) = both("ssh-restricted", FORWARDS).await else {
        return;
    };
    let socket = daemon.socket();
    let line = format!(
        "restrict,command=\"nc -q0 -U {}\" {}",
        socket.display(),
        sshd.public("client")
    );
    sshd.files.write("client.pub", &line, 0o600);
    // It says nothing of the socket, which the host alone decides.
    works(&sshd.uri_without_socket("client", &sshd.knows("host"))).await;
}

/// Row 23: terraform#944, #922, #876.
#[tokio::test]
async fn row_23_a_host_key_that_is_not_trusted_is_named_with_file_and_remedy() {
    let Some((daemon, sshd)) = both("ssh-keys", FORWARDS).await else {
        return;
    };
    let good = sshd.knows("host");
    works(&sshd.uri(&daemon, "client", &good)).await;

    let print = Command::new("ssh-keygen")
        .arg("-lf")
        .arg(sshd.files.0.join("host.pub"))
        .output()
        .unwrap();
    let print = String::from_utf8(print.stdout).unwrap();
    let print = print.split(' ').nth(1).unwrap();
    let refused = async |known: &std::path::Path, more: &str| {
        let uri = format!("{}{more}", sshd.uri(&daemon, "client", known));
        let error = open(&uri).await.unwrap_err();
        assert_eq!(error.kind(), Kind::HostKey, "{error}");
        assert!(!error.is_retryable() && !error.maybe_executed());
        let key = error.host_key().unwrap().clone();
        assert_eq!(
            (key.host.as_str(), key.key_type.as_str()),
            (sshd.host().as_str(), "ssh-ed25519")
        );
        assert_eq!(key.fingerprint, print);
        for part in [print, "ssh-ed25519", &sshd.host(), &known.display().to_string()] {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
        key.problem
    };
    let nobody = sshd.files.write("nobody", "", 0o600);
    assert!(matches!(refused(&nobody, "").await, HostKeyProblem::Unknown { .. }));
    let absent = sshd.files.0.join("absent");
    assert!(matches!(refused(&absent, "").await, HostKeyProblem::Unknown { .. }));
    for more in ["", "&known_hosts_verify=auto"] {
        let changed = refused(&sshd.knows("wrong"), more).await;
        assert!(
            matches!(changed, HostKeyProblem::Changed { known } if known.line == 1),
            "{more}"
        );
    }
    let lines = format!("# revoked\n*,!other {0}\n@revoked * {0}", sshd.public("host"));
    let revoked = sshd.files.write("revoked", &lines, 0o600);
    for more in ["", "&known_hosts_verify=ignore", "&no_verify=1"] {
        let problem = refused(&revoked, more).await;
        assert!(
            matches!(problem, HostKeyProblem::Revoked { revoked } if revoked.line > 2),
            "{more}"
        );
    }
    let authority = format!("@cert-authority * {}", sshd.public("host"));
    let authority = sshd.files.write("authority", &authority, 0o600);
    let problem = refused(&authority, "").await;
    assert!(matches!(problem, HostKeyProblem::Unknown { authorities } if authorities.len() == 1));
    works(&format!(
        "{}&known_hosts_verify=ignore",
        sshd.uri(&daemon, "client", &nobody)
    ))
    .await;
    works(&format!(
        "{}&no_verify=1",
        sshd.uri(&daemon, "client", &sshd.knows("wrong"))
    ))
    .await;
}

#[tokio::test]
async fn a_host_is_known_however_the_file_says_it() {
    let Some((daemon, sshd)) = both("ssh-known", FORWARDS).await else {
        return;
    };
    let (host, rsa) = (sshd.public("host"), sshd.public("host-rsa"));
    let port = sshd.port;
    let cases = [
        format!("[127.0.0.1]:{port} {host}"),
        format!("example.org,[127.0.0.1]:{port} {host}"),
        format!("[127.0.0.*]:{port} {host}"),
        format!("[127.?.0.1]:* {host}"),
        format!("nonsense\n\n  # a comment\n[127.0.0.1]:{port}\t{host}"),
        // Several keys of one host, and one it also has but would not offer first.
        format!(
            "[127.0.0.1]:{port} {}\n[127.0.0.1]:{port} {host}",
            sshd.public("wrong").trim()
        ),
        format!("[127.0.0.1]:{port} {rsa}"),
    ];
    for (at, case) in cases.iter().enumerate() {
        let file = sshd.files.write(&format!("case-{at}"), case, 0o600);
        works(&sshd.uri(&daemon, "client", &file)).await;
    }
    let hashed = sshd.knows("host");
    let hash = Command::new("ssh-keygen")
        .args(["-q", "-H", "-f"])
        .arg(&hashed)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(hash.unwrap().success());
    assert!(fs::read_to_string(&hashed).unwrap().starts_with("|1|"));
    works(&sshd.uri(&daemon, "client", &hashed)).await;
    let cases = [
        format!("127.0.0.1 {host}"),
        format!("*,!*:{port} {host}"),
        format!("[127.0.0.1]:1{port} {host}"),
    ];
    for (at, case) in cases.iter().enumerate() {
        let file = sshd.files.write(&format!("not-{at}"), case, 0o600);
        let error = open(&sshd.uri(&daemon, "client", &file)).await.unwrap_err();
        assert_eq!(error.kind(), Kind::HostKey, "{case}");
    }
    let learnt = sshd.files.0.join("new/known_hosts");
    let uri = sshd.uri(&daemon, "client", &learnt);
    works(&format!("{uri}&known_hosts_verify=auto")).await;
    works(&uri).await;
    assert_eq!(fs::read_to_string(&learnt).unwrap().lines().count(), 1);
}

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Row 26: terraform#864, #1147.
#[tokio::test]
async fn row_26_a_key_may_be_in_the_agent_only_or_be_encrypted() {
    let Some((daemon, sshd)) = both("ssh-agent", FORWARDS).await else {
        return;
    };
    let known = sshd.knows("host");
    let socket = sshd.files.0.join("agent");
    let agent = Command::new("ssh-agent")
        .arg("-D")
        .arg("-a")
        .arg(&socket)
        .stdout(Stdio::null())
        .spawn();
    let _agent = Agent(agent.unwrap());
    soon(async {
        while !socket.exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let uri = format!("{}&sshauth=agent", sshd.uri(&daemon, "nosuch", &known));
    let options = || Options::new().ssh_agent(&socket);
    let empty = soon(Connection::open_with(&uri, options())).await.unwrap_err();
    assert_eq!(empty.kind(), Kind::Auth);
    assert!(empty.to_string().contains("has no keys"), "{empty}");
    for key in ["wrong", "client"] {
        let added = Command::new("ssh-add")
            .env("SSH_AUTH_SOCK", &socket)
            .arg("-q")
            .arg(sshd.files.0.join(key))
            .status();
        assert!(added.unwrap().success());
    }
    let c = soon(Connection::open_with(&uri, options())).await.unwrap();
    assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");

    let nowhere = soon(Connection::open_with(&uri, Options::new().ssh_agent("/nonexistent")))
        .await
        .unwrap_err();
    assert!(nowhere.to_string().contains("/nonexistent"), "{nowhere}");
    let wrong = open(&format!("{}&sshauth=privkey", sshd.uri(&daemon, "wrong", &known)))
        .await
        .unwrap_err();
    assert_eq!(wrong.kind(), Kind::Auth);
    let text = wrong.to_string();
    assert!(
        text.contains("`root`") && text.contains("wrong is refused") && text.contains("publickey"),
        "{text}"
    );
    let password = open(&format!("{}&sshauth=password", sshd.uri(&daemon, "client", &known)))
        .await
        .unwrap_err();
    assert_eq!(password.kind(), Kind::Uri);

    let mut authorized = sshd.public("client");
    for (name, kind, passphrase) in [
        ("locked", "ed25519", "open sesame"),
        ("rsa", "rsa", ""),
        ("ecdsa", "ecdsa", ""),
    ] {
        keygen(&sshd.files.0, name, kind, passphrase);
        authorized += &sshd.public(name);
    }
    sshd.files.write("client.pub", &authorized, 0o600);
    for key in ["rsa", "ecdsa"] {
        works(&sshd.uri(&daemon, key, &known)).await;
    }
    let locked = format!("{}&sshauth=privkey", sshd.uri(&daemon, "locked", &known));
    let closed = open(&locked).await.unwrap_err().to_string();
    assert!(
        closed.contains("encrypted") && closed.contains("Options::passphrase"),
        "{closed}"
    );
    for (passphrase, is_right) in [("open sesame", true), ("sesame", false)] {
        let options = Options::new().passphrase(passphrase);
        assert!(!format!("{options:?}").contains("sesame"));
        let opened = soon(Connection::open_with(&locked, options)).await;
        assert_eq!(opened.is_ok(), is_right, "{opened:?}");
    }
}

/// Row 25: terraform#1005, #939, #1004, #1121.
#[tokio::test]
async fn row_25_every_way_is_tried_and_the_error_says_what_each_said() {
    let Some((daemon, sshd)) = both("ssh-ways", FORWARDS).await else {
        return;
    };
    let uri = sshd.uri(&daemon, "client", &sshd.knows("host"));
    works(&uri).await;
    works(&format!("{uri}&netcat=nosuchnetcat")).await;
    works(&format!("{uri}&proxy=netcat")).await;
    let only = open(&format!("{uri}&netcat=nosuchnetcat&proxy=netcat"))
        .await
        .unwrap_err();
    assert!(
        only.to_string().contains("nosuchnetcat") && !only.to_string().contains("forwarding"),
        "{only}"
    );

    let Some(strict) = Sshd::start("ssh-strict") else {
        return;
    };
    strict.ready().await;
    let uri = strict.uri(&daemon, "client", &strict.knows("host"));
    works(&uri).await;
    let none = open(&format!("{uri}&netcat=nosuchnetcat")).await.unwrap_err();
    assert_eq!(none.kind(), Kind::Connect);
    let text = none.to_string();
    for part in [
        "nc: ",
        "nosuchnetcat",
        "127",
        "forwarding to",
        "AllowStreamLocalForwarding",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn the_helper_of_libvirt_finds_the_daemon_by_itself() {
    let config = format!(
        "listen_tls = 0\nlisten_tcp = 1\nlisten_addr = \"127.0.0.1\"\ntcp_port = \"{}\"\nauth_tcp = \"none\"\n",
        port()
    );
    let Some(daemon) = Libvirtd::start_with("ssh-helper", &config, true).await else {
        return;
    };
    let Some(sshd) = Sshd::start_with("ssh-helper", "", Some(&daemon)) else {
        return;
    };
    sshd.ready().await;
    let uri = sshd.uri_without_socket("client", &sshd.knows("host"));
    works(&format!("{uri}&proxy=native")).await;
    works(&uri).await;
    // The same by the machine's ssh.
    for uri in [format!("{uri}&proxy=native"), uri] {
        let c = soon(Connection::open_with(&uri, Options::new().ssh(Ssh::System)))
            .await
            .unwrap();
        assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");
    }
}

#[tokio::test]
async fn a_session_that_is_killed_ends_the_connection() {
    let Some((daemon, sshd)) = both("ssh-killed", FORWARDS).await else {
        return;
    };
    let uri = sshd.uri(&daemon, "client", &sshd.knows("host"));
    for more in ["", "&netcat=nosuchnetcat"] {
        let c = open(&format!("{uri}{more}")).await.unwrap();
        assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");
        sshd.signal_sessions("-KILL");
        let reason = soon(c.closed()).await;
        assert!(matches!(reason, Reason::Eof | Reason::Io(_)), "{reason}");
        assert_eq!(c.hypervisor_type().await.unwrap_err().kind(), Kind::Disconnected);
    }
}

#[tokio::test]
async fn a_connection_that_is_dropped_leaves_no_session_behind_even_when_nothing_moves() {
    let Some((daemon, sshd)) = both("ssh-dropped", FORWARDS).await else {
        return;
    };
    let uri = sshd
        .uri(&daemon, "client", &sshd.knows("host"))
        .replace("test+", "qemu+")
        .replace("/default", "/system");
    let gone = || async {
        while sshd.clients() > 0 {
            tokio::task::yield_now().await;
        }
    };
    let c = open(&uri).await.unwrap();
    assert_eq!(sshd.clients(), 1);
    drop(c);
    soon(gone()).await;

    let c = open(&uri).await.unwrap();
    let xml = "<pool type='dir'><name>p</name><target><path>/var/lib/libvirt/images</path></target></pool>";
    let pool = c.storage_pool_create_xml(xml, Default::default()).await.unwrap();
    let xml = "<volume><name>v</name><capacity unit='GiB'>1</capacity><allocation>0</allocation></volume>";
    let volume = c.volume_create(&pool, xml, Default::default()).await.unwrap();
    let mut upload = c.volume_open_upload(&volume, 0, 0, Default::default()).await.unwrap();
    sshd.signal_sessions("-STOP");
    let block = bytes::Bytes::from(vec![1; 1 << 20]);
    // Until all that can hold bytes is full.
    while tokio::time::timeout(Duration::from_secs(1), upload.send(block.clone()))
        .await
        .is_ok()
    {}
    drop((upload, c));
    soon(gone()).await;
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_in_time() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = Options::new().connect_timeout(Duration::from_millis(200));
    let uri = format!("qemu+ssh://root@127.0.0.1:{port}/system?known_hosts=/nonexistent");
    let error = soon(Connection::open_with(&uri, options)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Deadline, "{error}");
    drop(listener);
    let gone = open(&uri).await.unwrap_err();
    assert_eq!(gone.kind(), Kind::Connect, "{gone}");
}

/// Keys are rotated by putting others in their place.
#[tokio::test]
async fn a_key_that_was_exchanged_is_read_by_the_next_connection() {
    let Some((daemon, sshd)) = both("ssh-rotated", FORWARDS).await else {
        return;
    };
    let place = |key: &str| fs::copy(sshd.files.0.join(key), sshd.files.0.join("rotated")).unwrap();
    let uri = sshd.uri(&daemon, "rotated", &sshd.knows("host"));
    place("wrong");
    assert_eq!(open(&uri).await.unwrap_err().kind(), Kind::Auth);
    place("client");
    works(&uri).await;
    place("wrong");
    assert_eq!(open(&uri).await.unwrap_err().kind(), Kind::Auth);
}
