//! A socket that closes when nobody wants it any more.
//!
//! A session that waits for room to send does not notice that its channels are gone; a socket that has ended it notices.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::oneshot,
};

/// The socket; it has ended once its [`Tether`] is dropped.
pub(super) struct Tethered {
    socket: TcpStream,
    cut: oneshot::Receiver<()>,
}

/// What keeps the socket.
#[derive(Debug)]
pub(super) struct Tether(#[expect(dead_code, reason = "dropping it is what counts")] oneshot::Sender<()>);

pub(super) fn tether(socket: TcpStream) -> (Tethered, Tether) {
    let (keep, cut) = oneshot::channel();
    (Tethered { socket, cut }, Tether(keep))
}

impl AsyncRead for Tethered {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.cut.is_terminated() || Pin::new(&mut this.cut).poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.socket).poll_read(cx, out)
    }
}

impl AsyncWrite for Tethered {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.cut.is_terminated() || Pin::new(&mut this.cut).poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut this.socket).poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}
