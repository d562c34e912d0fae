//! `report.html`: one file, no other assets, light and dark.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{Report, Row, Status, Tally, Verdict, junit::escape};
use crate::{behaviour::Area, latency::Histogram};

const STYLE: &str = include_str!("style.css");

pub(super) fn render(report: &Report) -> String {
    let mut page = Page::default();
    let class = match report.verdict {
        Verdict::Certified => "passed",
        Verdict::Incomplete => "skipped",
        Verdict::Failed => "failed",
    };
    let provider = escape(&report.provider);
    page.add(format_args!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>{provider}: {}</title><style>{STYLE}</style></head><body><main>\n",
        report.verdict
    ));
    page.add(format_args!(
        "<header><p class=\"kicker\">BigFleet conformance</p><h1>{provider}</h1>\
         <p class=\"verdict {class}\">{}</p></header>\n",
        report.verdict
    ));
    page.facts(report);
    page.areas(&report.rows);
    page.missing(report);
    page.behaviours(&report.rows);
    page.latencies(&report.latencies);
    page.add(format_args!("</main></body></html>\n"));
    page.0
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn add(&mut self, text: std::fmt::Arguments<'_>) {
        // invariant: writing to a String cannot fail.
        self.0.write_fmt(text).unwrap_or_default();
    }

    fn facts(&mut self, report: &Report) {
        let profiles: Vec<_> = report.profiles.iter().map(|profile| profile.name()).collect();
        let environment = &report.environment;
        let facts = [
            ("Profiles", profiles.join(", ")),
            ("When", report.timestamp.clone()),
            ("Took", format!("{:.1} s", environment.wall_seconds)),
            ("Seed", report.seed.to_string()),
            ("Provider", environment.provider_source.clone()),
            (
                "Harness",
                format!(
                    "{} on {} {}, {} processors, {} side by side",
                    environment.harness_version, environment.os, environment.arch, environment.cpus, environment.jobs
                ),
            ),
            ("Limits", format!("x {}", environment.timeout_factor)),
        ];
        self.add(format_args!("<dl class=\"facts\">"));
        for (name, value) in facts {
            self.add(format_args!("<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value)));
        }
        self.add(format_args!("</dl>\n"));
    }

    fn areas(&mut self, rows: &[Row]) {
        let mut areas: BTreeMap<Area, Vec<&Row>> = BTreeMap::new();
        for row in rows {
            areas.entry(row.area).or_default().push(row);
        }
        self.add(format_args!(
            "<section><h2>Areas</h2><table class=\"areas\"><thead><tr><th>Area</th><th>Passed</th><th>Failed</th>\
             <th>Skipped</th><th>Not run</th><th class=\"bar\"></th></tr></thead><tbody>\n"
        ));
        for (area, rows) in areas {
            let tally = Tally::of(rows.iter().copied());
            self.add(format_args!(
                "<tr><td><b>{}</b> {}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"bar\">",
                area.code(),
                escape(area.name()),
                tally.passed,
                tally.failed,
                tally.skipped,
                tally.not_run
            ));
            for row in rows {
                self.add(format_args!(
                    "<a class=\"cell {}\" href=\"#{id}\" title=\"{id}: {}\"></a>",
                    row.status,
                    escape(&row.title),
                    id = escape(&row.id)
                ));
            }
            self.add(format_args!("</td></tr>\n"));
        }
        self.add(format_args!("</tbody></table></section>\n"));
    }

    fn missing(&mut self, report: &Report) {
        let unclaimed: Vec<_> = report.rows.iter().filter(|row| !row.required).collect();
        if unclaimed.is_empty() {
            return;
        }
        self.add(format_args!("<section><h2>Not claimed</h2><ul>\n"));
        for row in unclaimed {
            let reason = row.reason.as_deref().unwrap_or_default();
            self.add(format_args!("<li>{}: {}</li>\n", escape(&row.id), escape(reason)));
        }
        self.add(format_args!("</ul></section>\n"));
    }

    fn behaviours(&mut self, rows: &[Row]) {
        self.add(format_args!("<section><h2>Behaviours</h2>\n"));
        for row in rows {
            self.behaviour(row);
        }
        self.add(format_args!("</section>\n"));
    }

    fn behaviour(&mut self, row: &Row) {
        let open = if row.status == Status::Failed { " open" } else { "" };
        let word = match row.status {
            Status::NotImplemented => "not run".to_owned(),
            status => status.to_string(),
        };
        self.add(format_args!(
            "<details class=\"behaviour {status}\" id=\"{id}\"{open}><summary><span class=\"status\">{word}</span>\
             <code>{id}</code> <span>{title}</span><span class=\"time\">{:.0} ms</span></summary>\n<dl>\
             <div><dt>Why</dt><dd>{why}</dd></div><div><dt>How</dt><dd>{how}</dd></div>",
            row.took.as_secs_f64() * 1e3,
            status = row.status,
            id = escape(&row.id),
            title = escape(&row.title),
            why = escape(&row.why),
            how = escape(&row.how),
        ));
        if let Some(reason) = &row.reason {
            self.add(format_args!(
                "<div><dt>Not checked</dt><dd>{}</dd></div>",
                escape(reason)
            ));
        }
        if let Some(failure) = &row.failure {
            self.add(format_args!(
                "<div><dt>Expected</dt><dd>{}</dd></div><div><dt>Seen</dt><dd>{}</dd></div>\
                 <div><dt>Alone</dt><dd><code>{}</code></dd></div>",
                escape(&failure.expected),
                escape(&failure.seen),
                escape(&row.rerun)
            ));
        }
        self.add(format_args!("</dl>"));
        if row.status == Status::Failed {
            self.add(format_args!("<pre>"));
            if row.trace_dropped > 0 {
                self.add(format_args!("({} earlier lines)\n", row.trace_dropped));
            }
            for line in &row.trace {
                self.add(format_args!("{}\n", escape(&line.to_string())));
            }
            self.add(format_args!("</pre>"));
        }
        self.add(format_args!("</details>\n"));
    }

    fn latencies(&mut self, histograms: &[Histogram]) {
        if histograms.is_empty() {
            return;
        }
        self.add(format_args!(
            "<section><h2>Latencies</h2><p>Every call of the run, each bar twice as long as the one before it. Calls ran \
             side by side, and some of them carried megabytes: this shows where time went, not what a provider can \
             do.</p>\n<div class=\"plots\">\n"
        ));
        for histogram in histograms {
            self.plot(histogram);
        }
        self.add(format_args!("</div></section>\n"));
    }

    fn plot(&mut self, histogram: &Histogram) {
        const BAR: f64 = 14.0;
        const HEIGHT: f64 = 70.0;
        // All of them, so that one plot can be held against another.
        let shown = &histogram.buckets;
        let most = shown.iter().map(|(_, count)| number(*count)).fold(1.0, f64::max);
        let width = BAR * number(shown.len());
        self.add(format_args!(
            "<figure><figcaption><b>{}</b> {} calls<br>p50 {} · p90 {} · p99 {} · max {}</figcaption>\
             <svg viewBox=\"0 0 {width} {}\" role=\"img\" aria-label=\"{}\">",
            escape(&histogram.method),
            histogram.count,
            time(histogram.p50_ms),
            time(histogram.p90_ms),
            time(histogram.p99_ms),
            time(histogram.max_ms),
            HEIGHT + 12.0,
            escape(&histogram.method)
        ));
        for (place, (bound, count)) in shown.iter().enumerate() {
            let height = number(*count) / most * HEIGHT;
            let x = BAR * number(place);
            let label = bound.map_or_else(|| "above".to_owned(), |bound| format!("up to {}", time(bound)));
            self.add(format_args!(
                "<rect x=\"{x}\" y=\"{:.1}\" width=\"{}\" height=\"{height:.1}\"><title>{label}: {count}</title></rect>",
                HEIGHT - height,
                BAR - 2.0
            ));
            if place % 4 == 0
                && let Some(bound) = bound
            {
                self.add(format_args!(
                    "<text x=\"{x}\" y=\"{}\">{}</text>",
                    HEIGHT + 9.0,
                    time(*bound)
                ));
            }
        }
        self.add(format_args!("</svg></figure>\n"));
    }
}

fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

fn time(millis: f64) -> String {
    if millis < 1.0 {
        format!("{:.0} µs", millis * 1e3)
    } else if millis < 1e3 {
        format!("{millis:.0} ms")
    } else {
        format!("{:.1} s", millis / 1e3)
    }
}
