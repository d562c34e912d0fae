//! How bytes get to a daemon and back.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    os::fd::OwnedFd,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) mod process;
pub mod ssh;
pub(crate) mod tcp;
#[cfg(feature = "tls")]
pub mod tls;
pub(crate) mod unix;

/// A two-way byte pipe to a daemon; [`plain`] makes one of anything that can be read and written.
pub trait Transport: Send + 'static {
    /// Reads some bytes to the end of `buffer`, and the file descriptors that came with them; 0 is the end.
    ///
    /// # Errors
    /// When the pipe is broken.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
        files: &mut VecDeque<OwnedFd>,
    ) -> Poll<io::Result<usize>>;

    /// Writes some of the bytes.
    ///
    /// # Errors
    /// When the pipe is broken.
    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;

    /// Pushes out what the pipe itself holds back.
    ///
    /// # Errors
    /// When the pipe is broken.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Sends one file descriptor with one byte.
    ///
    /// # Errors
    /// When the pipe is broken or cannot carry one.
    fn poll_send_file(&mut self, cx: &mut Context<'_>, file: &OwnedFd) -> Poll<io::Result<()>> {
        let _ = (cx, file);
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "only a UNIX socket carries file descriptors",
        )))
    }

    /// Whether file descriptors can be sent.
    fn carries_files(&self) -> bool {
        false
    }
}

/// A transport over anything that can be read and written: a pipe to a process, a channel of an ssh session.
pub fn plain<T: AsyncRead + AsyncWrite + Send + Unpin + 'static>(io: T) -> impl Transport {
    Plain { io }
}

struct Plain<T> {
    io: T,
}

/// Room made for each read: enough for a packet of stream data.
pub(crate) const READ: usize = 256 << 10;

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Transport for Plain<T> {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
        _: &mut VecDeque<OwnedFd>,
    ) -> Poll<io::Result<usize>> {
        if buffer.capacity() - buffer.len() < READ / 4 {
            buffer.reserve(READ);
        }
        tokio_util::io::poll_read_buf(Pin::new(&mut self.io), cx, buffer)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bytes)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }
}
