//! `libvirt-provider`: a BigFleet capacity provider for libvirt/QEMU/KVM hosts.
//!
//! This file composes: the command line names a command, and how it ends is the process's exit code.

mod cli;
mod command;
mod config;
mod fake;
mod operate;
mod substrate;
mod table;

use std::process::exit;

use providerkit_runtime::telemetry::BuildInfo;

use crate::command::Exit;

const BUILD: BuildInfo = BuildInfo::new(
    env!("CARGO_PKG_VERSION"),
    env!("LIBVIRT_PROVIDER_REVISION"),
    env!("LIBVIRT_PROVIDER_RUSTC"),
);

const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (revision ",
    env!("LIBVIRT_PROVIDER_REVISION"),
    ", rustc ",
    env!("LIBVIRT_PROVIDER_RUSTC"),
    ")"
);

fn main() {
    let command = match cli::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(error) => {
            let code = if error.use_stderr() { Exit::Usage } else { Exit::Success };
            // Nobody is left to tell that nobody reads.
            drop(error.print());
            exit(code as i32);
        }
    };
    match command::run(command) {
        Ok(code) => exit(code as i32),
        // Who reads no more wants no more.
        Err(failure) if failure.is_closed_pipe() => {}
        Err(failure) => {
            complain(&failure.error);
            exit(failure.exit as i32);
        }
    }
}

/// For people, who may not have a log yet: the whole chain of causes.
#[allow(clippy::print_stderr, reason = "the last words of the process")]
fn complain(error: &anyhow::Error) {
    eprintln!("libvirt-provider: {error:#}");
}
