//! The programs a check needs.

use std::process::Command;

use anyhow::{Result, bail};

use crate::process;

/// A program, and how to come by it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tool {
    Cargo,
    Nextest,
    Rustfmt,
    Clippy,
}

impl Tool {
    pub(super) fn is_there(self) -> bool {
        match self {
            Self::Cargo => true,
            Self::Nextest => process::answers(&mut process::cargo(["nextest", "--version"])),
            Self::Rustfmt => process::answers(&mut process::cargo(["fmt", "--version"])),
            Self::Clippy => process::answers(&mut process::cargo(["clippy", "--version"])),
        }
    }

    /// Whether the tool can be used, after an attempt to install it.
    ///
    /// # Errors
    /// With `CI` set when it cannot: there, nothing may be skipped.
    pub(super) fn ensure(self) -> Result<bool> {
        if self.is_there() {
            return Ok(true);
        }
        if let Some(component) = self.component() {
            eprintln!("{component} is missing; asking rustup for it");
            let installed = process::answers(Command::new("rustup").args(["component", "add", component]));
            if installed && self.is_there() {
                return Ok(true);
            }
        }
        if super::everything_must_run() {
            bail!("{}", self.remedy());
        }
        Ok(false)
    }

    pub(super) fn remedy(self) -> String {
        match self.component() {
            Some(name) => format!("Run `rustup component add {name}` and try again."),
            None => format!("{self:?} is missing; install it and try again."),
        }
    }

    const fn component(self) -> Option<&'static str> {
        match self {
            Self::Cargo | Self::Nextest => None,
            Self::Rustfmt => Some("rustfmt"),
            Self::Clippy => Some("clippy"),
        }
    }
}
