//! `version`: what this program is.

use std::io::{self, Write as _};

use serde_json::json;

use super::{Exit, Failure, print_json};
use crate::BUILD;

/// When it was built, and of what, where the build was told (`BUILD_DATE`).
const DATE: &str = env!("LIBVIRT_PROVIDER_DATE");
const TARGET: &str = env!("LIBVIRT_PROVIDER_TARGET");
const PROFILE: &str = env!("LIBVIRT_PROVIDER_PROFILE");

pub(super) fn run(json: bool) -> Result<Exit, Failure> {
    if json {
        return print_json(&json!({
            "version": BUILD.version,
            "revision": BUILD.revision,
            "dirty": BUILD.revision.ends_with("-dirty"),
            "date": DATE,
            "target": TARGET,
            "profile": PROFILE,
            "rustc": BUILD.rustc,
        }));
    }
    let mut out = io::stdout().lock();
    writeln!(out, "libvirt-provider {}", BUILD.version)?;
    writeln!(out, "revision  {}", BUILD.revision)?;
    writeln!(out, "date      {DATE}")?;
    writeln!(out, "target    {TARGET} ({PROFILE})")?;
    writeln!(out, "rustc     {}", BUILD.rustc)?;
    Ok(Exit::Success)
}
