//! `badge.json`: an endpoint for shields (contract §12.4).

use serde::Serialize;

use super::{Report, Tally, Verdict};
use crate::error::Error;

#[derive(Serialize)]
struct Badge {
    #[serde(rename = "schemaVersion")]
    schema_version: u8,
    label: &'static str,
    message: String,
    color: &'static str,
}

pub(super) fn render(report: &Report) -> Result<String, Error> {
    let tally = Tally::of(report.rows.iter().filter(|row| !row.is_baseline()));
    let applicable = tally.passed + tally.failed + tally.skipped;
    let badge = Badge {
        schema_version: 1,
        label: "bigfleet conformance",
        message: format!("{} ({}/{applicable})", report.verdict, tally.passed),
        color: match report.verdict {
            Verdict::Certified => "brightgreen",
            Verdict::Failed => "red",
            Verdict::Incomplete => "yellow",
        },
    };
    serde_json::to_string_pretty(&badge).map_err(|source| Error::because("the badge has no JSON", source))
}
