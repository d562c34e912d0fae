//! What systemd is told of the process. Where there is no systemd, nothing happens.

use std::{slice, time::Duration};

use sd_notify::NotifyState;

/// We serve.
pub(super) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// We leave.
pub(super) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// We read our configuration. With `Type=notify-reload` systemd wants to know since when.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "the monotonic clock cannot be read"),
    }
}

/// We have read it, whatever came of it.
pub(super) fn reloaded() {
    ready();
}

/// Says again and again that we are alive, twice as often as systemd wants to hear it; `None` if it does not.
pub(super) fn feed_watchdog() -> Option<impl Future<Output = ()> + Send> {
    let limit = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero())?;
    Some(async move {
        let mut ticks = tokio::time::interval((limit / 2).max(Duration::from_millis(1)));
        loop {
            ticks.tick().await;
            notify(slice::from_ref(&NotifyState::Watchdog));
        }
    })
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd cannot be told {states:?}");
    }
}
