//! The content of volumes, there and back.

use std::{
    io::Cursor,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use libvirt_rpc::{
    Kind,
    fake::Daemon,
    stream::Chunk,
    wire::constant::{
        domain::DomainCreateFlags,
        storage::{StorageVolDownloadFlags, StorageVolUploadFlags},
    },
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};

use crate::support::{define, pattern, soon, volume};

/// Gives its bytes a few at a time and then ends or fails.
struct Dribble {
    rest: Vec<u8>,
    step: usize,
    fails: bool,
}

impl AsyncRead for Dribble {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        self.step = self.step % 7919 + 1;
        let part = self.step.min(self.rest.len()).min(out.remaining());
        if part == 0 && self.fails {
            return Poll::Ready(Err(std::io::Error::other("the download broke")));
        }
        let rest = self.rest.split_off(part);
        out.put_slice(&self.rest);
        self.rest = rest;
        Poll::Ready(Ok(()))
    }
}

/// Row 12: go-libvirt#82: short reads.
#[tokio::test]
async fn a_source_that_dribbles_arrives_whole() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    let data = pattern(3_000_001);
    let vol = volume(&connection, "img", data.len()).await;
    let source = Dribble {
        rest: data.clone(),
        step: 0,
        fails: false,
    };
    let sent = soon(connection.volume_upload(&vol, source, Some(data.len() as u64)))
        .await
        .unwrap();
    assert_eq!(sent, data.len() as u64);
    assert!(daemon.volume_content("default", "img").unwrap() == data);
    let mut back = Vec::new();
    assert_eq!(soon(connection.volume_download(&vol, &mut back)).await.unwrap(), sent);
    assert!(back == data);
}

/// Row 13: terraform#308, #1318: the source fails half-way.
#[tokio::test]
async fn a_source_that_fails_aborts_the_upload_and_nothing_else() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    let vol = volume(&connection, "img", 1 << 20).await;
    let source = Dribble {
        rest: pattern(600_000),
        step: 0,
        fails: true,
    };
    let error = soon(connection.volume_upload(&vol, source, None)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Stream);
    assert!(error.to_string().contains("source"), "{error}");
    assert_eq!(soon(connection.hostname()).await.unwrap(), "fake");
    for (promised, said) in [(10, "more"), (1000, "fewer")] {
        let error = connection
            .volume_upload(&vol, &pattern(100)[..], Some(promised))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[tokio::test]
async fn a_full_disk_is_told_while_the_upload_runs() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    let vol = volume(&connection, "small", 1000).await;
    assert!(daemon.resize_pool("default", 1_000_000));
    let error = soon(connection.volume_upload(&vol, &pattern(5_000_000)[..], None))
        .await
        .unwrap_err();
    assert_eq!(
        error.daemon().unwrap().os_error().unwrap().raw_os_error(),
        Some(28),
        "{error}"
    );
    assert_eq!(soon(connection.hostname()).await.unwrap(), "fake");
}

/// Row 1: go-libvirt#241: a sink that fails in the middle of a download.
#[tokio::test]
async fn a_download_given_up_leaves_the_connection_usable() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    let data = pattern(8 << 20);
    let vol = volume(&connection, "img", data.len()).await;
    soon(connection.volume_upload(&vol, &data[..], None)).await.unwrap();
    for _ in 0..10 {
        let mut stream = connection
            .volume_open_download(&vol, 0, 0, StorageVolDownloadFlags::empty())
            .await
            .unwrap();
        for _ in 0..3 {
            assert!(matches!(soon(stream.next()).await.unwrap(), Some(Chunk::Data(_))));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        drop(stream);
        assert_eq!(soon(connection.hostname()).await.unwrap(), "fake");
    }
}

