//! What is shipped, checked by the tools of those who use it: the chart by Helm, the Dockerfile by hadolint, the unit by systemd.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests"
)]

mod chart;
mod docs;
mod image;
mod release;
mod support;
mod unit;
