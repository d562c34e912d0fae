//! A channel of an ssh session as a pipe, with what the other side complains about apart.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use russh::{Channel, ChannelMsg, ChannelReadHalf, client::Msg};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc,
    task::JoinHandle,
};

/// Packets on their way to the reader.
const PACKETS: usize = 16;
/// As much as is kept of what the other side complains about.
const COMPLAINTS: usize = 4096;

/// The pipe; what it holds beside the channel lives as long.
pub(super) struct Pipe<K> {
    reader: mpsc::Receiver<Bytes>,
    rest: Bytes,
    writer: Pin<Box<dyn AsyncWrite + Send>>,
    _keep: K,
}

/// What the other side said of itself.
#[derive(Debug, Default)]
struct Said {
    errors: Vec<u8>,
    status: Option<String>,
}

/// What the other side says of itself, until it ends.
#[derive(Debug)]
pub(super) struct LastWords {
    said: Arc<Mutex<Said>>,
    pump: JoinHandle<()>,
}

/// Makes a pipe of a channel.
pub(super) fn pipe<K>(channel: Channel<Msg>, keep: K) -> (Pipe<K>, LastWords) {
    let (from, to) = channel.split();
    let (packets, reader) = mpsc::channel(PACKETS);
    let said = Arc::new(Mutex::new(Said::default()));
    let pump = tokio::spawn(pump(from, packets, Arc::clone(&said)));
    let pipe = Pipe {
        reader,
        rest: Bytes::new(),
        writer: Box::pin(to.make_writer()),
        _keep: keep,
    };
    (pipe, LastWords { said, pump })
}

async fn pump(mut from: ChannelReadHalf, packets: mpsc::Sender<Bytes>, said: Arc<Mutex<Said>>) {
    let mut packets = Some(packets);
    let note = |act: &dyn Fn(&mut Said)| act(&mut said.lock().unwrap_or_else(PoisonError::into_inner));
    while let Some(message) = from.wait().await {
        match message {
            ChannelMsg::Data { data } => {
                if let Some(to) = &packets
                    && to.send(data).await.is_err()
                {
                    // Nobody reads any more.
                    return;
                }
            }
            ChannelMsg::ExtendedData { data, .. } => note(&|said| {
                let room = COMPLAINTS.saturating_sub(said.errors.len()).min(data.len());
                said.errors.extend_from_slice(data.get(..room).unwrap_or_default());
            }),
            // What it says of its end may still come.
            ChannelMsg::Eof => packets = None,
            ChannelMsg::ExitStatus { exit_status } => {
                note(&|said| said.status = Some(format!("exit status {exit_status}")));
            }
            ChannelMsg::ExitSignal { signal_name, .. } => {
                note(&|said| said.status = Some(format!("signal {signal_name:?}")));
            }
            ChannelMsg::Close => return,
            _ => {}
        }
    }
}

impl LastWords {
    /// What it said, once it has ended or a moment has passed.
    pub(super) async fn hear(mut self) -> String {
        // Either it ends, and all it said is there, or it does not, and what it said so far has to do.
        drop(tokio::time::timeout(crate::transport::process::LAST_WORDS, &mut self.pump).await);
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let errors = String::from_utf8_lossy(&said.errors).trim().to_owned();
        let parts = [errors, said.status.clone().unwrap_or_default()];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl<K: Unpin> AsyncRead for Pipe<K> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.rest.is_empty() {
            match ready!(this.reader.poll_recv(cx)) {
                Some(packet) => this.rest = packet,
                None => return Poll::Ready(Ok(())),
            }
        }
        let part = this.rest.len().min(out.remaining());
        out.put_slice(this.rest.get(..part).unwrap_or_default());
        this.rest.advance(part);
        Poll::Ready(Ok(()))
    }
}

impl<K: Unpin> AsyncWrite for Pipe<K> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().writer.as_mut().poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().writer.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().writer.as_mut().poll_shutdown(cx)
    }
}
