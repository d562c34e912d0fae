//! `junit.xml` (contract §12.4).

use std::fmt::Write as _;

use super::{Report, Row, Status, Tally};

pub(super) fn render(report: &Report) -> String {
    let (baseline, extension): (Vec<&Row>, Vec<&Row>) = report.rows.iter().partition(|row| row.is_baseline());
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let tally = Tally::of(&report.rows);
    let name = escape(&format!("bigfleet-conformance:{}", report.provider));
    let counters = counters(&tally);
    let wall = report.environment.wall_seconds;
    push(
        &mut out,
        format_args!("<testsuites name=\"{name}\" {counters} time=\"{wall:.3}\">\n"),
    );
    for (name, rows) in [("upstream-baseline", baseline), ("extension", extension)] {
        if !rows.is_empty() {
            suite(&mut out, report, name, &rows);
        }
    }
    out.push_str("</testsuites>\n");
    out
}

fn suite(out: &mut String, report: &Report, name: &str, rows: &[&Row]) {
    let counters = counters(&Tally::of(rows.iter().copied()));
    let time: f64 = rows.iter().map(|row| row.took.as_secs_f64()).sum();
    let timestamp = escape(&report.timestamp);
    push(
        out,
        format_args!("  <testsuite name=\"{name}\" {counters} time=\"{time:.3}\" timestamp=\"{timestamp}\">\n"),
    );
    push(
        out,
        format_args!(
            "    <properties><property name=\"seed\" value=\"{}\"/><property name=\"verdict\" value=\"{}\"/></properties>\n",
            report.seed, report.verdict
        ),
    );
    for row in rows {
        let class = if row.is_baseline() {
            "test/conformance".to_owned()
        } else {
            format!("suite/{}", row.area.code())
        };
        let name = if row.is_baseline() {
            row.id.clone()
        } else {
            format!("{} {}", row.id, row.title)
        };
        let time = row.took.as_secs_f64();
        let (name, class) = (escape(&name), escape(&class));
        push(
            out,
            format_args!("    <testcase name=\"{name}\" classname=\"{class}\" time=\"{time:.3}\""),
        );
        match row.status {
            Status::Passed => out.push_str("/>\n"),
            Status::Skipped | Status::NotImplemented => {
                let reason = escape(row.reason.as_deref().unwrap_or_default());
                push(out, format_args!("><skipped message=\"{reason}\"/></testcase>\n"));
            }
            Status::Failed => failure(out, row),
        }
    }
    out.push_str("  </testsuite>\n");
}

fn failure(out: &mut String, row: &Row) {
    let text = row.failure.as_ref().map(ToString::to_string).unwrap_or_default();
    push(out, format_args!("><failure message=\"{}\">", escape(&text)));
    push(out, format_args!("{}\n\n", escape(&text)));
    for line in &row.trace {
        push(out, format_args!("{}\n", escape(&line.to_string())));
    }
    push(
        out,
        format_args!("\nalone: {}</failure></testcase>\n", escape(&row.rerun)),
    );
}

fn counters(tally: &Tally) -> String {
    format!(
        "tests=\"{}\" failures=\"{}\" skipped=\"{}\"",
        tally.tests,
        tally.failed,
        tally.skipped + tally.not_run
    )
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // invariant: writing to a String cannot fail.
    out.write_fmt(text).unwrap_or_default();
}

/// Text and attributes; what XML 1.0 has no way to write becomes U+FFFD.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for symbol in text.chars() {
        match symbol {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(symbol),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            symbol if symbol < ' ' => out.push('\u{fffd}'),
            symbol => out.push(symbol),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_its_attribute() {
        assert_eq!(escape("<\"&\0'>"), "&lt;&quot;&amp;\u{fffd}'&gt;");
    }
}
