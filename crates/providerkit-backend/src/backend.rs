//! The trait.

use async_trait::async_trait;

use crate::{
    CleanupRequest, ConfigureRequest, CreateRequest, Created, DeleteRequest, DrainRequest, Error, Known, Machine,
    ReadyRequest, Slot, Transition,
};

/// What a backend can do beyond the mandatory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Which machines can be given back.
    pub delete: DeleteSupport,
    /// Whether [`Backend::ready`] really tells that the node is Ready.
    pub readiness: bool,
}

impl Capabilities {
    /// Says which machines can be given back.
    #[must_use]
    pub const fn delete(mut self, support: DeleteSupport) -> Self {
        self.delete = support;
        self
    }

    /// Says that [`Backend::ready`] really tells that the node is Ready.
    #[must_use]
    pub const fn readiness(mut self, supported: bool) -> Self {
        self.readiness = supported;
        self
    }
}

/// Which machines can be given back. A Delete of any other is answered `UNIMPLEMENTED`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeleteSupport {
    /// None.
    #[default]
    Never,
    /// Those paid by use: on-demand and spot. Bare metal and reserved are kept.
    PaidByUse,
    /// All.
    Always,
}

/// A substrate that machines are made on.
///
/// **Every call may come again** with the same operation id, after a crash of the provider in the middle of the first
/// try: find what the earlier attempt made and go on. Nothing is called twice at the same time for one machine.
///
/// **Cancellation.** When the deadline passes, [`Operation::cancellation`](crate::Operation::cancellation) is
/// cancelled; the future is dropped a while later if it has not ended by itself. What it answers after the deadline is
/// discarded. Then [`cleanup`](Self::cleanup) is called.
///
/// **Errors** fail the machine for good: its `last_error` is [`Error::report`]. Retry inside, within
/// [`Operation::budget`](crate::Operation::budget), whatever may pass by itself.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// What this backend can do beyond the mandatory. Asked once, at start.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// All slots there are. Asked at start, at every reconcile and when [`changed`](Self::changed) says so; a part of the
    /// substrate that cannot be reached is left out, nothing is removed for that.
    ///
    /// `known` is what the engine knew just before it asked: the machine of every slot it has, in no particular order;
    /// nothing at the first start on a fresh state. Machines go on changing while the backend looks.
    ///
    /// # Errors
    /// When nothing can be said at all; the engine goes on with what it knows.
    async fn describe(&self, known: &[Known]) -> Result<Vec<Slot>, Error>;

    /// Resolves when [`describe`](Self::describe) would say something new that should not wait for the next look: a
    /// host is gone, room has come (a slot stays withheld until a look offers it) or has gone. The engine then looks at
    /// once, though not more often than every 100 ms; with an interval of 0 between looks, nothing else makes it look at
    /// a state that it knows. The default never resolves.
    ///
    /// **Cancel safety.** The future is dropped and made anew at every look, however that came about. A change that comes
    /// while none waits must make the next one resolve at once; one that has resolved has told its change.
    /// `tokio::sync::Notify` with `notify_one` and `notified` does just that.
    async fn changed(&self) {
        std::future::pending::<()>().await;
    }

    /// Whether the transition can be accepted now. Asked before the ack, for calls that pass every other check.
    /// Answers from memory: it must not block.
    ///
    /// # Errors
    /// The call is refused with `RESOURCE_EXHAUSTED` and the machine stays as it is.
    fn admit(&self, machine: &Machine, transition: Transition) -> Result<(), Error> {
        let _ = (machine, transition);
        Ok(())
    }

    /// Makes the machine real, and answers when it is usable.
    ///
    /// # Errors
    /// The machine becomes FAILED.
    async fn create(&self, request: CreateRequest) -> Result<Created, Error>;

    /// Boots the machine into its cluster.
    ///
    /// # Errors
    /// The machine becomes FAILED.
    async fn configure(&self, request: ConfigureRequest) -> Result<(), Error>;

    /// Answers once the machine's node is Ready in its cluster. Runs after [`configure`](Self::configure) within the
    /// same deadline; it is the only way to CONFIGURED.
    ///
    /// # Errors
    /// The machine becomes FAILED.
    async fn ready(&self, request: ReadyRequest) -> Result<(), Error> {
        drop(request);
        Ok(())
    }

    /// Takes the machine out of its cluster, and leaves nothing of that cluster on it.
    ///
    /// # Errors
    /// The machine becomes FAILED.
    async fn drain(&self, request: DrainRequest) -> Result<(), Error>;

    /// Gives the machine back. Already gone is success.
    ///
    /// # Errors
    /// The machine becomes FAILED.
    async fn delete(&self, request: DeleteRequest) -> Result<(), Error> {
        Err(Error::unsupported(format!(
            "machine `{}` cannot be deleted by this provider",
            request.machine.id
        )))
    }

    /// Removes whatever the machine and its failed operation left on the substrate, so that the slot can be used
    /// again. Called once the failed attempt has ended, and again with growing pauses until it succeeds. Nothing left
    /// is success.
    ///
    /// # Errors
    /// The slot stays FAILED and the call comes again.
    async fn cleanup(&self, request: CleanupRequest) -> Result<(), Error> {
        drop(request);
        Ok(())
    }
}
