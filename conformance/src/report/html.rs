//! `report.html`.

use super::Report;

pub(super) fn render(report: &Report) -> String {
    format!("{}", report.verdict)
}
