//! The open streams of a connection: what came for each, what is to be written, how each ends.

use std::{
    collections::{HashMap, VecDeque},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;

use crate::{
    connection::{Reason, state::Outgoing},
    wire::{
        self, frame,
        frame::Header,
        net::{MessageError, MessageStatus, MessageType, StreamHole},
        procedure::Info,
        xdr::{Decode as _, Decoder},
    },
};

/// A piece of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Chunk {
    /// Bytes.
    Data(Bytes),
    /// So many bytes that are all zero and take no space.
    Hole(u64),
}

/// How a stream ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// The daemon has no more data; it waits for our finish.
    Eof,
    /// Both sides are done.
    Finished,
    /// The daemon gave up.
    Failed(MessageError),
    /// The daemon said something that is no stream packet.
    Broken(wire::Error),
    /// The reader was so slow that its data was thrown away.
    Overrun,
    /// The connection is gone.
    Lost(Reason),
}

#[derive(Debug)]
struct Entry {
    info: Info,
    incoming: VecDeque<Chunk>,
    buffered: usize,
    end: Option<End>,
    opened: bool,
    /// Nobody holds it; it is here until the daemon has confirmed its end.
    abandoned: bool,
    /// The daemon was told that we are done with it.
    told: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// All streams of one connection.
#[derive(Debug)]
pub(crate) struct Streams {
    limit: usize,
    entries: HashMap<u32, Entry>,
    queue: VecDeque<(u32, Outgoing)>,
    queued: usize,
}

/// How many times its buffer a stream may hold while other things keep the connection from pausing.
const OVERRUN: usize = 16;

impl Streams {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            entries: HashMap::new(),
            queue: VecDeque::new(),
            queued: 0,
        }
    }

    pub(crate) fn contains(&self, serial: u32) -> bool {
        self.entries.contains_key(&serial)
    }

    /// Whether data is under way to the daemon, behind which a ping would wait.
    pub(crate) fn is_uploading(&self) -> bool {
        self.queued > 0
            || self
                .entries
                .values()
                .any(|e| e.info.stream == wire::procedure::Direction::Write)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.values().any(|e| e.buffered >= self.limit && !e.abandoned)
    }

    /// Before the call that opens it is written, so that nothing that follows its answer is missed.
    pub(crate) fn register(&mut self, serial: u32, info: Info) {
        let entry = Entry {
            info,
            incoming: VecDeque::new(),
            buffered: 0,
            end: None,
            opened: false,
            abandoned: false,
            told: false,
            reader: None,
            writer: None,
        };
        self.entries.insert(serial, entry);
    }

    /// The daemon answered the call that opens it.
    pub(crate) fn opened(&mut self, serial: u32, accepted: bool) {
        if !accepted {
            self.entries.remove(&serial);
        } else if let Some(entry) = self.entries.get_mut(&serial) {
            entry.opened = true;
            if entry.abandoned {
                self.abandon(serial);
            }
        }
    }

    /// The call that would open it was never written.
    pub(crate) fn forget(&mut self, serial: u32) {
        self.entries.remove(&serial);
    }

    pub(crate) fn receive(&mut self, header: &Header, payload: Bytes) {
        // A packet for a stream that is gone was under way when it ended.
        let Some(entry) = self.entries.get_mut(&header.serial) else {
            return;
        };
        match header.status {
            MessageStatus::CONTINUE if payload.is_empty() => entry.end = Some(End::Eof),
            MessageStatus::CONTINUE => {
                self.keep(header.serial, payload.len(), Chunk::Data(payload));
                return;
            }
            MessageStatus::OK => entry.end = Some(End::Finished),
            _ => {
                let error = MessageError::decode(&mut Decoder::new(&payload));
                entry.end = Some(error.map_or_else(End::Broken, End::Failed));
            }
        }
        entry.wake();
        let is_over = !matches!(entry.end, Some(End::Eof));
        if entry.abandoned && is_over {
            self.entries.remove(&header.serial);
        }
    }

    pub(crate) fn receive_hole(&mut self, header: &Header, payload: &[u8]) {
        match StreamHole::decode(&mut Decoder::new(payload)) {
            Ok(hole) => self.keep(header.serial, 1, Chunk::Hole(u64::try_from(hole.length).unwrap_or(0))),
            Err(error) => self.end(header.serial, End::Broken(error)),
        }
    }

    fn keep(&mut self, serial: u32, cost: usize, chunk: Chunk) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        if entry.abandoned || entry.end.is_some() {
            return;
        }
        entry.buffered += cost;
        entry.incoming.push_back(chunk);
        if entry.buffered > self.limit.saturating_mul(OVERRUN) {
            entry.incoming.clear();
            self.end(serial, End::Overrun);
        } else {
            entry.wake();
        }
    }

    /// Ends a stream from this side; the daemon is told when it is dropped.
    fn end(&mut self, serial: u32, end: End) {
        if let Some(entry) = self.entries.get_mut(&serial) {
            entry.end.get_or_insert(end);
            entry.buffered = 0;
            entry.wake();
        }
    }

    /// The next piece for a reader, or how the stream ended.
    pub(crate) fn poll_chunk(&mut self, serial: u32, cx: &mut Context<'_>) -> Poll<Result<Chunk, End>> {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return Poll::Ready(Err(End::Finished));
        };
        if let Some(chunk) = entry.incoming.pop_front() {
            entry.buffered = entry.buffered.saturating_sub(chunk.cost());
            return Poll::Ready(Ok(chunk));
        }
        match &entry.end {
            Some(end) => Poll::Ready(Err(end.clone())),
            None => {
                entry.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// How the stream ended, once it has for both sides.
    pub(crate) fn poll_finished(&mut self, serial: u32, cx: &mut Context<'_>) -> Poll<End> {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return Poll::Ready(End::Finished);
        };
        match &entry.end {
            Some(end) if !matches!(end, End::Eof) => Poll::Ready(end.clone()),
            _ => {
                entry.incoming.clear();
                entry.buffered = 0;
                entry.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Waits for room in the queue; an end the daemon has set comes first.
    pub(crate) fn poll_room(&mut self, serial: u32, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return Poll::Ready(Err(End::Finished));
        };
        match &entry.end {
            Some(end) if !matches!(end, End::Eof) => return Poll::Ready(Err(end.clone())),
            _ => {}
        }
        if self.queued < self.limit {
            return Poll::Ready(Ok(()));
        }
        entry.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Queues a packet.
    pub(crate) fn push(&mut self, serial: u32, frame: Vec<u8>, body: Bytes) {
        let message = Outgoing {
            body,
            ..Outgoing::new(frame)
        };
        self.queued += message.len();
        self.queue.push_back((serial, message));
    }

    pub(crate) fn has_outgoing(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(crate) fn next_outgoing(&mut self) -> Option<Outgoing> {
        let (_, message) = self.queue.pop_front()?;
        self.queued = self.queued.saturating_sub(message.len());
        if self.queued < self.limit {
            for entry in self.entries.values_mut() {
                if let Some(writer) = entry.writer.take() {
                    writer.wake();
                }
            }
        }
        Some(message)
    }

    /// Queues the packet that ends a stream.
    pub(crate) fn push_end(&mut self, serial: u32, status: MessageStatus) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        entry.told = true;
        let header = Header {
            kind: MessageType::STREAM,
            status,
            ..Header::call(&entry.info, serial)
        };
        if let Ok(packet) = frame::raw(&header, &[]) {
            self.push(serial, packet, Bytes::new());
        }
    }

    /// The holder is gone: the daemon is told to stop, and what still comes is thrown away.
    pub(crate) fn abandon(&mut self, serial: u32) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        entry.abandoned = true;
        entry.incoming.clear();
        entry.buffered = 0;
        if !entry.opened || entry.told {
            return;
        }
        let status = match entry.end {
            Some(End::Eof) => MessageStatus::OK,
            None | Some(End::Overrun | End::Broken(_)) => MessageStatus::ERROR,
            Some(End::Finished | End::Failed(_) | End::Lost(_)) => {
                self.entries.remove(&serial);
                return;
            }
        };
        let queued = &mut self.queued;
        self.queue.retain(|(owner, message)| {
            let keep = *owner != serial;
            if !keep {
                *queued = queued.saturating_sub(message.len());
            }
            keep
        });
        self.push_end(serial, status);
    }

    /// The holder is gone after it had sent the end; only the daemon's word is missing.
    pub(crate) fn release(&mut self, serial: u32) {
        if let Some(entry) = self.entries.get_mut(&serial) {
            entry.abandoned = true;
            if entry.end.as_ref().is_some_and(|end| !matches!(end, End::Eof)) {
                self.entries.remove(&serial);
            }
        }
    }

    pub(crate) fn close(&mut self, reason: &Reason) {
        self.queue.clear();
        self.queued = 0;
        self.entries.retain(|_, entry| !entry.abandoned);
        for entry in self.entries.values_mut() {
            if matches!(entry.end, None | Some(End::Eof)) {
                entry.end = Some(End::Lost(reason.clone()));
            }
            entry.wake();
        }
    }
}

impl Entry {
    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }
}

impl Chunk {
    fn cost(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Hole(_) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{procedure::Procedure as _, remote::storage_vol::StorageVolDownload};

    const SERIAL: u32 = 7;

    fn header(status: MessageStatus) -> Header {
        let header = Header::call(&StorageVolDownload::INFO, SERIAL);
        Header {
            kind: MessageType::STREAM,
            status,
            ..header
        }
    }

    fn open(limit: usize) -> Streams {
        let mut streams = Streams::new(limit);
        streams.register(SERIAL, StorageVolDownload::INFO);
        streams.opened(SERIAL, true);
        streams
    }

    fn sent(streams: &mut Streams) -> Option<MessageStatus> {
        let message = streams.next_outgoing()?;
        Some(frame::split(&message.frame).unwrap().0.status)
    }

    #[test]
    fn an_abandoned_stream_is_aborted_and_drained() {
        let mut streams = open(100);
        streams.abandon(SERIAL);
        assert_eq!(sent(&mut streams), Some(MessageStatus::ERROR));
        streams.receive(&header(MessageStatus::CONTINUE), Bytes::from_static(b"late"));
        assert!(streams.contains(SERIAL) && !streams.is_full());
        streams.receive(&header(MessageStatus::OK), Bytes::new());
        assert!(!streams.contains(SERIAL));
        streams.receive(&header(MessageStatus::CONTINUE), Bytes::from_static(b"later still"));
    }

    #[test]
    fn a_stream_read_to_its_end_is_finished_not_aborted() {
        let mut streams = open(100);
        streams.receive(&header(MessageStatus::CONTINUE), Bytes::new());
        streams.abandon(SERIAL);
        assert_eq!(sent(&mut streams), Some(MessageStatus::OK));
    }

    #[test]
    fn a_reader_that_never_reads_costs_bounded_memory() {
        let mut streams = open(10);
        for _ in 0..100 {
            streams.receive(&header(MessageStatus::CONTINUE), Bytes::from_static(b"0123456789"));
        }
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(
            streams.poll_chunk(SERIAL, &mut cx),
            Poll::Ready(Err(End::Overrun))
        ));
        streams.abandon(SERIAL);
        assert_eq!(sent(&mut streams), Some(MessageStatus::ERROR));
    }

    #[test]
    fn an_answer_nobody_waits_for_closes_its_stream() {
        let mut streams = Streams::new(10);
        streams.register(SERIAL, StorageVolDownload::INFO);
        streams.abandon(SERIAL);
        assert_eq!(sent(&mut streams), None, "before the answer there is nothing to abort");
        streams.opened(SERIAL, true);
        assert_eq!(sent(&mut streams), Some(MessageStatus::ERROR));
    }
}
