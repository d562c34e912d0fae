//! A subscriber's end.

use std::{
    fmt,
    future::poll_fn,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use futures_core::Stream;
use tokio::sync::futures::OwnedNotified;

use super::{
    Class, Subject, Topic,
    router::{Item, Raw},
    source::{Join, Source},
};
use crate::{
    Error,
    connection::{Connection, Reason, Shared},
    wire::{
        self,
        procedure::EventMessage,
        qemu::{
            ConnectDomainMonitorEventDeregister, ConnectDomainMonitorEventDeregisterArgs,
            ConnectDomainMonitorEventRegister, ConnectDomainMonitorEventRegisterArgs, DomainMonitorEventMsg,
        },
        remote::{
            connect::{ConnectEventConnectionClosedMsg, ConnectRegisterCloseCallback, ConnectUnregisterCloseCallback},
            record::DomainRef,
        },
        xdr::{Decoder, Text},
    },
};

/// Events of one sort, in order.
///
/// At most [`Options::event_queue`](crate::Options::event_queue) of them wait; when more arrive the oldest go, and
/// [`Interruption::Lagged`] says how many. Dropping the last of the same asks the daemon for no more. It is a
/// [`Stream`](futures_core::Stream) too, which ends after [`Interruption::Closed`].
pub struct Subscription<T> {
    connection: Connection,
    source: Source,
    id: i32,
    subscriber: u64,
    deregister: Deregister,
    /// As a stream it has given its last item.
    ended: bool,
    sort: PhantomData<fn() -> T>,
}

/// Asks for no more events of a callback id; the source is told when that was answered.
type Deregister = fn(&Connection, i32, Source);

/// Why there is no event.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Interruption {
    /// The subscriber was too slow and missed so many; the state it keeps has to be read anew.
    #[error("{0} events were missed")]
    Lagged(u64),
    /// The connection is gone, and the subscription with it.
    #[error("the connection is gone: {0}")]
    Closed(Reason),
    /// The daemon sent an event that cannot be read; the next one may be better.
    #[error("an event cannot be read")]
    Unreadable(#[source] wire::Error),
}

impl<T: EventMessage> Subscription<T> {
    /// The next event. Safe to drop: no event is lost.
    ///
    /// # Errors
    /// When events were missed, or no more will come.
    pub async fn next(&mut self) -> Result<T, Interruption> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    /// An event that is there already.
    pub fn try_next(&mut self) -> Option<Result<T, Interruption>> {
        let mut cx = Context::from_waker(Waker::noop());
        match self.poll_event(&mut cx) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        }
    }

    fn poll_event(&self, cx: &mut Context<'_>) -> Poll<Result<T, Interruption>> {
        loop {
            let mut state = self.connection.shared().lock();
            let item = ready!(
                state
                    .router
                    .poll_next((self.source.class, self.id), self.subscriber, cx)
            );
            drop(state);
            return Poll::Ready(match item {
                Ok(Item::Lagged(count)) => Err(Interruption::Lagged(count)),
                Ok(Item::Event(raw)) => match decode(&raw) {
                    Some(event) => event.map_err(Interruption::Unreadable),
                    None => continue,
                },
                Err(reason) => Err(Interruption::Closed(reason)),
            });
        }
    }
}

/// The same items as [`next`](Subscription::next) gives; the last is [`Interruption::Closed`].
impl<T: EventMessage> Stream for Subscription<T> {
    type Item = Result<T, Interruption>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        let event = ready!(this.poll_event(cx));
        this.ended = matches!(event, Err(Interruption::Closed(_)));
        Poll::Ready(Some(event))
    }
}

/// The event, unless it is one of another sort with the same id.
fn decode<T: EventMessage>(raw: &Raw) -> Option<Result<T, wire::Error>> {
    let ours = raw.program == T::INFO.program && raw.number == T::INFO.number;
    ours.then(|| T::decode(&mut Decoder::new(&raw.payload)))
}

impl<T> Drop for Subscription<T> {
    fn drop(&mut self) {
        let mut state = self.connection.shared().lock();
        state.router.remove(self.source.class, self.id, self.subscriber);
        let last = state.router.sources.leave(&self.source);
        drop(state);
        if last {
            (self.deregister)(&self.connection, self.id, self.source.clone());
        }
    }
}

impl<T> fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("source", &self.source)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Says that a register call is under way, whatever becomes of it.
struct Registering {
    shared: Arc<Shared>,
    source: Source,
    ended: bool,
}

impl Registering {
    fn end(&mut self, id: Option<i32>) -> Option<u64> {
        self.ended = true;
        let mut state = self.shared.lock();
        state.router.sources.registered(&self.source, id);
        state.router.finish(self.source.class, id)
    }
}

impl Drop for Registering {
    fn drop(&mut self) {
        if !self.ended {
            self.end(None);
        }
    }
}

