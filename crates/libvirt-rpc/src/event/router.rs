//! From an event on the wire to the subscription it is for.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;

use super::source::Sources;
use crate::{
    connection::Reason,
    wire::{
        procedure::{Info, Program},
        xdr::{Decode as _, Decoder},
    },
};

/// The sorts of objects that have events; each counts its callback ids by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// Domains.
    Domain,
    /// Networks.
    Network,
    /// Storage pools.
    StoragePool,
    /// Node devices.
    NodeDevice,
    /// Secrets.
    Secret,
    /// QEMU's monitor.
    Monitor,
    /// The connection itself.
    Connection,
}

impl Class {
    fn of(program: Program, number: i32) -> Option<Self> {
        let info = Info::find(program, number)?;
        if program == Program::QEMU {
            return Some(Self::Monitor);
        }
        [
            ("domain_event", Self::Domain),
            ("network_event", Self::Network),
            ("storage_pool_event", Self::StoragePool),
            ("node_device_event", Self::NodeDevice),
            ("secret_event", Self::Secret),
            ("connect_event", Self::Connection),
        ]
        .into_iter()
        .find_map(|(prefix, class)| info.name.starts_with(prefix).then_some(class))
    }
}

/// An event as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) program: Program,
    pub(crate) number: i32,
    pub(crate) payload: Bytes,
}

/// What a subscriber gets.
#[derive(Debug)]
pub(crate) enum Item {
    Event(Raw),
    Lagged(u64),
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Raw>,
    lagged: u64,
    waker: Option<Waker>,
}

/// All subscriptions of one connection.
#[derive(Debug)]
pub(crate) struct Router {
    capacity: usize,
    pub(crate) sources: Sources,
    /// By callback id, and there by subscriber.
    queues: HashMap<(Class, i32), BTreeMap<u64, Queue>>,
    subscribers: u64,
    /// Register calls under way; events may overtake their replies.
    registering: HashMap<Class, usize>,
    early: VecDeque<(Class, i32, Raw)>,
    closed: Option<Reason>,
}

/// Events kept for register calls that are not answered yet.
const EARLY: usize = 4096;

