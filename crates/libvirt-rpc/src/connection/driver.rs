//! The task that owns the transport. It never waits for anybody but the transport and the clock.

use std::{
    collections::VecDeque,
    future::Future,
    io::{self, IoSlice},
    os::fd::OwnedFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::time::{Interval, MissedTickBehavior};

use super::{
    Reason, Shared,
    keepalive::{Keepalive, Verdict},
    state::{Outgoing, State},
};
use crate::{
    transport::Transport,
    wire::{
        frame::{self, Header},
        keepalive::{Ping, Pong},
        net::{MESSAGE_NUM_FDS_MAX, MessageType},
        procedure::{Procedure as _, Program},
        xdr::{Decode as _, Decoder},
    },
};

/// Messages gathered into one write.
const BATCH: usize = 32;
/// Turns before the driver lets others run.
const TURNS: usize = 64;

/// Reads, writes and pings until the connection ends.
pub(crate) struct Driver<T> {
    io: T,
    shared: Arc<Shared>,
    buffer: BytesMut,
    files: VecDeque<OwnedFd>,
    writing: VecDeque<Outgoing>,
    flushed: bool,
    pulse: Option<(Interval, Keepalive)>,
}

impl<T: Transport> Driver<T> {
    pub(crate) fn new(io: T, shared: Arc<Shared>) -> Self {
        let pulse = shared.options.keepalive.map(|options| {
            let mut interval = tokio::time::interval(options.interval);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            (interval, Keepalive::new(options))
        });
        Self {
            io,
            shared,
            buffer: BytesMut::new(),
            files: VecDeque::new(),
            writing: VecDeque::new(),
            flushed: true,
            pulse,
        }
    }

    /// Runs the connection to its end and tells everybody why it ended.
    pub(crate) async fn run(mut self) {
        let reason = std::future::poll_fn(|cx| self.poll(cx)).await;
        tracing::debug!(%reason, "libvirt connection ended");
        self.shared.end(&reason);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Reason> {
        for _ in 0..TURNS {
            let wrote = match self.poll_write(cx) {
                Poll::Ready(Err(error)) => return Poll::Ready(Reason::Io(Arc::new(error))),
                done => done.is_ready(),
            };
            let read = match self.poll_read(cx) {
                Poll::Ready(Err(reason)) => return Poll::Ready(reason),
                done => done.is_ready(),
            };
            if let Poll::Ready(reason) = self.poll_pulse(cx) {
                return Poll::Ready(reason);
            }
            if wrote || read {
                continue;
            }
            let mut state = self.shared.lock();
            if let Some(reason) = state.closed() {
                return Poll::Ready(reason.clone());
            }
            if self.writing.is_empty() && state.has_outgoing() {
                continue;
            }
            state.sleep(cx.waker());
            return Poll::Pending;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes what there is; ready when something was written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.writing.is_empty() {
            let mut state = self.shared.lock();
            while self.writing.len() < BATCH {
                let Some(message) = state.next_outgoing() else {
                    break;
                };
                // What follows a message with descriptors must not be in the same write.
                let last = !message.files.is_empty();
                self.writing.push_back(message);
                if last {
                    break;
                }
            }
        }
        let Some(first) = self.writing.front() else {
            if !self.flushed && self.io.poll_flush(cx)?.is_ready() {
                self.flushed = true;
            }
            return Poll::Pending;
        };
        if first.len() == 0 {
            return self.poll_write_file(cx);
        }
        let parts = self.writing.iter().flat_map(|m| [&m.frame[..], &m.body[..]]);
        let slices: Vec<IoSlice<'_>> = parts.filter(|part| !part.is_empty()).map(IoSlice::new).collect();
        let Poll::Ready(mut written) = self.io.poll_send(cx, &slices)? else {
            return Poll::Pending;
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.flushed = false;
        while let Some(first) = self.writing.front_mut() {
            written = first.advance(written);
            if first.len() > 0 || !first.files.is_empty() {
                break;
            }
            self.writing.pop_front();
        }
        Poll::Ready(Ok(()))
    }

    /// After a message its descriptors, one a time.
    fn poll_write_file(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(first) = self.writing.front_mut() else {
            return Poll::Pending;
        };
        if let Some(file) = first.files.first() {
            std::task::ready!(self.io.poll_send_file(cx, file))?;
            first.files.remove(0);
        }
        if first.files.is_empty() {
            self.writing.pop_front();
        }
        Poll::Ready(Ok(()))
    }

    /// Reads and hands on what came; ready when something came.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Reason>> {
        if self.shared.lock().may_pause() {
            return Poll::Pending;
        }
        let got = match self.io.poll_receive(cx, &mut self.buffer, &mut self.files) {
            Poll::Ready(got) => got.map_err(|error| Reason::Io(Arc::new(error)))?,
            Poll::Pending => return Poll::Pending,
        };
        if got == 0 {
            // A greeting that is shorter than a length word, or ends before the length it seems to give.
            let text = (!self.buffer.is_empty())
                .then(|| Reason::junk(crate::wire::Error::Truncated { missing: frame::HEADER }, &self.buffer));
            return Poll::Ready(Err(text.unwrap_or(Reason::Eof)));
        }
        if let Some((_, keepalive)) = &mut self.pulse {
            keepalive.heard();
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        while self.take_message(&mut state)? {}
        Poll::Ready(Ok(()))
    }

    /// Takes one whole message out of the buffer.
    fn take_message(&mut self, state: &mut State) -> Result<bool, Reason> {
        let junk = |error, buffer: &BytesMut| Reason::junk(error, buffer);
        let length = match frame::length(&self.buffer) {
            Ok(Some(length)) if length <= self.buffer.len() => length,
            Ok(Some(length)) => {
                self.buffer
                    .reserve((length - self.buffer.len()).min(crate::transport::READ));
                return Ok(false);
            }
            Ok(None) => return Ok(false),
            Err(error) => return Err(junk(error, &self.buffer)),
        };
        let head = self.buffer.get(..length).unwrap_or_default();
        let (header, payload) = frame::split(head).map_err(|error| junk(error, &self.buffer))?;
        let with_files = header.kind == MessageType::REPLY_WITH_FDS;
        let files = if with_files {
            let count = u32::decode(&mut Decoder::new(payload)).map_err(|error| junk(error, &self.buffer))?;
            if count > MESSAGE_NUM_FDS_MAX {
                let error = crate::wire::Error::TooLong {
                    field: "files",
                    length: count as usize,
                    max: MESSAGE_NUM_FDS_MAX,
                };
                return Err(junk(error, &self.buffer));
            }
            count as usize
        } else {
            0
        };
        // Each descriptor comes with one byte of its own after the message.
        if self.buffer.len() < length + files || self.files.len() < files {
            return Ok(false);
        }
        let skip = frame::HEADER + if with_files { 4 } else { 0 };
        let payload: Bytes = self.buffer.split_to(length).freeze().slice(skip..);
        self.buffer.advance(files);
        let files = self.files.drain(..files).collect();
        tracing::trace!(program = ?header.program(), number = header.proc, serial = header.serial, "received");
        if header.program() == Program::KEEPALIVE {
            if header.proc == Ping::INFO.number
                && let Ok(pong) = frame::message(&Header::event(&Pong::INFO), &())
            {
                state.push_first(pong);
            }
        } else {
            state.receive(&header, payload, files);
        }
        Ok(true)
    }

    /// Asks a silent peer whether it lives.
    fn poll_pulse(&mut self, cx: &mut Context<'_>) -> Poll<Reason> {
        let Some((interval, keepalive)) = &mut self.pulse else {
            return Poll::Pending;
        };
        while interval.poll_tick(cx).is_ready() {
            let mut state = self.shared.lock();
            let excused = state.may_pause() || state.streams.is_uploading();
            match keepalive.tick(excused) {
                Verdict::Fine => {}
                Verdict::Ping => {
                    if let Ok(ping) = frame::message(&Header::event(&Ping::INFO), &()) {
                        state.push_first(ping);
                    }
                }
                Verdict::Dead => {
                    let silence = self.shared.options.keepalive.map(|k| k.interval * (k.count + 1));
                    return Poll::Ready(Reason::Silent(silence.unwrap_or_default()));
                }
            }
        }
        Poll::Pending
    }
}

impl<T> std::fmt::Debug for Driver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("writing", &self.writing.len())
            .finish_non_exhaustive()
    }
}

/// A driver in a box, so that connections over different transports are of one type.
pub(crate) fn boxed<T: Transport>(io: T, shared: Arc<Shared>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(Driver::new(io, shared).run())
}
