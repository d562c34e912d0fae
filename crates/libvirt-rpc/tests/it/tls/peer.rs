//! A TLS server that is no libvirtd: reproductions of go-libvirt#89 and what is like it.

use std::{sync::Arc, time::Duration};

use libvirt_rpc::{Connection, Error, Kind, Options};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{io::AsyncWriteExt as _, net::TcpListener};
use tokio_rustls::TlsAcceptor;

use super::{
    authority::{Authority, SERIAL},
    whole,
};
use crate::support::soon;

/// What the server does after the handshake.
#[derive(Clone, Copy)]
enum Then {
    Says(u8),
    Hangs,
    Leaves,
    /// It shows a certificate that is revoked, so that it does not get that far.
    IsRevoked,
}

/// Opens a connection to a server that does `then`.
async fn open(then: Then, more: &str) -> Error {
    let authority = Authority::new("ca");
    authority.sign("server", "whoever", &["localhost"]);
    if matches!(then, Then::IsRevoked) {
        authority.revoke(SERIAL);
    } else {
        authority.revoke(SERIAL + 1);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = CertificateDer::pem_file_iter(authority.file("servercert.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            chain.map(Result::unwrap).collect(),
            PrivateKeyDer::from_pem_file(authority.file("serverkey.pem")).unwrap(),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await else {
            return;
        };
        match then {
            Then::Says(byte) => {
                stream.write_all(&[byte]).await.unwrap();
                stream.shutdown().await.unwrap();
            }
            Then::Hangs => std::future::pending().await,
            Then::Leaves | Then::IsRevoked => {}
        }
    });
    let pki = authority.path().display();
    let uri = format!("test+tls://localhost:{port}/default?pkipath={pki}{more}");
    let options = Options::new().connect_timeout(Duration::from_secs(2));
    let error = soon(Connection::open_with(&uri, options)).await.unwrap_err();
    server.abort();
    error
}

/// Row 10: go-libvirt#89, packer-plugin-libvirt#11, terraform#1155, #1184.
#[tokio::test]
async fn go_libvirt_89_the_byte_after_the_handshake_is_read_and_judged() {
    let said = open(Then::Says(0), "").await;
    assert_eq!(said.kind(), Kind::Auth);
    assert!(said.to_string().contains("0x00"), "{said}");
    let gone = open(Then::Leaves, "").await;
    assert_eq!(gone.kind(), Kind::Auth);
    assert!(gone.to_string().contains("certificate"), "{gone}");
    let silent = open(Then::Hangs, "").await;
    assert_eq!(silent.kind(), Kind::Deadline, "{}", whole(&silent));
    // With the right byte it is the protocol's turn.
    let said = open(Then::Says(1), "").await;
    assert_eq!(said.kind(), Kind::Disconnected, "{}", whole(&said));
}

#[tokio::test]
async fn a_revoked_daemon_is_not_trusted() {
    let revoked = open(Then::IsRevoked, "").await;
    assert_eq!(revoked.kind(), Kind::Connect);
    assert!(whole(&revoked).contains("Revoked"), "{}", whole(&revoked));
}

#[tokio::test]
async fn what_tls_cannot_honour_is_refused_and_missing_files_are_named() {
    for uri in [
        "test+tls://localhost/default?tls_priority=NORMAL",
        "test+tls://localhost/default?keyfile=/k",
        "test+tls://localhost/default?no_verify=yes",
        "test+tls://localhost/default?no_sanity=yes",
    ] {
        let refused = soon(Connection::open(uri)).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Uri, "{uri}");
    }
    let missing = "test+tls://localhost/default?pkipath=/nowhere";
    let missing = soon(Connection::open(missing)).await.unwrap_err();
    assert!(missing.to_string().contains("/nowhere/cacert.pem"), "{missing}");
    // Half an identity is a mistake, not an anonymous client.
    for missing in ["clientkey.pem", "clientcert.pem"] {
        let authority = Authority::new("ca");
        authority.sign("client", "me", &[]);
        std::fs::remove_file(authority.file(missing)).unwrap();
        let uri = format!("test+tls://localhost/default?pkipath={}", authority.path().display());
        let half = soon(Connection::open(&uri)).await.unwrap_err();
        assert_eq!(half.kind(), Kind::Uri, "{half}");
        assert!(half.to_string().contains(missing), "{half}");
    }
}
