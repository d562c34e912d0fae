//! The benchmark runs, so that it is not found broken on the day its figures are needed.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test says what it found by failing"
)]

use std::{
    env,
    process::{Command, Output},
};

fn run(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_rpc-bench");
    Command::new(program).args(arguments).output().unwrap()
}

#[test]
fn a_quick_run_measures_everything_there_is() {
    let output = run(&["--quick"]);
    let complaints = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(2) {
        assert!(env::var_os("CI").is_none(), "{complaints}");
        eprintln!("SKIPPED rpc-bench: {complaints}");
        return;
    }
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{complaints}\n{table}");
    for depth in [1, 4] {
        for call in ["GET_LIB_VERSION", "LOOKUP_BY_UUID", "LIST_ALL_DOMAINS", "GET_XML_DESC"] {
            let line = format!("{call}, depth {depth}: calls/s");
            assert!(table.contains(&line), "no `{line}` in\n{table}");
        }
    }
    for line in [
        "depth 64: calls/s",
        "upload: MiB/s",
        "download: MiB/s",
        "50 subscribers: delivered/s",
    ] {
        assert!(table.contains(line), "no `{line}` in\n{table}");
    }
    assert!(!table.contains("NaN") && !table.contains("inf"), "{table}");
    assert_eq!(table.matches(", 0 missed").count(), 2, "events were lost\n{table}");
}

#[test]
fn a_measurement_that_fails_is_a_failure() {
    let output = run(&["calls", "test+unix:///default?socket=/nonexistent", "lookup", "1", "10"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nonexistent"));
    assert!(output.stdout.is_empty());
}
