//! `report.json`: the fields of contract §12.4, and on top what helps to understand a result.

use serde::Serialize;

use super::{Environment, Report, Row, Status, Tally, Verdict};
use crate::{behaviour::Profile, error::Error, latency::Histogram, trace::Line};

#[derive(Serialize)]
struct Document<'a> {
    provider: &'a str,
    profiles: &'a [Profile],
    timestamp: &'a str,
    baseline: Group<'a>,
    extension: Group<'a>,
    behaviors: Vec<Entry<'a>>,
    summary: Summary,
    verdict: Verdict,
    seed: u64,
    filtered: bool,
    environment: &'a Environment,
    latencies: &'a [Histogram],
}

#[derive(Serialize)]
struct Group<'a> {
    #[serde(flatten)]
    tally: Tally,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cases: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    area: &'a str,
    title: &'a str,
    profiles: &'a [Profile],
    phase: &'a str,
    required: bool,
    status: Status,
    tests: [&'a str; 1],
    seconds: f64,
    draws: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rerun: Option<&'a str>,
    #[serde(skip_serializing_if = "<[Line]>::is_empty")]
    trace: &'a [Line],
}

#[derive(Serialize)]
struct Summary {
    total_behaviors: usize,
    passed: usize,
    failed: usize,
    skipped: usize,
    not_implemented: usize,
    required_failed: usize,
    required_missing: usize,
}

pub(super) fn render(report: &Report) -> Result<String, Error> {
    let (baseline, behaviours): (Vec<&Row>, Vec<&Row>) = report.rows.iter().partition(|row| row.is_baseline());
    let tally = Tally::of(behaviours.iter().copied());
    let required = |status: &[Status]| {
        let mut count = 0;
        for row in &behaviours {
            count += usize::from(row.required && status.contains(&row.status));
        }
        count
    };
    let document = Document {
        provider: &report.provider,
        profiles: &report.profiles,
        timestamp: &report.timestamp,
        baseline: Group {
            tally: Tally::of(baseline.iter().copied()),
            cases: baseline.iter().copied().map(entry).collect(),
        },
        extension: Group {
            tally,
            cases: Vec::new(),
        },
        behaviors: behaviours.iter().copied().map(entry).collect(),
        summary: Summary {
            total_behaviors: tally.tests,
            passed: tally.passed,
            failed: tally.failed,
            skipped: tally.skipped,
            not_implemented: tally.not_run,
            required_failed: required(&[Status::Failed]),
            required_missing: required(&[Status::Skipped, Status::NotImplemented]),
        },
        verdict: report.verdict,
        seed: report.seed,
        filtered: report.filtered,
        environment: &report.environment,
        latencies: &report.latencies,
    };
    serde_json::to_string_pretty(&document).map_err(|source| Error::because("the report has no JSON", source))
}

fn entry(row: &Row) -> Entry<'_> {
    let failed = row.status == Status::Failed;
    Entry {
        id: &row.id,
        area: row.area.name(),
        title: &row.title,
        profiles: &row.profiles,
        phase: row.lane.name(),
        required: row.required,
        status: row.status,
        tests: [&row.id],
        seconds: row.took.as_secs_f64(),
        draws: format!("{:016x}", row.draws),
        reason: row.reason.as_deref(),
        expected: row.failure.as_ref().map(|failure| failure.expected.as_str()),
        seen: row.failure.as_ref().map(|failure| failure.seen.as_str()),
        rerun: failed.then_some(row.rerun.as_str()),
        trace: if failed { &row.trace } else { &[] },
    }
}
