//! Panics are logged and counted, wherever they happen.

use std::panic::{self, PanicHookInfo};

use super::names;

/// Logs and counts every panic of the process from now on, instead of printing it.
pub fn report() {
    panic::set_hook(Box::new(|info| {
        metrics::counter!(names::PANICS).increment(1);
        let place = info.location().map(ToString::to_string);
        tracing::error!(place, backtrace = %backtrace(), "panic: {}", message(info));
    }));
}

fn message<'a>(info: &'a PanicHookInfo<'_>) -> &'a str {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Taken only when `RUST_BACKTRACE` asks for it.
fn backtrace() -> std::backtrace::Backtrace {
    std::backtrace::Backtrace::capture()
}
