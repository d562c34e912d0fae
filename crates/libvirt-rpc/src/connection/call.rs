//! One call, from its arguments to its answer.

use std::{os::fd::OwnedFd, sync::Arc, time::Instant};

use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::{
    Connection, Shared,
    observer::Watch,
    state::{Answer, Claim, Outgoing, Reply},
};
use crate::{
    Error,
    event::source::Source,
    stream::Stream,
    wire::{
        self,
        frame::{self, Header},
        net::{MessageError, MessageType},
        procedure::{Info, Procedure},
        xdr::{Decode as _, Decoder, Encode, Encoder},
    },
};

impl Connection {
    /// Sends a call and waits for its answer.
    pub(crate) async fn exchange(
        &self,
        info: &'static Info,
        args: &impl Encode,
        files: Vec<OwnedFd>,
    ) -> Result<Reply, Error> {
        let message = encode(info, args, files)?;
        let answered = self.observed(info, async {
            let (pending, answer) = self.submit(info, message, false)?;
            self.wait(info, pending, answer).await
        });
        answered.await
    }

    /// Tells the observer of a call, and the trace.
    async fn observed(
        &self,
        info: &'static Info,
        call: impl Future<Output = Result<Reply, Error>>,
    ) -> Result<Reply, Error> {
        let watch = Watch::begin(self.shared().options.observer.as_deref(), info.name);
        let span = tracing::debug_span!(
            "libvirt",
            otel.name = info.name,
            otel.kind = "client",
            call = info.name,
            error = tracing::field::Empty
        );
        let result = call.instrument(span.clone()).await;
        if let Err(error) = &result {
            span.record("error", tracing::field::display(error));
        }
        watch.end(&result);
        result
    }

    /// Makes a call that opens a stream; the stream is there when the daemon has accepted.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn open_stream<P: Procedure>(&self, args: &P::Args) -> Result<(P::Ret, Stream), Error> {
        let message = encode(&P::INFO, args, Vec::new())?;
        let mut serial = 0;
        let accepted = self.observed(&P::INFO, async {
            let (pending, answer) = self.submit(&P::INFO, message, true)?;
            serial = pending.serial;
            self.wait(&P::INFO, pending, answer).await
        });
        let reply = accepted.await?;
        let stream = Stream::new(self.clone(), serial, &P::INFO);
        let ret = P::Ret::decode(&mut Decoder::new(&reply.payload));
        Ok((ret.map_err(|error| Error::protocol(P::INFO.name, error))?, stream))
    }

    /// Asks for no more events of a source, which is told when that was answered.
    pub(crate) fn leave<P: Procedure>(&self, args: &P::Args, source: Source) {
        let Ok(mut message) = encode(&P::INFO, args, Vec::new()) else {
            return;
        };
        let mut state = self.shared().lock();
        let serial = state.next_serial();
        set_serial(&mut message, serial);
        // A connection that is gone has forgotten what this was to undo.
        drop(state.submit(&P::INFO, serial, message, Claim::Source(source)));
        state.wake_driver();
    }

    fn submit(
        &self,
        info: &'static Info,
        mut message: Outgoing,
        opens_stream: bool,
    ) -> Result<(Pending, oneshot::Receiver<Answer>), Error> {
        let (answer, wait) = oneshot::channel();
        let shared = Arc::clone(self.shared());
        let mut state = shared.lock();
        let serial = state.next_serial();
        set_serial(&mut message, serial);
        if opens_stream {
            state.streams.register(serial, *info);
        }
        if let Err(lost) = state.submit(info, serial, message, Claim::Caller(answer)) {
            state.streams.forget(serial);
            return Err(Error::disconnected(lost.reason, lost.sent));
        }
        state.wake_driver();
        drop(state);
        Ok((
            Pending {
                shared,
                serial,
                done: false,
            },
            wait,
        ))
    }

    async fn wait(
        &self,
        info: &'static Info,
        mut pending: Pending,
        answer: oneshot::Receiver<Answer>,
    ) -> Result<Reply, Error> {
        let started = Instant::now();
        let answer = match self.deadline {
            None => answer.await,
            Some(limit) => match tokio::time::timeout(limit, answer).await {
                Ok(answer) => answer,
                Err(_) => return Err(Error::deadline(info.name, limit, pending.cancel())),
            },
        };
        pending.done = true;
        tracing::trace!(call = info.name, serial = pending.serial, elapsed = ?started.elapsed(), "answered");
        match answer {
            Ok(Ok(reply)) if !reply.is_error => Ok(reply),
            Ok(Ok(reply)) => Err(match MessageError::decode(&mut Decoder::new(&reply.payload)) {
                Ok(error) => Error::daemon_said(info.name, error),
                Err(error) => Error::protocol(info.name, error),
            }),
            Ok(Err(lost)) => Err(Error::disconnected(lost.reason, lost.sent)),
            Err(_) => Err(Error::disconnected(super::Reason::Closed, true)),
        }
    }
}

/// Takes the call back when its future is dropped.
struct Pending {
    shared: Arc<Shared>,
    serial: u32,
    done: bool,
}

impl Pending {
    fn cancel(&mut self) -> bool {
        self.done = true;
        self.shared.lock().cancel(self.serial)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.done {
            self.cancel();
        }
    }
}

struct WithFiles<'a, A> {
    count: u32,
    args: &'a A,
}

impl<A: Encode> Encode for WithFiles<'_, A> {
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), wire::Error> {
        out.word(self.count);
        self.args.encode(out)
    }
}

fn encode(info: &'static Info, args: &impl Encode, files: Vec<OwnedFd>) -> Result<Outgoing, Error> {
    let mut header = Header::call(info, 0);
    let frame = if files.is_empty() {
        frame::message(&header, args)
    } else {
        header.kind = MessageType::CALL_WITH_FDS;
        count(&files).and_then(|count| frame::message(&header, &WithFiles { count, args }))
    };
    let frame = frame.map_err(|error| Error::argument(info.name, error))?;
    Ok(Outgoing {
        files,
        ..Outgoing::new(frame)
    })
}

fn count(files: &[OwnedFd]) -> Result<u32, wire::Error> {
    let max = wire::net::MESSAGE_NUM_FDS_MAX;
    match u32::try_from(files.len()) {
        Ok(count) if count <= max => Ok(count),
        _ => Err(wire::Error::TooLong {
            field: "files",
            length: files.len(),
            max,
        }),
    }
}

fn set_serial(message: &mut Outgoing, serial: u32) {
    frame::set_serial(&mut message.frame, serial);
}
