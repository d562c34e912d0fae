//! The harness against its own reference and against mutants of it, in real processes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "this is a test from its first line to its last"
)]

mod catches;
mod command_line;
mod replay;
mod reports;
mod verdicts;

use std::path::Path;

use conformance::{Options, Report, reference::Place};

/// The harness's own binary, which serves the reference too.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_bigfleet-conformance"))
}

/// Against the reference or a mutant of it.
fn options(mutant: Option<&str>, place: Place, filter: &str) -> Options {
    let mut options = conformance::mutants::options(program(), mutant, place).unwrap();
    options.filter = Some(filter.into());
    options
}

async fn run(options: Options) -> Report {
    conformance::run(options, |_| {}).await.unwrap()
}
