//! Streams: the content of volumes, screens and consoles.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(crate) mod table;

pub use self::table::Chunk;
use self::table::End;
use crate::{
    Error,
    connection::Connection,
    wire::{
        frame::{self, Header, STREAM_CHUNK},
        net::{MessageStatus, MessageType, StreamHole},
        procedure::Info,
    },
};

/// An open stream.
///
/// It can be read and written like a file, in which case holes are read as zeroes, or piece by piece with
/// [`next`](Self::next), [`send`](Self::send) and [`send_hole`](Self::send_hole). What was written counts only when
/// [`finish`](Self::finish) (or `shutdown` of [`AsyncWrite`]) has succeeded. A stream that is dropped before its end
/// is aborted; the connection stays usable.
///
/// Packets of a stream share the connection with everything else. For bulk data use a connection of its own: a reader
/// that is slow then slows the daemon, while on a shared connection its data is kept in memory, and the stream fails
/// when that is sixteen times [`Options::stream_buffer`](crate::Options::stream_buffer).
#[derive(Debug)]
pub struct Stream {
    connection: Connection,
    serial: u32,
    info: &'static Info,
    /// What is left of the piece being read.
    current: Option<Chunk>,
    end_sent: bool,
}

impl Stream {
    pub(crate) fn new(connection: Connection, serial: u32, info: &'static Info) -> Self {
        Self {
            connection,
            serial,
            info,
            current: None,
            end_sent: false,
        }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// When the daemon gives up, the connection is lost or the reader was too slow.
    pub async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Chunk>, Error>> {
        if let Some(chunk) = self.current.take() {
            return Poll::Ready(Ok(Some(chunk)));
        }
        let mut state = self.connection.shared().lock();
        let piece = ready!(state.streams.poll_chunk(self.serial, cx));
        // Reading may have been paused until there was room again.
        state.wake_driver();
        drop(state);
        Poll::Ready(match piece {
            Ok(chunk) => Ok(Some(chunk)),
            Err(End::Eof | End::Finished) => Ok(None),
            Err(end) => Err(self.failure(end)),
        })
    }

    /// Sends bytes, cut into packets of the size daemons handle best. Waits while too much is queued.
    ///
    /// # Errors
    /// When the daemon has given up or the connection is lost.
    pub async fn send(&mut self, mut data: Bytes) -> Result<(), Error> {
        while data.has_remaining() {
            poll_fn(|cx| self.poll_room(cx)).await?;
            let chunk = data.split_to(data.len().min(STREAM_CHUNK));
            self.push(MessageType::STREAM, chunk)?;
        }
        Ok(())
    }

    /// Sends a hole of so many bytes. Only for a stream opened with the sparse flag: otherwise daemons hang up.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_hole(&mut self, length: u64) -> Result<(), Error> {
        poll_fn(|cx| self.poll_room(cx)).await?;
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let header = self.header(MessageType::STREAM_HOLE);
        let packet = frame::message(&header, &StreamHole { length, flags: 0 });
        let packet = packet.map_err(|error| Error::argument(self.info.name, error))?;
        self.push_frame(packet, Bytes::new());
        Ok(())
    }

    /// Ends the stream and waits until the daemon has taken everything.
    ///
    /// # Errors
    /// When it has not.
    pub async fn finish(mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_finish(cx)).await
    }

    /// Tells the daemon that this stream is to be forgotten. The same as dropping it.
    pub fn abort(self) {}

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if !self.end_sent {
            self.end_sent = true;
            let mut state = self.connection.shared().lock();
            state.streams.push_end(self.serial, MessageStatus::OK);
            state.wake_driver();
        }
        let mut state = self.connection.shared().lock();
        let end = state.streams.poll_finished(self.serial, cx);
        state.wake_driver();
        drop(state);
        match ready!(end) {
            End::Finished | End::Eof => Poll::Ready(Ok(())),
            end => Poll::Ready(Err(self.failure(end))),
        }
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let room = self.connection.shared().lock().streams.poll_room(self.serial, cx);
        Poll::Ready(ready!(room).map_err(|end| self.failure(end)))
    }

    fn header(&self, kind: MessageType) -> Header {
        Header {
            kind,
            status: MessageStatus::CONTINUE,
            ..Header::call(self.info, self.serial)
        }
    }

    fn push(&self, kind: MessageType, data: Bytes) -> Result<(), Error> {
        let head = frame::head(&self.header(kind), data.len());
        self.push_frame(head.map_err(|error| Error::argument(self.info.name, error))?, data);
        Ok(())
    }

    fn push_frame(&self, packet: Vec<u8>, body: Bytes) {
        let mut state = self.connection.shared().lock();
        state.streams.push(self.serial, packet, body);
        state.wake_driver();
    }

    fn failure(&self, end: End) -> Error {
        let call = self.info.name;
        match end {
            End::Failed(error) => Error::daemon_said(call, error),
            End::Broken(error) => Error::protocol(call, error),
            End::Lost(reason) => Error::disconnected(reason, true),
            End::Overrun => Error::stream(
                format!("{call}: the reader was too slow and its data was dropped; use a connection of its own"),
                None,
            ),
            End::Eof | End::Finished => Error::stream(format!("{call}: the daemon has ended the stream"), None),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while out.remaining() > 0 {
            match ready!(this.poll_next(cx)).map_err(io::Error::other)? {
                None => return Poll::Ready(Ok(())),
                Some(Chunk::Data(mut data)) => {
                    let part = data.split_to(data.len().min(out.remaining()));
                    out.put_slice(&part);
                    this.current = (!data.is_empty()).then_some(Chunk::Data(data));
                    return Poll::Ready(Ok(()));
                }
                Some(Chunk::Hole(0)) => {}
                Some(Chunk::Hole(length)) => {
                    let part = usize::try_from(length).unwrap_or(usize::MAX).min(out.remaining());
                    out.initialize_unfilled_to(part).fill(0);
                    out.advance(part);
                    let left = length - u64::try_from(part).unwrap_or(length);
                    this.current = (left > 0).then_some(Chunk::Hole(left));
                    return Poll::Ready(Ok(()));
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_room(cx)).map_err(io::Error::other)?;
        let part = data.get(..data.len().min(STREAM_CHUNK)).unwrap_or(data);
        // An empty packet would be the end of the stream.
        if !part.is_empty() {
            self.push(MessageType::STREAM, Bytes::copy_from_slice(part))
                .map_err(io::Error::other)?;
        }
        Poll::Ready(Ok(part.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_finish(cx).map_err(io::Error::other)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.connection.shared().lock();
        if self.end_sent {
            state.streams.release(self.serial);
        } else {
            state.streams.abandon(self.serial);
        }
        state.wake_driver();
    }
}
