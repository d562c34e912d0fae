//! What a connection knows: calls in work and in the queue, what is to be written, streams, subscriptions.
//!
//! No I/O, and a clock only to say when a call's turn came; the driver and the handles share it under one short lock.

use std::{
    collections::{HashMap, VecDeque},
    os::fd::OwnedFd,
    task::Waker,
    time::Instant,
};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::sync::oneshot;

use super::Reason;
use crate::{
    event::{router::Router, source::Source},
    stream::table::Streams,
    wire::{
        frame::Header,
        net::{MessageStatus, MessageType},
        procedure::{Info, Priority},
    },
};

/// The answer to a call.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) is_error: bool,
    pub(crate) payload: Bytes,
    pub(crate) files: Vec<OwnedFd>,
    /// When the window let the call through.
    pub(crate) turn: Option<Instant>,
}

/// No answer will come.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) reason: Reason,
    pub(crate) sent: bool,
}

pub(crate) type Answer = Result<Reply, Lost>;

/// A message to be written, with the descriptors that follow it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) frame: BytesMut,
    /// What follows the frame and belongs to the same message: stream data, which is not copied.
    pub(crate) body: Bytes,
    pub(crate) files: Vec<OwnedFd>,
    /// The call it makes.
    pub(crate) call: Option<u32>,
}

impl Outgoing {
    pub(crate) fn new(frame: Vec<u8>) -> Self {
        Self {
            frame: BytesMut::from(Bytes::from(frame)),
            body: Bytes::new(),
            files: Vec::new(),
            call: None,
        }
    }

    /// Bytes that are not written yet.
    pub(crate) fn len(&self) -> usize {
        self.frame.len() + self.body.len()
    }

    /// Takes off what was written and returns how much of it was not of this message.
    pub(crate) fn advance(&mut self, written: usize) -> usize {
        let of_frame = written.min(self.frame.len());
        self.frame.advance(of_frame);
        let of_body = (written - of_frame).min(self.body.len());
        self.body.advance(of_body);
        written - of_frame - of_body
    }
}

#[derive(Debug)]
struct Call {
    priority: Priority,
    phase: Phase,
    turn: Option<Instant>,
    claim: Claim,
}

/// Who waits for the answer to a call.
#[derive(Debug)]
pub(crate) enum Claim {
    Caller(oneshot::Sender<Answer>),
    /// Nobody but those who want to hear this anew, which the call ends.
    Source(Source),
    /// Nobody any more.
    None,
}

#[derive(Debug)]
enum Phase {
    /// Held back by the window.
    Waiting(Outgoing),
    /// Given to the driver.
    Queued,
    /// At least partly written.
    Sent,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct State {
    window: usize,
    serial: u32,
    calls: HashMap<u32, Call>,
    high: VecDeque<u32>,
    low: VecDeque<u32>,
    in_work: usize,
    low_in_work: usize,
    urgent: VecDeque<Outgoing>,
    pub(crate) streams: Streams,
    pub(crate) router: Router,
    closed: Option<Reason>,
    /// Set while the driver sleeps and could not know that there is something to do.
    driver: Option<Waker>,
}

impl State {
    pub(crate) fn new(window: usize, stream_buffer: usize, event_queue: usize) -> Self {
        Self {
            window,
            serial: 0,
            calls: HashMap::new(),
            high: VecDeque::new(),
            low: VecDeque::new(),
            in_work: 0,
            low_in_work: 0,
            urgent: VecDeque::new(),
            streams: Streams::new(stream_buffer),
            router: Router::new(event_queue),
            closed: None,
            driver: None,
        }
    }

    /// A serial no call or stream uses.
    pub(crate) fn next_serial(&mut self) -> u32 {
        loop {
            self.serial = self.serial.wrapping_add(1);
            if !self.calls.contains_key(&self.serial) && !self.streams.contains(self.serial) {
                return self.serial;
            }
        }
    }

