//! The table: a figure a line, its goal, and whether it is met.

use std::fmt;

use crate::rounds::Figure;

/// What a line is held to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// Ours at least.
    AtLeast(f64),
    /// Ours at most.
    AtMost(f64),
    /// Ours at least this part of the other.
    Ratio(f64),
}

struct Line {
    what: String,
    ours: Figure,
    other: Option<(Figure, f64)>,
    goal: Option<Goal>,
}

enum Row {
    Section { title: String, other: String },
    Line(Line),
    Note(String),
}

/// Sections of lines.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Table {
    pub(crate) fn section(&mut self, title: impl Into<String>, other: impl Into<String>) {
        let (title, other) = (title.into(), other.into());
        self.rows.push(Row::Section { title, other });
    }

    pub(crate) fn line(
        &mut self,
        what: impl Into<String>,
        ours: Figure,
        other: Option<(Figure, f64)>,
        goal: Option<Goal>,
    ) {
        self.rows.push(Row::Line(Line {
            what: what.into(),
            ours,
            other,
            goal,
        }));
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.rows.push(Row::Note(note.into()));
    }
}

impl Line {
    fn is_met(&self) -> Option<bool> {
        Some(match self.goal? {
            Goal::AtLeast(least) => self.ours.median >= least,
            Goal::AtMost(most) => self.ours.median <= most,
            Goal::Ratio(least) => self.other.is_some_and(|(_, ratio)| ratio >= least),
        })
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match self {
            Self::AtLeast(least) => format!(">= {}", number(*least)),
            Self::AtMost(most) => format!("<= {}", number(*most)),
            Self::Ratio(least) => format!("ratio >= {least:.2}"),
        })
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goal = self.goal.map_or_else(String::new, |goal| goal.to_string());
        let verdict = match self.is_met() {
            Some(true) => "ok",
            Some(false) => "MISSED",
            None => "",
        };
        let (other, ratio) = match self.other {
            Some((figure, ratio)) => (spread(figure), format!("{ratio:.2}")),
            None => Default::default(),
        };
        let ours = spread(self.ours);
        let what = &self.what;
        write!(
            f,
            "  {what:<36} {ours:>14} {other:>14}   {goal:<13} {verdict:<6} {ratio:>6}"
        )
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            let text = match row {
                Row::Section { title, other } => {
                    let rest = format!(
                        "{:<38} {:>14} {other:>14}   {:<13} {:<6} {:>6}",
                        "", "ours", "goal", "", "ratio"
                    );
                    format!("\n{title}\n{rest}")
                }
                Row::Line(line) => line.to_string(),
                Row::Note(note) => format!("  {note}"),
            };
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

fn spread(figure: Figure) -> String {
    format!("{} ±{:.0}%", number(figure.median), figure.spread * 100.0)
}

fn number(value: f64) -> String {
    if value.abs() < 1_000.0 {
        let decimals = if value.abs() < 100.0 { 1 } else { 0 };
        return format!("{value:.decimals$}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(median: f64, ratio: f64, goal: Goal) -> String {
        let figure = |median| Figure { median, spread: 0.03 };
        let mut table = Table::default();
        table.line("x", figure(median), Some((figure(1.0), ratio)), Some(goal));
        table.to_string()
    }

    #[test]
    fn a_line_says_whether_its_goal_is_met() {
        for (line, met) in [
            (line(8.0, 0.5, Goal::AtMost(8.0)), true),
            (line(8.1, 0.5, Goal::AtMost(8.0)), false),
            (line(150_000.0, 0.5, Goal::AtLeast(150_000.0)), true),
            (line(149_999.0, 0.5, Goal::AtLeast(150_000.0)), false),
            (line(1.0, 0.7, Goal::Ratio(0.7)), true),
            (line(1.0, 0.69, Goal::Ratio(0.7)), false),
        ] {
            assert_eq!(line.contains(" ok "), met, "{line}");
            assert_eq!(line.contains(" MISSED "), !met, "{line}");
        }
    }

    #[test]
    fn numbers_are_grouped() {
        for (value, text) in [
            (7.94, "7.9"),
            (812.3, "812"),
            (1234.0, "1,234"),
            (1_234_567.4, "1,234,567"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
