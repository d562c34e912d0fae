//! How findings look: a mark, a name and what was seen; below what failed, the way out.

use std::io::{self, IsTerminal as _, Write as _};

use libvirt_backend::doctor::{Check, Outcome};

use super::{Found, Section};
use crate::command::{Failure, print_json};

/// Where each check has a section.
const DOCUMENT: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/doctor.md");

#[derive(Debug)]
pub(super) struct Printer {
    is_text: bool,
    has_colours: bool,
    has_begun: bool,
}

impl Printer {
    pub(super) fn new(is_text: bool) -> Self {
        let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            is_text,
            has_colours: is_wanted && io::stdout().is_terminal(),
            has_begun: false,
        }
    }

    pub(super) fn title(&mut self, name: &str) -> Result<(), Failure> {
        if !self.is_text {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        if self.has_begun {
            writeln!(out)?;
        }
        self.has_begun = true;
        writeln!(out, "{}", self.painted("1", name))?;
        out.flush()?;
        Ok(())
    }

    pub(super) fn check(&self, check: &Check) -> Result<(), Failure> {
        if !self.is_text {
            return Ok(());
        }
        let (mark, colour) = match check.outcome {
            Outcome::Ok => ("✓", "32"),
            Outcome::Skipped => ("-", "2"),
            Outcome::Warn => ("!", "33"),
            Outcome::Fail => ("✗", "31"),
        };
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "  {} {:14} {}",
            self.painted(colour, mark),
            check.name,
            check.detail
        )?;
        if let Some(remedy) = &check.remedy {
            writeln!(out, "    {} {remedy}", self.painted("2", "→"))?;
        }
        if matches!(check.outcome, Outcome::Warn | Outcome::Fail) {
            let link = format!("{DOCUMENT}#{}", check.name.replace(' ', "-"));
            writeln!(out, "    {} {link}", self.painted("2", "→"))?;
        }
        out.flush()?;
        Ok(())
    }

    /// The last line, or the whole as JSON; answers the worst of what was found.
    pub(super) fn verdict(&self, sections: Vec<Section>) -> Result<Outcome, Failure> {
        let checks = || sections.iter().flat_map(|section| &section.checks);
        let count = |outcome| checks().filter(|check| check.outcome == outcome).count();
        let verdict = match (count(Outcome::Fail), count(Outcome::Warn)) {
            (0, 0) => Outcome::Ok,
            (0, _) => Outcome::Warn,
            _ => Outcome::Fail,
        };
        if !self.is_text {
            print_json(&Found { verdict, sections })?;
            return Ok(verdict);
        }
        let (all, failed, warned, skipped) = (
            checks().count(),
            count(Outcome::Fail),
            count(Outcome::Warn),
            count(Outcome::Skipped),
        );
        let words = match verdict {
            Outcome::Fail => format!("{failed} of {all} checks failed"),
            _ => format!("no check of {all} failed"),
        };
        let more = [(warned, "warned"), (skipped, "skipped")];
        let more = more.iter().filter(|(count, _)| *count > 0);
        let more: String = more.map(|(count, what)| format!(", {count} {what}")).collect();
        writeln!(io::stdout().lock(), "\n{words}{more}")?;
        Ok(verdict)
    }

    fn painted(&self, colour: &str, text: &str) -> String {
        if self.has_colours {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}
