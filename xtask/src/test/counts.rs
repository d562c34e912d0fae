//! How many tests ran, by what the runners say; and which of them said that they could not.

use std::fmt;

use anyhow::{Context, Result};
use roxmltree::{Document, Node};

/// The sum over all runners.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    failed: u64,
    skipped: Vec<Skip>,
    /// Where in the output of `cargo test` we are: the test whose own output is being shown.
    showing: Option<String>,
    /// Whether that output is of tests that failed; they have, whatever else they say.
    failures: bool,
    /// Skips that the figures to come count as passed.
    pending: u64,
}

/// A test that did not do all it is there for.
#[derive(Debug, PartialEq, Eq)]
struct Skip {
    test: String,
    reason: String,
}

/// What a test says that cannot run: a line of its output, `SKIPPED what: why`, as told in CONTRIBUTING.md.
fn reason(line: &str) -> Option<&str> {
    let line = line.trim();
    let said = line.strip_prefix("*** ").unwrap_or(line).strip_prefix("SKIPPED")?;
    let said = said.strip_prefix(':').or_else(|| said.strip_prefix(' '))?.trim();
    (!said.is_empty()).then_some(said)
}

impl Counts {
    /// Adds what a line of `cargo test` says, `test result: ok. 3 passed; 0 failed; 1 ignored; …`; with
    /// `--show-output` also who was skipped.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(test) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" ----")) {
            let test = test.strip_suffix(" stdout").unwrap_or(test);
            self.showing = (!self.failures).then(|| test.to_owned());
        } else if line == "failures:" {
            self.failures = true;
            self.showing = None;
        } else if let Some((test, said)) = ignored(line) {
            self.skip(test, said);
        } else if let Some((_, figures)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        {
            self.figures(figures);
        } else if let (Some(test), Some(said)) = (self.showing.clone(), reason(line)) {
            self.pending += u64::from(self.skip(&test, said));
        }
    }

    fn figures(&mut self, figures: &str) {
        for figure in figures.split("; ") {
            let Some((Ok(count), what)) = figure.split_once(' ').map(|(count, what)| (count.parse::<u64>(), what))
            else {
                continue;
            };
            match what {
                "passed" => self.passed += count.saturating_sub(self.pending),
                "failed" => self.failed += count,
                _ => {}
            }
        }
        self.pending = 0;
        self.showing = None;
        self.failures = false;
    }

    /// Adds what a JUnit report of nextest says, which must hold the output also of tests that passed.
    ///
    /// # Errors
    /// When it is no such report.
    pub(crate) fn read_junit(&mut self, text: &str) -> Result<()> {
        let report = Document::parse(text).context("reading nextest's report")?;
        for case in report.descendants().filter(|node| node.has_tag_name("testcase")) {
            let has = |name: &str| case.children().any(|child| child.has_tag_name(name));
            if has("failure") || has("error") {
                self.failed += 1;
                continue;
            }
            let said = if has("skipped") { Some("ignored") } else { said(case) };
            match said {
                Some(said) => {
                    let part = |name: &str| case.attribute(name).unwrap_or_default();
                    self.skip(&format!("{} {}", part("classname"), part("name")), said);
                }
                None => self.passed += 1,
            }
        }
        Ok(())
    }

    /// Whether the test had not been noted before.
    fn skip(&mut self, test: &str, reason: &str) -> bool {
        let new = self.skipped.last().is_none_or(|last| last.test != test);
        if new {
            self.skipped.push(Skip {
                test: test.to_owned(),
                reason: reason.to_owned(),
            });
        }
        new
    }

    /// How many tests did not do all they are there for.
    pub(crate) fn skipped(&self) -> usize {
        self.skipped.len()
    }
}

fn said<'a>(case: Node<'a, '_>) -> Option<&'a str> {
    case.children()
        .filter(|child| child.has_tag_name("system-out") || child.has_tag_name("system-err"))
        .filter_map(|output| output.text())
        .flat_map(str::lines)
        .find_map(reason)
}

/// `test a::b ... ignored, why`
fn ignored(line: &str) -> Option<(&str, &str)> {
    let (test, verdict) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let why = verdict.strip_prefix("ignored")?;
    Some((test, why.strip_prefix(", ").unwrap_or("ignored")))
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Skip { test, reason } in &self.skipped {
            writeln!(f, "SKIPPED {test}: {reason}")?;
        }
        let Self { passed, failed, .. } = self;
        write!(f, "{passed} passed, {failed} failed, {} skipped", self.skipped())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_lines_of_cargo_test_are_added_up() {
        let mut counts = Counts::default();
        for line in [
            "running 4 tests",
            "test a::b ... ok",
            "test a::c ... ignored, too slow",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.0s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s",
        ] {
            counts.read(line);
        }
        assert_eq!(
            counts.to_string(),
            "SKIPPED a::c: too slow\n4 passed, 2 failed, 1 skipped"
        );
    }

    #[test]
    fn a_test_that_said_so_to_cargo_test_is_skipped_and_not_passed() {
        let mut counts = Counts::default();
        for line in [
            "successes:",
            "",
            "---- real::pool stdout ----",
            "SKIPPED pool: no qemu driver",
            "SKIPPED pool: said again",
            "---- real::fine stdout ----",
            "nothing SKIPPED here",
            "",
            "failures:",
            "SKIPPED no test: not within one's output",
            "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s",
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s",
        ] {
            counts.read(line);
        }
        assert_eq!(
            counts.to_string(),
            "SKIPPED real::pool: pool: no qemu driver\n4 passed, 1 failed, 1 skipped"
        );
    }

    #[test]
    fn what_failed_is_failed_whatever_it_said_before() {
        let mut counts = Counts::default();
        for line in [
            "failures:",
            "---- a stdout ----",
            "SKIPPED a: half of it",
            "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s",
        ] {
            counts.read(line);
        }
        assert_eq!(counts.to_string(), "0 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn every_case_of_a_junit_report_is_passed_failed_or_skipped() {
        let mut counts = Counts::default();
        let report = r#"<?xml version="1.0"?>
            <testsuites name="nextest-run" tests="6" failures="2" errors="0" uuid="x" time="0.1">
            <testsuite name="a" tests="6" failures="2">
            <testcase name="t1" classname="a::it"><system-out>test t1 ... ok</system-out></testcase>
            <testcase name="t2" classname="a::it"><system-err>noise
SKIPPED t2: nc is missing (install &quot;nc&quot;)
more noise</system-err></testcase>
            <testcase name="t3" classname="a::it"><system-out>*** SKIPPED: no right to mount</system-out></testcase>
            <testcase name="t4" classname="a::it"><failure type="x"/><system-err>SKIPPED t4: no</system-err></testcase>
            <testcase name="t5" classname="a::it"><error type="x"/></testcase>
            <testcase name="t6" classname="a::it"><system-err>SKIPPEDNESS
  is SKIPPED no sign
SKIPPED</system-err></testcase>
            </testsuite></testsuites>"#;
        counts.read_junit(report).unwrap();
        assert_eq!(
            counts.to_string(),
            "SKIPPED a::it t2: t2: nc is missing (install \"nc\")\n\
             SKIPPED a::it t3: no right to mount\n\
             2 passed, 2 failed, 2 skipped"
        );
        assert!(counts.read_junit("damaged").is_err());
    }
}
