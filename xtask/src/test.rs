//! `cargo xtask test`: everything that must pass, with one command and one target folder.

mod counts;
mod packages;
mod tools;

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{process, workspace};
use tools::Tool;

pub(crate) use counts::Counts;

/// Runs every check to its end, whatever the others say, and closes with the number of tests.
///
/// # Errors
/// When one of them fails, or with `CI=true` when one cannot run.
pub(crate) fn run() -> Result<()> {
    packages::install();
    let mut checks = Checks::default();
    checks.step("format", Tool::Rustfmt, |_| {
        process::run(&mut process::cargo(["fmt", "--all", "--check"]))
    });
    if Tool::Nextest.is_there() {
        checks.step("tests", Tool::Nextest, nextest);
        checks.step("doc tests", Tool::Cargo, |counts| cargo_test(&["--doc"], counts));
    } else {
        eprintln!("cargo-nextest is not installed; going on with `cargo test`");
        checks.step("tests", Tool::Cargo, |counts| cargo_test(&["--no-fail-fast"], counts));
    }
    // Last, because it shares nothing with the builds above but time.
    checks.step("lints", Tool::Clippy, |_| {
        process::run(&mut process::cargo([
            "clippy",
            "--workspace",
            "--all-targets",
            "--keep-going",
            "--",
            "-Dwarnings",
        ]))
    });
    checks.close()
}

fn nextest(counts: &mut Counts) -> Result<()> {
    // Beside the workspace, whatever CARGO_TARGET_DIR says: nextest keeps its store there.
    let report = workspace::root().join("target/nextest/default/junit.xml");
    drop(fs::remove_file(&report));
    let outcome = process::run(&mut process::cargo(["nextest", "run", "--workspace"]));
    if let Ok(text) = fs::read_to_string(&report) {
        counts.read_junit(&text);
    }
    outcome
}

fn cargo_test(arguments: &[&str], counts: &mut Counts) -> Result<()> {
    let mut command = process::cargo(["test", "--workspace"]);
    command.args(arguments);
    if !process::watch(&mut command, |line| counts.read(line))? {
        bail!("tests failed");
    }
    Ok(())
}

#[derive(Default)]
struct Checks {
    counts: Counts,
    lines: Vec<String>,
    failed: Vec<&'static str>,
}

impl Checks {
    fn step(&mut self, name: &'static str, tool: Tool, check: impl FnOnce(&mut Counts) -> Result<()>) {
        eprintln!("\n=== {name}");
        let begun = Instant::now();
        let outcome = match tool.ensure() {
            Ok(true) => check(&mut self.counts),
            Ok(false) => return self.skip(name, tool),
            Err(missing) => Err(missing),
        };
        let verdict = match outcome {
            Ok(()) => "ok",
            Err(error) => {
                eprintln!("{name}: {error:#}");
                self.failed.push(name);
                "FAILED"
            }
        };
        self.line(name, begun.elapsed(), verdict);
    }

    fn skip(&mut self, name: &'static str, tool: Tool) {
        eprintln!("*** SKIPPED: {name}. {}", tool.remedy());
        self.line(name, Duration::ZERO, "SKIPPED");
    }

    fn line(&mut self, name: &str, took: Duration, verdict: &str) {
        self.lines
            .push(format!("{name:<10} {:>6.1} s  {verdict}", took.as_secs_f64()));
    }

    fn close(self) -> Result<()> {
        println!();
        for line in &self.lines {
            println!("{line}");
        }
        println!("\n{}", self.counts);
        if !self.failed.is_empty() {
            bail!("{} failed", self.failed.join(", "));
        }
        if self.counts.passed == 0 {
            bail!("no test ran");
        }
        Ok(())
    }
}