/// Row 15: a hole must not be written as data: 67,108,864 bytes, not 4,120.
#[tokio::test]
async fn holes_stay_holes_both_ways() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    let mut data = vec![0; 64 << 20];
    data[40 << 20..][..4096].copy_from_slice(&pattern(4096));
    let vol = volume(&connection, "sparse", data.len()).await;
    let sent = soon(connection.volume_upload_sparse(&vol, &data[..])).await.unwrap();
    assert_eq!(sent, data.len() as u64);
    assert!(daemon.volume_content("default", "sparse").unwrap() == data);

    let mut file = Cursor::new(vec![0; data.len()]);
    let size = soon(connection.volume_download_sparse(&vol, &mut file)).await.unwrap();
    assert_eq!(size, data.len() as u64);
    assert!(file.into_inner() == data);

    let mut stream = connection
        .volume_open_download(&vol, 0, 0, StorageVolDownloadFlags::SPARSE_STREAM)
        .await
        .unwrap();
    let (mut holes, mut bytes) = (0, 0);
    while let Some(chunk) = soon(stream.next()).await.unwrap() {
        match chunk {
            Chunk::Hole(_) => holes += 1,
            Chunk::Data(data) => bytes += data.len(),
            _ => unreachable!("there are two sorts"),
        }
    }
    assert_eq!(holes, 2);
    assert!(bytes < 200_000, "{bytes}");
}

#[tokio::test]
async fn a_hole_nobody_agreed_to_ends_the_connection_as_documented() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    let vol = volume(&connection, "dense", 1 << 20).await;
    let mut stream = connection
        .volume_open_upload(&vol, 0, 0, StorageVolUploadFlags::empty())
        .await
        .unwrap();
    stream.send_hole(10).await.unwrap();
    soon(connection.closed()).await;
    assert_eq!(soon(stream.finish()).await.unwrap_err().kind(), Kind::Disconnected);
}

#[tokio::test]
async fn a_console_is_read_and_written() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    let domain = define(&connection, "guest").await;
    assert!(
        connection
            .domain_open_console(&domain, None, Default::default())
            .await
            .is_err()
    );
    let domain = connection
        .domain_create(&domain, DomainCreateFlags::empty())
        .await
        .unwrap();
    let mut console = connection
        .domain_open_console(&domain, None, Default::default())
        .await
        .unwrap();
    console.write_all(b"login: ").await.unwrap();
    let mut echo = [0; 7];
    soon(console.read_exact(&mut echo)).await.unwrap();
    assert_eq!(&echo, b"login: ");
}

/// Row 14: terraform#594, #478: eight uploads on one connection, one of them stuck.
#[tokio::test]
async fn a_stuck_upload_does_not_stop_the_others() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    let stuck = volume(&connection, "stuck", 1 << 20).await;
    let stuck = connection
        .volume_open_upload(&stuck, 0, 0, StorageVolUploadFlags::empty())
        .await
        .unwrap();
    let data = pattern(4 << 20);
    let uploads: Vec<_> = (0..7)
        .map(|n| {
            let (connection, data) = (connection.clone(), data.clone());
            tokio::spawn(async move {
                let vol = volume(&connection, &format!("v{n}"), data.len()).await;
                connection.volume_upload(&vol, &data[..], None).await.unwrap();
            })
        })
        .collect();
    for upload in uploads {
        soon(upload).await.unwrap();
    }
    drop(stuck);
    assert!(daemon.volume_content("default", "v6").unwrap() == data);
}

#[tokio::test]
async fn a_slow_reader_of_its_own_connection_slows_the_daemon_and_loses_nothing() {
    let daemon = Daemon::new();
    let feeder = daemon.connect().await.unwrap();
    let data = pattern(16 << 20);
    let vol = volume(&feeder, "img", data.len()).await;
    soon(feeder.volume_upload(&vol, &data[..], None)).await.unwrap();
    let bulk = daemon
        .connect_with(libvirt_rpc::Options::new().stream_buffer(300_000))
        .await
        .unwrap();
    let mut stream = bulk
        .volume_open_download(&vol, 0, 0, StorageVolDownloadFlags::empty())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut back = Vec::new();
    soon(stream.read_to_end(&mut back)).await.unwrap();
    assert!(back == data);
    soon(stream.finish()).await.unwrap();
}
