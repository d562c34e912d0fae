//! Ports nobody listens on.

use std::{collections::BTreeSet, net::TcpListener, sync::Mutex};

static HANDED_OUT: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port that was free a moment ago and that this process never hands out again. Another process may still take it:
/// whoever binds it must be ready to ask again.
pub(crate) fn fresh_port() -> u16 {
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        if HANDED_OUT.lock().unwrap().insert(port) {
            return port;
        }
    }
}
