//! What ends the process.

use std::io;

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// Requests to end, such as SIGTERM. The first is followed in order, the second at once.
#[derive(Debug)]
pub struct Signals(mpsc::Receiver<&'static str>);

impl Signals {
    /// SIGTERM and SIGINT of this process, from now on.
    ///
    /// # Errors
    /// When the operating system does not hand them out.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn of_process() -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (sender, signals) = Self::by_hand();
        tokio::spawn(async move {
            loop {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                };
                if sender.send(name).await.is_err() {
                    return;
                }
            }
        });
        Ok(signals)
    }

    /// Requests that the program makes itself, by name.
    #[must_use]
    pub fn by_hand() -> (mpsc::Sender<&'static str>, Self) {
        let (sender, receiver) = mpsc::channel(2);
        (sender, Self(receiver))
    }

    /// The name of the next. Never, if nobody can ask any more.
    pub(super) async fn next(&mut self) -> &'static str {
        match self.0.recv().await {
            Some(name) => name,
            None => std::future::pending().await,
        }
    }
}
