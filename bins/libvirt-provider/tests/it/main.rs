//! The real binary, as a child process, spoken to over gRPC as BigFleet would.
//!
//! A test whose name begins with a number keeps the behaviour of that number in the contract (§13); the others keep
//! what no public suite asks. Every test starts its own provider, so that none depends on what another left behind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a test from its first line to its last"
)]

mod harness;
// Hosts as the backend's own tests have them.
#[path = "../../../../crates/libvirt-backend/tests/it/lab.rs"]
mod lab;
// Debian packages as those of cloud-init have them.
#[path = "../../../../crates/cloud-init/tests/it/unpacked.rs"]
mod unpacked;

mod arguments;
mod baseline_fencing;
mod baseline_lifecycle;
mod commands_config;
mod commands_hosts;
mod commands_lab;
mod commands_remote;
mod concurrency;
mod crash;
mod disk_full;
mod durability;
mod failure;
mod fake_hosts;
mod fencing;
mod fields;
mod host_setup;
mod ignition;
mod image;
mod lifecycle;
mod lists;
mod live;
mod metadata;
mod observe;
mod paging;
mod process;
mod property;
mod restart;
mod scale;
mod secrets;
mod sizes;
mod state_file;
mod tls;
mod transitions;
