//! What ends the process, or makes it read its configuration again.

use std::io;

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// The request to read the configuration again; every other name is a request to end.
const RELOAD: &str = "SIGHUP";

/// Requests to end, such as SIGTERM: the first is followed in order, the second at once. And to reload: SIGHUP.
#[derive(Debug)]
pub struct Signals {
    names: mpsc::Receiver<&'static str>,
    /// A reload was asked for while nobody could do it.
    reload: bool,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// By the signal of this name.
    End(&'static str),
    Reload,
}

impl Signals {
    /// SIGTERM, SIGINT and SIGHUP of this process, from now on.
    ///
    /// # Errors
    /// When the operating system does not hand them out.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn of_process() -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let (sender, signals) = Self::by_hand();
        tokio::spawn(async move {
            loop {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                    _ = hangup.recv() => RELOAD,
                };
                if sender.send(name).await.is_err() {
                    return;
                }
            }
        });
        Ok(signals)
    }

    /// Requests that the program makes itself, by name: `SIGHUP` is one to reload, all others are to end.
    #[must_use]
    pub fn by_hand() -> (mpsc::Sender<&'static str>, Self) {
        let (sender, names) = mpsc::channel(2);
        (sender, Self { names, reload: false })
    }

    /// The next request. Never, if nobody can ask any more. Cancel-safe.
    pub(super) async fn request(&mut self) -> Request {
        if std::mem::take(&mut self.reload) {
            return Request::Reload;
        }
        match self.names.recv().await {
            Some(RELOAD) => Request::Reload,
            Some(name) => Request::End(name),
            None => std::future::pending().await,
        }
    }

    /// The name of the next request to end; one to reload is remembered. Cancel-safe.
    pub(super) async fn end(&mut self) -> &'static str {
        loop {
            match self.names.recv().await {
                Some(RELOAD) => self.reload = true,
                Some(name) => return name,
                None => std::future::pending().await,
            }
        }
    }
}
