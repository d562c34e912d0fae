//! TLS, against real libvirtd and against daemons that misbehave.

use std::{path::Path, time::Duration};

use libvirt_rpc::{Connection, Error, Kind};
use tokio::net::TcpStream;

use self::authority::Authority;
use crate::{
    libvirtd::Libvirtd,
    support::{port, soon},
};

pub(crate) mod authority;
mod peer;

/// A daemon with TLS on a port of its own.
pub(crate) struct Tls {
    _daemon: Libvirtd,
    port: u16,
}

impl Tls {
    /// The daemon shows `servercert.pem` of the authority.
    async fn start(test: &str, authority: &Authority, more: &str) -> Option<Self> {
        let more = format!("auth_tls = \"none\"\n{more}");
        Self::launch(test, authority, &more, Path::new("/nonexistent")).await
    }

    /// As [`start`](Self::start), with SASL set up in a folder.
    #[cfg(feature = "sasl")]
    pub(crate) async fn start_sasl(test: &str, authority: &Authority, sasl: &Path) -> Option<Self> {
        Self::launch(test, authority, "auth_tls = \"sasl\"\n", sasl).await
    }

    async fn launch(test: &str, authority: &Authority, more: &str, sasl: &Path) -> Option<Self> {
        let port = port();
        let folder = authority.path().display();
        let config = format!(
            "listen_tls = 1\nlisten_tcp = 0\nlisten_addr = \"127.0.0.1\"\ntls_port = \"{port}\"\n\
             ca_file = \"{folder}/cacert.pem\"\ncert_file = \"{folder}/servercert.pem\"\n\
             key_file = \"{folder}/serverkey.pem\"\n{more}"
        );
        let daemon = Libvirtd::start_sasl(test, &config, true, sasl).await?;
        // The daemon listens on its socket first, and here a moment later.
        let listens = async {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        soon(listens).await;
        Some(Self { _daemon: daemon, port })
    }

    pub(crate) fn uri(&self, host: &str, pki: &Path, more: &str) -> String {
        let (port, pki) = (self.port, pki.display());
        format!("test+tls://{host}:{port}/default?pkipath={pki}{more}")
    }

    async fn open(&self, host: &str, pki: &Path, more: &str) -> Result<Connection, Error> {
        soon(Connection::open(&self.uri(host, pki, more))).await
    }
}

/// What an error says, with all it was caused by.
fn whole(error: &Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |e| e.source());
    causes.map(|e| format!("{e}; ")).collect()
}

#[tokio::test]
async fn tls_lets_in_who_has_the_right_certificate_and_reads_it_anew_each_time() {
    let authority = Authority::new("ca");
    authority.sign("server", "whoever", &["localhost", "127.0.0.1"]);
    authority.sign("client", "me", &[]);
    let allow = "tls_allowed_dn_list = [ \"CN=me\" ]\n";
    let Some(daemon) = Tls::start("tls-good", &authority, allow).await else {
        return;
    };
    for host in ["localhost", "127.0.0.1"] {
        let c = daemon.open(host, authority.path(), "").await.unwrap();
        assert_eq!(c.uri().await.unwrap(), "test:///default");
        assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");
        assert!(c.is_secure().await.unwrap());
        c.close().await;
    }
    authority.sign("client", "somebody else", &[]);
    let refused = daemon.open("localhost", authority.path(), "").await;
    assert_eq!(refused.unwrap_err().kind(), Kind::Auth);
    authority.sign("client", "me", &[]);
    let again = daemon.open("localhost", authority.path(), "").await;
    again.unwrap().close().await;
}

#[tokio::test]
async fn tls_refuses_a_daemon_of_another_authority_or_name() {
    let (authority, other) = (Authority::new("ca"), Authority::new("other"));
    authority.sign("server", "127.0.0.1", &["localhost"]);
    authority.sign("client", "me", &[]);
    let Some(daemon) = Tls::start("tls-wrong", &authority, "").await else {
        return;
    };
    let wrong = daemon.open("localhost", other.path(), "").await;
    let wrong = wrong.unwrap_err();
    assert_eq!(wrong.kind(), Kind::Connect);
    assert!(whole(&wrong).contains("UnknownIssuer"), "{}", whole(&wrong));

    let wrong = daemon.open("127.0.0.1", authority.path(), "").await;
    let wrong = wrong.unwrap_err();
    assert_eq!(wrong.kind(), Kind::Connect);
    assert!(whole(&wrong).contains("not valid for name"), "{}", whole(&wrong));
    // There is an alternative name, so the CN does not count.
    let cn = daemon.open("127.0.0.1", authority.path(), "&tls_allow_cn=1").await;
    assert_eq!(cn.unwrap_err().kind(), Kind::Connect);
    let trusting = daemon.open("127.0.0.1", authority.path(), "&no_verify=1");
    trusting.await.unwrap().close().await;
}

#[tokio::test]
async fn tls_takes_a_name_in_the_cn_only_when_told_to() {
    let authority = Authority::new("ca");
    authority.sign("server", "localhost", &[]);
    authority.sign("client", "me", &[]);
    let Some(daemon) = Tls::start("tls-cn", &authority, "").await else {
        return;
    };
    let strict = daemon.open("localhost", authority.path(), "").await;
    assert_eq!(strict.unwrap_err().kind(), Kind::Connect);
    let allowed = "&tls_allow_cn=1";
    let other = daemon.open("127.0.0.1", authority.path(), allowed).await;
    assert_eq!(other.unwrap_err().kind(), Kind::Connect);
    let c = daemon.open("localhost", authority.path(), allowed).await;
    c.unwrap().close().await;
    // The switch is about the name, not about who has signed it.
    let stranger = Authority::new("other");
    let refused = daemon.open("localhost", stranger.path(), allowed).await;
    let refused = refused.unwrap_err();
    assert!(whole(&refused).contains("UnknownIssuer"), "{refused}");
}

/// libvirtd looks at the client's certificate after the handshake, whatever the version: only the missing byte tells.
#[tokio::test]
async fn tls_says_that_the_daemon_refuses_the_client() {
    let (authority, other) = (Authority::new("ca"), Authority::new("other"));
    authority.sign("server", "whoever", &["localhost"]);
    other.sign("client", "me", &[]);
    std::fs::copy(authority.file("cacert.pem"), other.file("cacert.pem")).unwrap();
    for (test, version) in [("tls-13", ""), ("tls-12", ":-VERS-TLS1.3")] {
        let priority = format!("tls_priority = \"NORMAL{version}\"\n");
        let Some(daemon) = Tls::start(test, &authority, &priority).await else {
            return;
        };
        // No certificate at all, then one of an authority the daemon does not know.
        for pki in [&authority, &other] {
            let refused = daemon.open("localhost", pki.path(), "").await;
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), Kind::Auth, "{test}: {}", whole(&refused));
            assert!(refused.to_string().contains("certificate"), "{refused}");
            assert!(!refused.is_retryable());
        }
        authority.sign("client", "me", &[]);
        let good = daemon.open("localhost", authority.path(), "").await;
        good.unwrap().close().await;
        std::fs::remove_file(authority.file("clientcert.pem")).unwrap();
        std::fs::remove_file(authority.file("clientkey.pem")).unwrap();
    }
}