    /// Takes a call; it is written when the window lets it. `message.call` is its serial.
    pub(crate) fn submit(&mut self, info: &Info, serial: u32, mut message: Outgoing, claim: Claim) -> Result<(), Lost> {
        if let Some(reason) = &self.closed {
            return Err(Lost {
                reason: reason.clone(),
                sent: false,
            });
        }
        message.call = Some(serial);
        let priority = info.priority;
        self.calls.insert(
            serial,
            Call {
                priority,
                phase: Phase::Waiting(message),
                turn: None,
                claim,
            },
        );
        match priority {
            Priority::High => self.high.push_back(serial),
            Priority::Low => self.low.push_back(serial),
        }
        self.fill_window();
        Ok(())
    }

    /// The caller is gone: a call that waits is forgotten, one that was written keeps its place until its answer comes.
    ///
    /// Returns whether it had been written.
    pub(crate) fn cancel(&mut self, serial: u32) -> bool {
        match self.calls.get_mut(&serial) {
            Some(Call {
                phase: Phase::Waiting(_),
                ..
            }) => {
                self.calls.remove(&serial);
                self.high.retain(|s| *s != serial);
                self.low.retain(|s| *s != serial);
                self.streams.forget(serial);
                false
            }
            Some(call) => {
                call.claim = Claim::None;
                self.streams.abandon(serial);
                matches!(call.phase, Phase::Sent)
            }
            None => true,
        }
    }

    /// Moves waiting calls to the driver as far as the window allows; the last slot is never for a low call.
    fn fill_window(&mut self) {
        while self.in_work < self.window {
            let low_may = self.low_in_work + 1 < self.window || self.window == 1;
            let next = self
                .high
                .pop_front()
                .or_else(|| if low_may { self.low.pop_front() } else { None });
            let Some(serial) = next else { return };
            let Some(call) = self.calls.get_mut(&serial) else {
                continue;
            };
            if let Phase::Waiting(message) = std::mem::replace(&mut call.phase, Phase::Queued) {
                call.turn = Some(Instant::now());
                self.in_work += 1;
                self.low_in_work += usize::from(call.priority == Priority::Low);
                self.urgent.push_back(message);
            }
        }
    }

    /// A message that goes before all others: a pong.
    pub(crate) fn push_first(&mut self, frame: Vec<u8>) {
        self.urgent.push_front(Outgoing::new(frame));
    }

    /// Whether there is something to write.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.urgent.is_empty() || self.streams.has_outgoing()
    }

    /// What to write next: calls before stream data.
    pub(crate) fn next_outgoing(&mut self) -> Option<Outgoing> {
        let Some(message) = self.urgent.pop_front() else {
            return self.streams.next_outgoing();
        };
        if let Some(call) = message.call.and_then(|serial| self.calls.get_mut(&serial)) {
            call.phase = Phase::Sent;
        }
        Some(message)
    }

    /// Takes a whole message from the daemon. Pings are the driver's business.
    pub(crate) fn receive(&mut self, header: &Header, payload: Bytes, files: Vec<OwnedFd>) {
        match header.kind {
            MessageType::REPLY | MessageType::REPLY_WITH_FDS => {
                let Some(call) = self.calls.remove(&header.serial) else {
                    return;
                };
                self.in_work = self.in_work.saturating_sub(1);
                self.low_in_work -= usize::from(call.priority == Priority::Low && self.low_in_work > 0);
                let is_error = header.status == MessageStatus::ERROR;
                self.streams.opened(header.serial, !is_error);
                match call.claim {
                    // Unclaimed descriptors close when the answer is dropped.
                    Claim::Caller(answer) => drop(answer.send(Ok(Reply {
                        is_error,
                        payload,
                        files,
                        turn: call.turn,
                    }))),
                    Claim::Source(source) => self.router.sources.left(&source),
                    Claim::None => self.streams.abandon(header.serial),
                }
                self.fill_window();
            }
            MessageType::MESSAGE => self.router.receive(header.program(), header.proc, payload),
            MessageType::STREAM => self.streams.receive(header, payload),
            MessageType::STREAM_HOLE => self.streams.receive_hole(header, &payload),
            // A newer daemon's idea; nothing waits for it.
            _ => {}
        }
    }

    /// Whether reading on would only fill memory: a stream's reader is behind and nothing else is expected.
    pub(crate) fn may_pause(&self) -> bool {
        self.calls.is_empty() && self.router.is_idle() && self.streams.is_full()
    }

