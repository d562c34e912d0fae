//! Every way to a real daemon.

use libvirt_rpc::{Connection, Error, Kind, Options, transport::ssh::Ssh};

use crate::{
    libvirtd::{Libvirtd, is_installed},
    sshd::{Folder, Sshd},
    support::{port, soon},
};

async fn open(uri: &str) -> Result<Connection, Error> {
    soon(Connection::open(uri)).await
}

#[tokio::test]
async fn tcp_reaches_the_daemon() {
    let port = port();
    let config = format!(
        "listen_tls = 0\nlisten_tcp = 1\nlisten_addr = \"127.0.0.1\"\ntcp_port = \"{port}\"\nauth_tcp = \"none\"\n"
    );
    let Some(_daemon) = Libvirtd::start_with("tcp", &config, true).await else {
        return;
    };
    let c = open(&format!("test+tcp://127.0.0.1:{port}/default")).await.unwrap();
    assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");
    let refused = open(&format!("test+tcp://127.0.0.1:{}/default", crate::support::port()))
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), Kind::Connect);
}

/// A daemon that accepts TLS but never says whether it accepts the client.
#[cfg(feature = "tls")]
#[tokio::test]
async fn a_tls_daemon_that_never_judges_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = Options::new().connect_timeout(std::time::Duration::from_millis(200));
    let uri = format!("test+tls://127.0.0.1:{port}/default?no_verify=1");
    let opening = soon(Connection::open_with(&uri, options)).await;
    assert_eq!(opening.unwrap_err().kind(), Kind::Deadline);
}

#[tokio::test]
async fn any_command_can_be_the_way() {
    let Some(daemon) = Libvirtd::start("ext").await else {
        return;
    };
    let files = Folder::new("ext");
    let relay = format!("#!/bin/sh\nexec nc -U {}\n", daemon.socket().display());
    let relay = files.write("relay", &relay, 0o755);
    if is_installed("nc") {
        let c = open(&format!("test+ext:///default?command={}", relay.display()))
            .await
            .unwrap();
        assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");
    } else {
        assert!(std::env::var_os("CI").is_none(), "install netcat-openbsd");
        eprintln!("SKIPPED ext: nc is missing (install netcat-openbsd)");
    }
    let broken = files.write("broken", "#!/bin/sh\necho no route to heaven >&2\nexit 1\n", 0o755);
    let error = open(&format!("test+ext:///default?command={}", broken.display()))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no route to heaven"), "{error}");
    for uri in [
        "test+ext:///default",
        "test+ext://host/default?command=/bin/true",
        "test+ext://user@/default?command=/bin/true",
        "test+ext://:22/default?command=/bin/true",
        "test+ext:///default?command=/bin/true&argv=x",
    ] {
        assert_eq!(open(uri).await.unwrap_err().kind(), Kind::Uri, "{uri}");
    }
}

/// terraform#944, #922, #876 (host keys), #1005, #939, #1004, #1121 (forwarding disabled).
#[tokio::test]
async fn ssh_reaches_the_daemon_even_where_forwarding_is_forbidden_and_is_strict() {
    let Some(daemon) = Libvirtd::start("ssh").await else {
        return;
    };
    let Some(sshd) = Sshd::start("ssh") else {
        return;
    };
    sshd.ready().await;
    let open = async |uri: &str| soon(Connection::open_with(uri, Options::new().ssh(Ssh::System))).await;
    let c = open(&sshd.uri(&daemon, "client", &sshd.knows("host"))).await.unwrap();
    assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");
    assert_eq!(c.domains(Default::default()).await.unwrap().len(), 1);
    drop(c);

    let key = open(&sshd.uri(&daemon, "wrong", &sshd.knows("host")))
        .await
        .unwrap_err();
    assert!(key.to_string().contains("Permission denied"), "{key}");
    let unknown = sshd.files.write("nobody", "", 0o600);
    let stranger = open(&sshd.uri(&daemon, "client", &unknown)).await.unwrap_err();
    assert!(
        stranger.to_string().contains("Host key verification failed"),
        "{stranger}"
    );
    let changed = open(&sshd.uri(&daemon, "client", &sshd.knows("wrong")))
        .await
        .unwrap_err();
    assert!(
        changed.to_string().contains("REMOTE HOST IDENTIFICATION HAS CHANGED"),
        "{changed}"
    );
    let learnt = sshd.uri(&daemon, "client", &unknown) + "&known_hosts_verify=auto";
    assert_eq!(open(&learnt).await.unwrap().hypervisor_type().await.unwrap(), "TEST");
}