impl Router {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            sources: Sources::default(),
            queues: HashMap::new(),
            subscribers: 0,
            registering: HashMap::new(),
            early: VecDeque::new(),
            closed: None,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queues.is_empty() && self.registering.is_empty()
    }

    /// A register call is about to be written.
    pub(crate) fn begin(&mut self, class: Class) {
        *self.registering.entry(class).or_default() += 1;
    }

    /// Someone listens to a callback id from now on; their number.
    pub(crate) fn listen(&mut self, class: Class, id: i32) -> u64 {
        self.subscribers += 1;
        let queues = self.queues.entry((class, id)).or_default();
        queues.insert(self.subscribers, Queue::default());
        self.subscribers
    }

    /// The register call was answered; with an id if it succeeded, to which its caller, whose number is returned, listens.
    pub(crate) fn finish(&mut self, class: Class, id: Option<i32>) -> Option<u64> {
        let mut subscriber = None;
        if let Some(id) = id {
            subscriber = Some(self.listen(class, id));
            let early = std::mem::take(&mut self.early);
            for (of, to, raw) in early {
                if (of, to) == (class, id) {
                    self.deliver(class, id, raw);
                } else {
                    self.early.push_back((of, to, raw));
                }
            }
        }
        let count = self.registering.entry(class).or_default();
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.registering.remove(&class);
            self.early.retain(|(c, _, _)| *c != class);
        }
        subscriber
    }

    pub(crate) fn receive(&mut self, program: Program, number: i32, payload: Bytes) {
        let Some(class) = Class::of(program, number) else {
            return;
        };
        let id = match class {
            Class::Connection => Ok(0),
            _ => i32::decode(&mut Decoder::new(&payload)),
        };
        let Ok(id) = id else { return };
        self.deliver(
            class,
            id,
            Raw {
                program,
                number,
                payload,
            },
        );
    }

    fn deliver(&mut self, class: Class, id: i32, raw: Raw) {
        let Some(queues) = self.queues.get_mut(&(class, id)) else {
            // Neither known nor about to be: sent before the daemon saw the end of its subscription.
            if self.registering.contains_key(&class) && self.early.len() < EARLY {
                self.early.push_back((class, id, raw));
            }
            return;
        };
        for queue in queues.values_mut() {
            if queue.events.len() >= self.capacity {
                queue.events.pop_front();
                queue.lagged += 1;
            }
            queue.events.push_back(raw.clone());
            if let Some(waker) = queue.waker.take() {
                waker.wake();
            }
        }
    }

    pub(crate) fn poll_next(
        &mut self,
        (class, id): (Class, i32),
        subscriber: u64,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Item, Reason>> {
        let queues = self.queues.get_mut(&(class, id));
        let Some(queue) = queues.and_then(|queues| queues.get_mut(&subscriber)) else {
            return Poll::Ready(Err(self.closed.clone().unwrap_or(Reason::Closed)));
        };
        if queue.lagged > 0 {
            return Poll::Ready(Ok(Item::Lagged(std::mem::take(&mut queue.lagged))));
        }
        if let Some(raw) = queue.events.pop_front() {
            return Poll::Ready(Ok(Item::Event(raw)));
        }
        if let Some(reason) = &self.closed {
            return Poll::Ready(Err(reason.clone()));
        }
        queue.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// A subscriber listens no more.
    pub(crate) fn remove(&mut self, class: Class, id: i32, subscriber: u64) {
        if let Some(queues) = self.queues.get_mut(&(class, id)) {
            queues.remove(&subscriber);
            if queues.is_empty() {
                self.queues.remove(&(class, id));
            }
        }
    }

    pub(crate) fn close(&mut self, reason: &Reason) {
        self.closed = Some(reason.clone());
        self.sources.close();
        for queue in self.queues.values_mut().flat_map(BTreeMap::values_mut) {
            if let Some(waker) = queue.waker.take() {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFECYCLE: i32 = 318;

    fn event(id: i32, mark: u8) -> Bytes {
        let mut bytes = id.to_be_bytes().to_vec();
        bytes.push(mark);
        bytes.into()
    }

    fn next(router: &mut Router, id: i32, subscriber: u64) -> Option<Item> {
        let mut cx = Context::from_waker(Waker::noop());
        match router.poll_next((Class::Domain, id), subscriber, &mut cx) {
            Poll::Ready(item) => Some(item.unwrap()),
            Poll::Pending => None,
        }
    }

    #[test]
    fn an_event_that_overtakes_the_answer_is_kept() {
        let mut router = Router::new(8);
        router.receive(Program::REMOTE, LIFECYCLE, event(3, 0));
        router.begin(Class::Domain);
        router.receive(Program::REMOTE, LIFECYCLE, event(3, 1));
        router.receive(Program::REMOTE, LIFECYCLE, event(4, 2));
        let subscriber = router.finish(Class::Domain, Some(3)).unwrap();
        let Some(Item::Event(raw)) = next(&mut router, 3, subscriber) else {
            panic!("no event")
        };
        assert_eq!(raw.payload, event(3, 1));
        assert!(next(&mut router, 3, subscriber).is_none());
        assert!(router.early.is_empty(), "nothing is kept for nobody");
    }

    #[test]
    fn the_same_id_of_two_classes_is_two_subscriptions() {
        let mut router = Router::new(8);
        let [domain, _] = [Class::Domain, Class::Network].map(|class| {
            router.begin(class);
            router.finish(class, Some(0)).unwrap()
        });
        let network_lifecycle = 315;
        router.receive(Program::REMOTE, network_lifecycle, event(0, 1));
        assert!(next(&mut router, 0, domain).is_none());
    }

    #[test]
    fn a_slow_subscriber_is_told_what_it_missed() {
        let mut router = Router::new(2);
        router.begin(Class::Domain);
        let slow = router.finish(Class::Domain, Some(0)).unwrap();
        for mark in 0..5 {
            router.receive(Program::REMOTE, LIFECYCLE, event(0, mark));
        }
        assert!(matches!(next(&mut router, 0, slow), Some(Item::Lagged(3))));
        assert!(matches!(next(&mut router, 0, slow), Some(Item::Event(raw)) if raw.payload == event(0, 3)));
    }

    #[test]
    fn everybody_who_listens_gets_every_event_and_is_slow_by_itself() {
        let mut router = Router::new(2);
        router.begin(Class::Domain);
        let first = router.finish(Class::Domain, Some(0)).unwrap();
        router.receive(Program::REMOTE, LIFECYCLE, event(0, 1));
        let second = router.listen(Class::Domain, 0);
        for mark in 2..4 {
            router.receive(Program::REMOTE, LIFECYCLE, event(0, mark));
        }
        assert!(matches!(next(&mut router, 0, first), Some(Item::Lagged(1))));
        for mark in 2..4 {
            assert!(matches!(next(&mut router, 0, second), Some(Item::Event(raw)) if raw.payload == event(0, mark)));
        }
        router.remove(Class::Domain, 0, first);
        router.receive(Program::REMOTE, LIFECYCLE, event(0, 9));
        assert!(matches!(next(&mut router, 0, second), Some(Item::Event(_))));
        router.remove(Class::Domain, 0, second);
        assert!(router.is_idle());
    }
}
