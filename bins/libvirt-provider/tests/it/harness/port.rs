//! Ports nobody listens on.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher as _, RandomState},
    net::TcpListener,
    sync::Mutex,
};

static HANDED_OUT: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Below the ports that the kernel gives to whoever asks for any, so that none of those turns up on ours between this
/// look and the provider's own bind.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port that was free a moment ago and that this process never hands out again. Another process may still take it:
/// whoever binds it must be ready to ask again.
pub(crate) fn fresh_port() -> u16 {
    loop {
        let random = RandomState::new().hash_one(std::process::id());
        let port = FIRST + u16::try_from(random % u64::from(COUNT)).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && HANDED_OUT.lock().unwrap().insert(port) {
            return port;
        }
    }
}
