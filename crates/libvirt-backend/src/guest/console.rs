//! The last a guest wrote to its serial console, for the error of a machine that does not come up.

use std::sync::{Arc, Mutex, PoisonError};

use libvirt_rpc::{
    stream::Chunk,
    wire::{constant::domain::DomainConsoleFlags, remote::record::DomainRef},
};
use tokio_util::task::AbortOnDropHandle;

use crate::host::Lanes;

/// Bytes kept.
const KEPT: usize = 2048;

/// Listens for as long as it lives. Somebody who opens the console before us has it; then there is nothing to tell.
#[derive(Debug)]
pub(crate) struct Console {
    tail: Arc<Mutex<Vec<u8>>>,
    _listener: AbortOnDropHandle<()>,
}

impl Console {
    pub(crate) fn listen(lanes: &Arc<Lanes>, domain: &DomainRef) -> Self {
        let tail = Arc::new(Mutex::new(Vec::new()));
        let (lanes, domain, kept) = (Arc::clone(lanes), domain.clone(), Arc::clone(&tail));
        let listener = tokio::spawn(async move {
            let opened = lanes
                .bulk
                .domain_open_console(&domain, None, DomainConsoleFlags::empty())
                .await;
            let mut stream = match opened {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::debug!(%error, "the console cannot be listened to");
                    return;
                }
            };
            while let Ok(Some(Chunk::Data(data))) = stream.next().await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&data);
                let surplus = kept.len().saturating_sub(KEPT);
                kept.drain(..surplus);
            }
        });
        Self {
            tail,
            _listener: AbortOnDropHandle::new(listener),
        }
    }

    /// What was written last, fit for one line of an error; empty if nothing was.
    pub(crate) fn tail(&self) -> String {
        let kept = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        printable(&kept)
    }
}

/// Text without the escape sequences and control characters that boot messages are full of.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => {
                if chars.next_if_eq(&'[').is_some() {
                    // A sequence ends with the first letter.
                    while chars.next().is_some_and(|c| !c.is_ascii_alphabetic()) {}
                }
            }
            '\n' => out.push_str(" | "),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_do_not_reach_an_error() {
        assert_eq!(
            printable(b"\x1b[2J\x1b[01;31mKernel panic\x1b[0m\r\n- not syncing\x07"),
            "Kernel panic | - not syncing"
        );
        assert_eq!(printable(b"\x1b[2"), "");
    }
}
