//! What is written.

use std::fs;

use conformance::reference::Place;
use serde_json::Value;

use crate::{options, run};

#[tokio::test(flavor = "multi_thread")]
async fn the_reports_of_a_failure_say_what_happened() {
    let folder = tempfile::TempDir::new().unwrap();
    let report = run(options(
        Some("metadata-cut-at-nul"),
        Place::Wire,
        "B501,B502,B101,TestConformance_Metadata*",
    ))
    .await;
    report.write(folder.path()).unwrap();
    let read = |name| fs::read_to_string(folder.path().join(name)).unwrap();

    let json: Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(json["verdict"], "FAILED");
    for key in [
        "provider",
        "profiles",
        "timestamp",
        "baseline",
        "extension",
        "summary",
        "seed",
        "environment",
    ] {
        assert!(!json[key].is_null(), "{key}");
    }
    assert_eq!(
        (&json["baseline"]["tests"], &json["baseline"]["failed"]),
        (&25.into(), &1.into())
    );
    let summary = &json["summary"];
    assert_eq!(summary["passed"], 1);
    assert_eq!(
        (&summary["failed"], &summary["required_failed"]),
        (&2.into(), &2.into())
    );
    let behaviours = json["behaviors"].as_array().unwrap();
    assert_eq!(summary["total_behaviors"], behaviours.len());
    let b501 = behaviours.iter().find(|entry| entry["id"] == "B501").unwrap();
    assert_eq!((&b501["status"], &b501["required"]), (&"failed".into(), &true.into()));
    assert!(b501["rerun"].as_str().unwrap().contains("--filter B501"));
    assert!(b501["trace"].as_array().unwrap().len() > 2);
    assert!(!json["latencies"].as_array().unwrap().is_empty());

    let junit = read("junit.xml");
    for text in [
        "<testsuite name=\"upstream-baseline\" tests=\"25\" failures=\"1\"",
        "<testsuite name=\"extension\"",
        "classname=\"suite/MD\"",
        "<failure message=",
    ] {
        assert!(junit.contains(text), "{text}");
    }
    let badge: Value = serde_json::from_str(&read("badge.json")).unwrap();
    assert_eq!((&badge["schemaVersion"], &badge["color"]), (&1.into(), &"red".into()));
    assert!(badge["message"].as_str().unwrap().starts_with("FAILED (1/"), "{badge}");

    let page = read("report.html");
    for text in ["FAILED", "B501", "<svg", "prefers-color-scheme"] {
        assert!(page.contains(text), "{text}");
    }
    for outside in ["http://", "https://", "src=", "<link", "<script"] {
        assert!(!page.contains(outside), "{outside} in the page");
    }
}
