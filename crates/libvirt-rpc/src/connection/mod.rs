//! A connection: handles that anybody may clone, and one task that reads and writes.

use std::{
    future::Future,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;

use self::{options::Options as Settings, state::State};
use crate::{
    Error,
    transport::Transport,
    uri::Uri,
    wire::{
        procedure::Procedure,
        xdr::{Decode as _, Decoder},
    },
};

mod call;
mod driver;
mod keepalive;
mod observer;
mod open;
pub(crate) mod options;
mod reason;
pub(crate) mod state;

pub use self::{
    observer::{Ended, Observer},
    reason::Reason,
};

/// A connection to a daemon.
///
/// Clones are handles of the same connection; it ends when the last is dropped, when [`close`](Self::close) is called
/// or when the daemon goes away. Dropping the future of a call is always safe: the daemon may still carry it out, its
/// answer is thrown away.
#[derive(Clone, Debug)]
pub struct Connection {
    handle: Arc<Handle>,
    deadline: Option<Duration>,
}

/// What ends the connection when the last of it is dropped.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

/// What the handles and the driver share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    closed: watch::Sender<Option<Reason>>,
    pub(crate) options: Settings,
    carries_files: bool,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection, unless it has ended.
    fn end(&self, reason: &Reason) {
        let mut state = self.lock();
        state.close(reason);
        state.wake_driver();
        drop(state);
        self.closed.send_if_modified(|closed| {
            let first = closed.is_none();
            closed.get_or_insert_with(|| reason.clone());
            first
        });
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.end(&Reason::Closed);
    }
}

impl Connection {
    /// Opens `uri` with the default [`Options`](crate::Options).
    ///
    /// # Errors
    /// When the URI cannot be honoured, the daemon not be reached, or it does not let us in.
    pub async fn open(uri: &str) -> Result<Self, Error> {
        Self::open_with(uri, Settings::default()).await
    }

    /// Opens `uri`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with(uri: &str, options: Settings) -> Result<Self, Error> {
        let uri: Uri = uri.parse()?;
        let limit = options.connect_timeout;
        let opening = Box::pin(open::dial(&uri, options));
        match tokio::time::timeout(limit, opening).await {
            Ok(done) => done,
            Err(_) => Err(Error::deadline("connect", limit, false)),
        }
    }

    /// Opens `name` (`qemu:///system`) on a daemon that is reached over a transport of your own.
    ///
    /// # Errors
    /// When the daemon does not let us in.
    pub async fn open_on(transport: impl Transport, name: &str, options: Settings) -> Result<Self, Error> {
        let limit = options.connect_timeout;
        let uri: Uri = "remote:".parse()?;
        let connection = Self::start(transport, options);
        match tokio::time::timeout(limit, Box::pin(open::greet(&connection, &uri, name))).await {
            Ok(done) => done.map(|()| connection),
            Err(_) => Err(Error::deadline("connect", limit, false)),
        }
    }

    /// Starts the driver without a word to the daemon.
    pub(crate) fn start(transport: impl Transport, options: Settings) -> Self {
        let deadline = options.deadline;
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(options.window, options.stream_buffer, options.event_queue)),
            closed: watch::Sender::new(None),
            carries_files: transport.carries_files(),
            options,
        });
        tokio::spawn(driver::boxed(transport, Arc::clone(&shared)));
        Self {
            handle: Arc::new(Handle { shared }),
            deadline,
        }
    }

    /// How long a call made through this handle may take.
    pub(crate) const fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The same connection with another deadline for the calls made through this handle.
    #[must_use]
    pub fn with_deadline(&self, deadline: impl Into<Option<Duration>>) -> Self {
        Self {
            handle: Arc::clone(&self.handle),
            deadline: deadline.into(),
        }
    }

    /// Makes any call of the protocol; the methods named after calls are easier to use.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn call<P: Procedure>(&self, args: &P::Args) -> Result<P::Ret, Error> {
        let reply = self.exchange(&P::INFO, args, Vec::new()).await?;
        P::Ret::decode(&mut Decoder::new(&reply.payload)).map_err(|error| Error::protocol(P::INFO.name, error))
    }

    /// Makes a call that passes file descriptors, gets some back, or both. Only a UNIX socket carries them.
    ///
    /// # Errors
    /// As [`call`](Self::call); also when the transport carries no descriptors.
    pub async fn call_with_files<P: Procedure>(
        &self,
        args: &P::Args,
        files: Vec<OwnedFd>,
    ) -> Result<(P::Ret, Vec<OwnedFd>), Error> {
        if !self.shared().carries_files {
            return Err(Error::stream(
                format!("{}: only a UNIX socket carries file descriptors", P::INFO.name),
                None,
            ));
        }
        let reply = self.exchange(&P::INFO, args, files).await?;
        let ret = P::Ret::decode(&mut Decoder::new(&reply.payload));
        Ok((ret.map_err(|error| Error::protocol(P::INFO.name, error))?, reply.files))
    }

    /// Waits for the end of the connection and says why it ended.
    pub fn closed(&self) -> impl Future<Output = Reason> + Send + 'static {
        let mut closed = self.shared().closed.subscribe();
        async move {
            match closed.wait_for(Option::is_some).await {
                Ok(reason) => reason.clone().unwrap_or(Reason::Closed),
                Err(_) => Reason::Closed,
            }
        }
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared().closed.borrow().is_some()
    }

    /// Says good-bye and ends the connection for all its handles.
    pub async fn close(self) {
        let polite = self.with_deadline(Duration::from_secs(2));
        // The daemon cleans up after a connection that just ends; this is courtesy.
        drop(polite.call::<crate::wire::remote::connect::ConnectClose>(&()).await);
        self.shared().end(&Reason::Closed);
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }
}