    /// Ends everything; the first reason stays.
    pub(crate) fn close(&mut self, reason: &Reason) {
        if self.closed.is_some() {
            return;
        }
        self.closed = Some(reason.clone());
        self.urgent.clear();
        self.high.clear();
        self.low.clear();
        for (_, call) in self.calls.drain() {
            let sent = matches!(call.phase, Phase::Sent);
            if let Claim::Caller(answer) = call.claim {
                drop(answer.send(Err(Lost {
                    reason: reason.clone(),
                    sent,
                })));
            }
        }
        self.streams.close(reason);
        self.router.close(reason);
    }

    /// The driver goes to sleep; whoever leaves it something to do takes the waker.
    pub(crate) fn sleep(&mut self, waker: &Waker) {
        if !self.driver.as_ref().is_some_and(|old| old.will_wake(waker)) {
            self.driver = Some(waker.clone());
        }
    }

    /// Wakes the driver.
    pub(crate) fn wake_driver(&mut self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    pub(crate) fn closed(&self) -> Option<&Reason> {
        self.closed.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        procedure::Procedure,
        remote::{
            connect::ConnectGetVersion,
            domain::{DomainCreate, DomainDestroy},
        },
    };

    fn state() -> State {
        State::new(4, 1 << 20, 16)
    }

    fn submit<P: Procedure>(state: &mut State) -> (u32, oneshot::Receiver<Answer>) {
        let serial = state.next_serial();
        let (answer, wait) = oneshot::channel();
        state
            .submit(&P::INFO, serial, Outgoing::new(vec![0; 28]), Claim::Caller(answer))
            .unwrap();
        (serial, wait)
    }

    fn written(state: &mut State) -> Vec<u32> {
        std::iter::from_fn(|| state.next_outgoing())
            .filter_map(|m| m.call)
            .collect()
    }

    fn reply(state: &mut State, serial: u32) {
        let mut header = Header::call(&DomainCreate::INFO, serial);
        header.kind = MessageType::REPLY;
        state.receive(&header, Bytes::new(), Vec::new());
    }

    #[test]
    fn slow_calls_leave_a_slot_to_fast_ones() {
        let mut state = state();
        let slow: Vec<_> = (0..6).map(|_| submit::<DomainCreate>(&mut state)).collect();
        assert_eq!(written(&mut state), [1, 2, 3]);
        let fast = submit::<DomainDestroy>(&mut state);
        let second = submit::<ConnectGetVersion>(&mut state);
        assert_eq!(written(&mut state), [fast.0]);
        reply(&mut state, slow[1].0);
        assert_eq!(
            written(&mut state),
            [second.0],
            "a fast call goes before a slow one that waited longer"
        );
        reply(&mut state, fast.0);
        assert_eq!(written(&mut state), [slow[3].0]);
    }

    #[test]
    fn a_cancelled_call_that_waits_is_never_written() {
        let mut state = state();
        let calls: Vec<_> = (0..5).map(|_| submit::<DomainCreate>(&mut state)).collect();
        assert!(!state.cancel(calls[3].0));
        assert_eq!(written(&mut state), [1, 2, 3]);
        assert!(state.cancel(calls[0].0));
        assert_eq!(
            written(&mut state),
            [0_u32; 0],
            "its slot is the daemon's until the answer comes"
        );
        reply(&mut state, calls[0].0);
        assert_eq!(written(&mut state), [calls[4].0]);
    }

    #[test]
    fn the_end_tells_each_caller_whether_it_was_sent() {
        let mut state = state();
        let mut calls: Vec<_> = (0..5).map(|_| submit::<DomainCreate>(&mut state)).collect();
        assert_eq!(written(&mut state), [1, 2, 3]);
        state.close(&Reason::Eof);
        let sent: Vec<bool> = calls
            .iter_mut()
            .map(|(_, wait)| wait.try_recv().unwrap().unwrap_err().sent)
            .collect();
        assert_eq!(sent, [true, true, true, false, false]);
        let after = state.submit(&DomainCreate::INFO, 9, Outgoing::new(Vec::new()), Claim::None);
        assert!(!after.unwrap_err().sent);
    }

    #[test]
    fn serials_in_use_are_passed_over() {
        let mut state = state();
        let (first, _wait) = submit::<DomainCreate>(&mut state);
        state.serial = first.wrapping_sub(1);
        assert_eq!(state.next_serial(), first + 1);
    }
}
