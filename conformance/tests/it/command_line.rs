//! The command line, as people use it.

use std::process::{Command, Output};

use crate::program;

fn harness(arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn provider(mutant: &str) -> String {
    let program = program().display();
    if mutant.is_empty() {
        format!("'{program}' reference")
    } else {
        format!("'{program}' reference --mutant {mutant}")
    }
}

#[test]
fn a_behaviour_that_passes_alone_exits_with_0() {
    let output = harness(&["run", "--provider", &provider(""), "--filter", "B201"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("pass B201"), "{}", text(&output));
}

#[test]
fn a_behaviour_that_fails_says_what_why_and_how_to_repeat_it() {
    let output = harness(&[
        "--provider",
        &provider("create-anywhere"),
        "--filter",
        "B201",
        "--seed",
        "5",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let text = text(&output);
    for wanted in [
        "FAIL B201",
        "expected",
        "seen",
        "Create \"",
        "--seed 5 --filter B201",
        "create-anywhere",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

#[test]
fn the_line_that_is_printed_runs_it_alone() {
    let output = harness(&["-provider", &provider("create-anywhere"), "--filter", "B201"]);
    let text = text(&output);
    let line = text.lines().find_map(|line| line.trim().strip_prefix("alone")).unwrap();
    let words = shlex::split(line.trim()).unwrap();
    let again = Command::new(program()).args(&words[1..]).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stdout).contains("FAIL B201"));
}

#[test]
fn mistakes_exit_with_2() {
    for arguments in [
        &["run"][..],
        &["run", "--provider", "x", "--profile", "nonsense"],
        &["run", "--provider", "x", "--mapping", "/no/such/file"],
        &["run", "--provider", "x", "--without", "B302"],
        &["run", "--provider", "'", "--filter", "B201"],
        &["explain", "B102"],
    ] {
        let output = harness(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output));
    }
}

#[test]
fn behaviours_are_listed_and_explained() {
    let list = harness(&["list", "--profile", "fault"]);
    assert!(text(&list).contains("B704"), "{}", text(&list));
    let explained = harness(&["explain", "b302"]);
    for wanted in ["what", "why", "how", "(9,9)"] {
        assert!(text(&explained).contains(wanted), "{wanted}");
    }
    assert!(text(&harness(&["explain", "FullLifecycle"])).contains("TestConformance_FullLifecycle"));
}

#[test]
fn a_target_that_runs_is_checked_and_what_needs_a_start_says_so() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let address = format!("127.0.0.1:{port}");
    let mut reference = Command::new(program())
        .args(["reference", "--addr", &address])
        .spawn()
        .unwrap();
    wait_until("it listens", || std::net::TcpStream::connect(&address).is_ok());
    let output = harness(&[
        "run",
        "--target",
        &address,
        "--profile",
        "core,durable",
        "--filter",
        "B2*,B1001",
    ]);
    reference.kill().unwrap();
    reference.wait().unwrap();
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("pass B201") && text.contains("skip B1001"), "{text}");
    assert!(text.contains("--provider"), "{text}");
}

/// The provider is our child, and must not outlive us.
#[test]
fn a_harness_that_is_told_to_end_takes_its_providers_along() {
    let folder = tempfile::TempDir::new().unwrap();
    let marker = folder.path().join("state-of-nobody-else").display().to_string();
    let provider = format!("{} --state {marker}", provider(""));
    let mut harness = Command::new(program())
        .args(["run", "--provider", &provider, "--filter", "B108"])
        .spawn()
        .unwrap();
    let lives = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut lines = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
        lines.any(|line| line.contains("reference\0") && line.contains(&marker))
    };
    wait_until("the provider runs", lives);
    let pid = harness.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    harness.wait().unwrap();
    wait_until("the provider is gone", || !lives());
}

fn wait_until(what: &str, so: impl Fn() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !so() {
        assert!(std::time::Instant::now() < end, "not within 20 s: {what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
