//! How many tests ran, by what the runners say.

use std::fmt;

/// The sum over all runners.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    failed: u64,
    skipped: u64,
}

impl Counts {
    /// Adds what a line of `cargo test` says: `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    pub(crate) fn read(&mut self, line: &str) {
        let Some((_, figures)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for figure in figures.split("; ") {
            let Some((Ok(count), what)) = figure.split_once(' ').map(|(count, what)| (count.parse::<u64>(), what))
            else {
                continue;
            };
            match what {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.skipped += count,
                _ => {}
            }
        }
    }

    /// Adds what the root of a JUnit report of nextest says.
    pub(crate) fn read_junit(&mut self, text: &str) {
        let root = text
            .split_once("<testsuites ")
            .and_then(|(_, rest)| rest.split_once('>'))
            .map_or("", |(root, _)| root);
        let of = |name: &str| -> u64 {
            root.split_once(&format!("{name}=\""))
                .and_then(|(_, rest)| rest.split_once('"'))
                .and_then(|(value, _)| value.parse().ok())
                .unwrap_or_default()
        };
        let failed = of("failures") + of("errors");
        self.failed += failed;
        self.passed += of("tests").saturating_sub(failed);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed")?;
        if *skipped > 0 {
            write!(f, ", {skipped} skipped")?;
        }
        Ok(())
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
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.0s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s",
        ] {
            counts.read(line);
        }
        assert_eq!(counts.to_string(), "4 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn the_root_of_a_junit_report_is_read() {
        let mut counts = Counts::default();
        counts.read_junit(
            r#"<?xml version="1.0"?><testsuites name="nextest-run" tests="12" failures="1" errors="1" uuid="x" time="0.1">
            <testsuite name="a" tests="7" failures="0"></testsuite></testsuites>"#,
        );
        assert_eq!(counts.to_string(), "10 passed, 2 failed");
        counts.read_junit("damaged");
        assert_eq!(counts.to_string(), "10 passed, 2 failed");
    }
}
