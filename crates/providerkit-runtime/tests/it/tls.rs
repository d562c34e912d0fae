//! Who gets in over TLS, and who they are taken for.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpStream},
};

use rustls::version::{TLS12, TLS13};

use crate::{
    desk::{Process, settings, soon},
    pki::{Authority, Files, connect},
};

/// A process with a server certificate of the authority; `ca` makes client certificates mandatory.
async fn process(authority: &Authority, ca: Option<&Authority>) -> (Process, Files) {
    let files = Files::new(&authority.server());
    (serving(&files, ca).await, files)
}

pub(crate) async fn serving(files: &Files, ca: Option<&Authority>) -> Process {
    let keys = files.keys(ca);
    let keys: Vec<_> = keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
    Process::serving(settings(&keys)).await
}

async fn caller(address: SocketAddr, authority: &Authority, uris: &[&str]) -> String {
    let leaf = authority.client(uris);
    authority.connect(address, Some(&leaf)).await.unwrap().caller().await
}

#[tokio::test]
async fn without_an_authority_clients_need_no_certificate_and_are_not_named() {
    let authority = Authority::new();
    let (process, _files) = process(&authority, None).await;
    let client = authority.connect(process.grpc, None).await.unwrap();
    assert_eq!(client.caller().await, "None");
}

#[tokio::test]
async fn with_an_authority_the_certificate_names_the_shard() {
    let authority = Authority::new();
    let (process, _files) = process(&authority, Some(&authority)).await;
    let caller = caller(process.grpc, &authority, &["bigfleet://shard/eu-1", "https://other/"]).await;
    assert_eq!(caller, "Some(Shard(\"eu-1\"))");
}

#[tokio::test]
async fn a_certificate_that_names_no_shard_gets_in_and_is_nobody() {
    let authority = Authority::new();
    let (process, _files) = process(&authority, Some(&authority)).await;
    for uris in [
        &[][..],
        &["bigfleet://shard/a", "bigfleet://shard/b"],
        &["bigfleet://operator/a"],
    ] {
        let caller = caller(process.grpc, &authority, uris).await;
        assert!(caller.starts_with("Some(Unidentified("), "{uris:?}: {caller}");
    }
}

#[tokio::test]
async fn a_client_without_certificate_or_with_one_of_somebody_else_is_refused() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (process, _files) = process(&authority, Some(&authority)).await;
    let foreign = stranger.client(&["bigfleet://shard/a"]);
    for leaf in [None, Some(&foreign)] {
        assert!(authority.connect(process.grpc, leaf).await.is_err());
    }
    caller(process.grpc, &authority, &["bigfleet://shard/a"]).await;
}

#[tokio::test]
async fn tls_1_2_is_refused() {
    let authority = Authority::new();
    let (process, _files) = process(&authority, None).await;
    let refused = connect(process.grpc, authority.trusting(None, &TLS12))
        .await
        .unwrap_err();
    assert!(refused.contains("ProtocolVersion"), "{refused}");
    connect(process.grpc, authority.trusting(None, &TLS13)).await.unwrap();
}

#[tokio::test]
async fn plaintext_is_refused_where_tls_is_spoken() {
    let authority = Authority::new();
    let (process, _files) = process(&authority, None).await;
    assert!(soon("the refusal", process.client().get("m")).await.is_err());
}

#[tokio::test]
async fn clients_that_never_finish_their_handshake_hold_nobody_up() {
    let authority = Authority::new();
    let (process, _files) = process(&authority, None).await;
    let silent: Vec<_> = (0..100)
        .map(|n| {
            let mut stream = TcpStream::connect(process.grpc).unwrap();
            // Half of them begin and stop: a record header, and nothing behind it.
            if n % 2 == 0 {
                stream.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00]).unwrap();
            }
            stream
        })
        .collect();
    let client = authority.connect(process.grpc, None);
    soon("a handshake beside those that hang", client).await.unwrap();
    drop(silent);
}

#[tokio::test]
async fn material_that_cannot_be_used_is_told_with_its_file() {
    let authority = Authority::new();
    let broken = |name: &'static str, text: &str| {
        let files = Files::new(&authority.server());
        let keys = files.keys(Some(&authority));
        files.write(name, text);
        (files, keys)
    };
    let other = authority.server().key.serialize_pem();
    let half = authority.pem().lines().take(3).collect::<Vec<_>>().join("\n");
    for (name, text, expected) in [
        ("tls.crt", "", "tls.crt` holds no certificate"),
        ("tls.crt", half.as_str(), "tls.crt` holds no certificate"),
        ("tls.key", "nonsense", "tls.key` holds no private key"),
        ("tls.key", other.as_str(), "cannot be used together"),
        ("ca.crt", "", "ca.crt` holds no certificate"),
    ] {
        let (_files, keys) = broken(name, text);
        let keys: Vec<_> = keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let error = Process::loading(settings(&keys)).end().await.unwrap_err();
        assert!(error.is_configuration());
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains(expected), "{cause}");
    }
    let missing = [("listen.tls.cert", "/none.crt"), ("listen.tls.key", "/none.key")];
    let error = Process::loading(settings(&missing)).end().await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("`/none.crt` cannot be read"), "{cause}");
}