/// Where someone who subscribes stands.
enum Entry {
    Listening(i32, u64),
    Registering(Registering),
}

impl Connection {
    /// Subscribes to the events of one object, or of all.
    ///
    /// What happens after this returns is never missed, nor is what the daemon sends before it has answered.
    ///
    /// # Errors
    /// When the daemon does not know the event or does not let us have it.
    pub async fn subscribe<T: Topic>(&self, subject: Option<&T::Subject>) -> Result<Subscription<T>, Error> {
        let source = Source {
            class: T::CLASS,
            event: T::ID,
            of: subject.map(Subject::key),
        };
        let subject = subject.cloned();
        let register = move |c: Self| async move { T::Subject::register(&c, T::ID, subject).await };
        self.subscribe_with(source, register, T::Subject::deregister).await
    }

    /// Subscribes to what QEMU's monitor tells, of one domain or of all; `event` is QEMU's name of one event.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn subscribe_monitor(
        &self,
        domain: Option<&DomainRef>,
        event: Option<&str>,
    ) -> Result<Subscription<DomainMonitorEventMsg>, Error> {
        let args = ConnectDomainMonitorEventRegisterArgs {
            dom: domain.cloned(),
            event: event.map(Text::from),
            flags: 0,
        };
        let mut of = domain.map(Subject::key).unwrap_or_default();
        of.extend_from_slice(event.unwrap_or_default().as_bytes());
        let source = Source {
            class: Class::Monitor,
            event: 0,
            of: Some(of),
        };
        let register = move |c: Self| async move {
            c.call::<ConnectDomainMonitorEventRegister>(&args)
                .await
                .map(|ret| ret.callback_id)
        };
        self.subscribe_with(source, register, |c, callback_id, source| {
            let args = ConnectDomainMonitorEventDeregisterArgs { callback_id };
            c.leave::<ConnectDomainMonitorEventDeregister>(&args, source);
        })
        .await
    }

    /// Subscribes to the loss of the connection *behind* the daemon, to its hypervisor or to another daemon.
    ///
    /// The end of this connection itself is told by [`closed`](Self::closed).
    ///
    /// # Errors
    /// When the daemon does not know the call.
    pub async fn subscribe_connection_closed(&self) -> Result<Subscription<ConnectEventConnectionClosedMsg>, Error> {
        let register = |c: Self| async move { c.call::<ConnectRegisterCloseCallback>(&()).await.map(|()| 0) };
        let source = Source {
            class: Class::Connection,
            event: 0,
            of: None,
        };
        self.subscribe_with(source, register, |c, _, source| {
            c.leave::<ConnectUnregisterCloseCallback>(&(), source);
        })
        .await
    }

    async fn subscribe_with<T, F>(
        &self,
        source: Source,
        register: impl FnOnce(Self) -> F,
        deregister: Deregister,
    ) -> Result<Subscription<T>, Error>
    where
        F: Future<Output = Result<i32, Error>> + Send + 'static,
        T: 'static,
    {
        let connection = self.clone();
        let subscription = move |source, id, subscriber| Subscription {
            connection,
            source,
            id,
            subscriber,
            deregister,
            ended: false,
            sort: PhantomData,
        };
        let mut registering = match self.enter(&source).await? {
            Entry::Listening(id, subscriber) => return Ok(subscription(source, id, subscriber)),
            Entry::Registering(registering) => registering,
        };
        let call = register(self.clone());
        // In a task of its own: if the caller gives up, the daemon's registration is still undone.
        let task = tokio::spawn(async move {
            let id = call.await?;
            let subscriber = registering.end(Some(id)).unwrap_or_default();
            Ok(subscription(source, id, subscriber))
        });
        match task.await {
            Ok(done) => done,
            Err(_) => Err(Error::disconnected(Reason::Closed, true)),
        }
    }

    /// Joins those who listen to a source, or becomes the one who registers it.
    async fn enter(&self, source: &Source) -> Result<Entry, Error> {
        let wait = async {
            loop {
                match self.try_enter(source) {
                    Ok(entry) => return entry,
                    Err(done) => done.await,
                }
            }
        };
        match self.deadline() {
            None => Ok(wait.await),
            Some(limit) => tokio::time::timeout(limit, wait)
                .await
                .map_err(|_| Error::deadline("subscribe", limit, false)),
        }
    }

    fn try_enter(&self, source: &Source) -> Result<Entry, OwnedNotified> {
        let mut state = self.shared().lock();
        match state.router.sources.join(source) {
            Join::Listen(id) => Ok(Entry::Listening(id, state.router.listen(source.class, id))),
            Join::Register => {
                state.router.begin(source.class);
                Ok(Entry::Registering(Registering {
                    shared: Arc::clone(self.shared()),
                    source: source.clone(),
                    ended: false,
                }))
            }
            Join::Wait(done) => Err(done),
        }
    }
}
