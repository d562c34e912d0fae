//! Plain aligned tables, and words for times and sizes.

use std::{fmt::Write as _, time::Duration};

/// Between two columns.
const GAP: &str = "   ";

/// Rows under a header, as wide as their widest cells.
#[derive(Debug)]
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self {
            header: header.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; what is empty is shown as `-`, so that programs that split at spaces keep their columns.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cell = |text: String| match text.trim() {
            "" => "-".to_owned(),
            // One line a row, whatever an error says.
            text => text.replace(['\n', '\r', '\t'], " "),
        };
        self.rows.push(cells.into_iter().map(cell).collect());
    }

    pub(crate) fn render(&self, with_header: bool) -> String {
        let shown: Vec<_> = with_header
            .then_some(&self.header)
            .into_iter()
            .chain(&self.rows)
            .collect();
        let width = |column: usize| {
            let cells = shown.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.header.len()).map(width).collect();
        let mut text = String::new();
        for row in shown {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                // Writing to a string cannot fail.
                let _ = write!(line, "{cell:width$}{GAP}");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Such as `17s`, `5m3s`, `2h5m` or `3d`.
pub(crate) fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{}s", seconds % 60),
        (0, ..) => format!("{hours}h{minutes}m"),
        (1..=9, ..) => format!("{days}d{hours}h"),
        _ => format!("{days}d"),
    }
}

/// Such as `17.3 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let (unit, name) = match bytes.checked_ilog2() {
        Some(40..) => (1_099_511_627_776.0, "TiB"),
        Some(30..) => (1_073_741_824.0, "GiB"),
        Some(20..) => (1_048_576.0, "MiB"),
        _ => (1_024.0, "KiB"),
    };
    #[allow(clippy::cast_precision_loss, reason = "one digit of it is shown")]
    let number = bytes as f64 / unit;
    format!("{number:.1} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut table = Table::new(&["ID", "STATE", "ERROR"]);
        table.row(["über".into(), "IDLE".into(), String::new()]);
        table.row(["m-1".into(), "FAILED".into(), "first\nsecond".into()]);
        assert_eq!(
            table.render(true),
            "ID     STATE    ERROR\nüber   IDLE     -\nm-1    FAILED   first second\n"
        );
        assert_eq!(table.render(false).lines().count(), 2);
    }

    #[test]
    fn times_and_sizes_are_short() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (303, "5m3s"),
            (7500, "2h5m"),
            (93_600, "1d2h"),
            (9_000_000, "104d"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
        for (number, text) in [
            (512, "0.5 KiB"),
            (3 << 20, "3.0 MiB"),
            (17 << 30, "17.0 GiB"),
            (1 << 41, "2.0 TiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }
}
