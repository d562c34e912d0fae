//! Peers that speak something else, or the protocol badly.

use std::time::Duration;

use libvirt_rpc::{Connection, Error, Kind, Options, transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::soon;

/// Opens a connection to a peer that answers whatever it gets with `bytes`, and then is silent or gone.
async fn greeted_with(bytes: &'static [u8], stays: bool) -> Error {
    let (near, mut far) = tokio::io::duplex(1 << 16);
    let peer = tokio::spawn(async move {
        let mut request = [0; 28];
        far.read_exact(&mut request).await.unwrap();
        far.write_all(bytes).await.unwrap();
        if stays { Some(far) } else { None }
    });
    let options = Options::new().connect_timeout(Duration::from_millis(300));
    let opened = soon(Connection::open_on(transport::plain(near), "test:///default", options)).await;
    drop(peer.await);
    opened.unwrap_err()
}

/// Row 31: libvirt#69.
#[tokio::test]
async fn text_in_place_of_a_frame_is_shown() {
    let http = greeted_with(b"HTTP/1.1 400 Bad Request\r\n\r\n", true).await;
    assert!(http.to_string().contains("HTTP/1.1 400 Bad Request"), "{http}");
    let banner = greeted_with(b"Welcome to host!\nbash: virt-ssh-helper: command not found\n", true).await;
    assert!(
        banner.to_string().contains("virt-ssh-helper: command not found"),
        "{banner}"
    );
    let short = greeted_with(b"no", false).await;
    assert_eq!(short.kind(), Kind::Disconnected);
}

#[tokio::test]
async fn a_length_no_peer_may_send_ends_the_connection() {
    for length in [&[0, 0, 0, 27][..], &[0xff, 0xff, 0xff, 0xff], &[2, 0, 0, 5]] {
        let error = greeted_with(Box::leak(length.to_vec().into()), true).await;
        assert!(error.to_string().contains("breaks the protocol"), "{error}");
    }
}

/// Row 11: terraform#904: the deadline covers everything up to the open connection.
#[tokio::test]
async fn a_peer_that_never_answers_is_given_up() {
    assert_eq!(greeted_with(b"", true).await.kind(), Kind::Deadline);
    assert_eq!(greeted_with(b"", false).await.kind(), Kind::Disconnected);
}

#[tokio::test]
async fn what_cannot_be_honoured_is_refused() {
    for uri in ["qemu+carrier://h/", "qemu+unix:///system?mode=fast", "nonsense"] {
        assert_eq!(Connection::open(uri).await.unwrap_err().kind(), Kind::Uri, "{uri}");
    }
    let gone = Connection::open("test+unix:///default?socket=/nowhere/sock")
        .await
        .unwrap_err();
    assert_eq!(gone.kind(), Kind::Connect);
    assert!(gone.to_string().contains("/nowhere/sock"), "{gone}");
}
