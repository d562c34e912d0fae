//! The alerts: promtool's own tests of them, names that exist, runbook entries that exist.

use std::{collections::BTreeSet, fs};

use super::{
    metrics::{PREFIX, documented},
    tool,
};

const ALERTS: &str = "charts/libvirt-provider/files/alerts.yaml";
const TESTS: &str = "charts/libvirt-provider/files/alerts_test.yaml";

fn read(path: &str) -> String {
    fs::read_to_string(tool::repository(path)).unwrap()
}

/// The metrics a text of PromQL or YAML speaks of, without what a histogram adds.
pub(super) fn mentioned(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with(PREFIX) || word.starts_with("process_"));
    let bare = |word: &str| {
        let parts = ["_bucket", "_sum", "_count"];
        let cut = parts.iter().find_map(|part| word.strip_suffix(part));
        cut.unwrap_or(word).to_owned()
    };
    ours.map(bare).collect()
}

#[test]
fn alerts_speak_of_metrics_that_exist() {
    let unknown: Vec<_> = mentioned(&read(ALERTS)).difference(&documented()).cloned().collect();
    assert!(unknown.is_empty(), "{unknown:?} are not in docs/observability.md");
    let tested = mentioned(&read(TESTS));
    let untested: Vec<_> = mentioned(&read(ALERTS)).difference(&tested).cloned().collect();
    assert!(untested.is_empty(), "no test has {untested:?}");
}

#[test]
fn every_alert_has_an_entry_in_the_runbook_and_every_entry_an_alert() {
    let alerts: BTreeSet<String> = read(ALERTS)
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: ").map(str::to_owned))
        .collect();
    let entries: BTreeSet<String> = read("docs/runbook.md")
        .lines()
        .filter_map(|line| line.strip_prefix("## ").map(str::to_owned))
        .collect();
    assert_eq!(alerts, entries);
    let urls: BTreeSet<String> = read(ALERTS)
        .lines()
        .filter_map(|line| line.trim().strip_prefix("runbook_url: ").map(str::to_owned))
        .collect();
    let wanted = alerts.iter().map(|alert| {
        let page = "https://github.com/bigfleet/libvirt-provider/blob/main/docs/runbook.md";
        format!("{page}#{}", alert.to_lowercase())
    });
    assert_eq!(urls, wanted.collect());
}

#[test]
fn every_alert_fires_when_it_should_and_only_then() {
    let files = tool::repository("charts/libvirt-provider/files");
    for arguments in [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]] {
        let Some((well, said)) = tool::promtool_in(&files, &arguments, "") else {
            return;
        };
        assert!(well, "{said}");
    }
}
