//! The workflow that makes a release.

use serde_json::Value;

use crate::support::read;

const WORKFLOW: &str = ".github/workflows/release.yml";

fn jobs() -> Vec<(String, Value)> {
    let workflow: Value = serde_saphyr::from_str(&read(WORKFLOW)).unwrap();
    let jobs = workflow["jobs"].as_object().unwrap();
    assert_eq!(
        workflow["permissions"],
        serde_json::json!({}),
        "each job says what it needs"
    );
    jobs.iter().map(|(name, job)| (name.clone(), job.clone())).collect()
}

fn steps() -> Vec<Value> {
    jobs()
        .into_iter()
        .flat_map(|(_, job)| job["steps"].as_array().unwrap().clone())
        .collect()
}

#[test]
fn every_action_is_pinned_by_its_commit_and_says_which_version_that_is() {
    let text = read(WORKFLOW);
    let mut actions = 0;
    for line in text.lines() {
        let Some((_, uses)) = line.split_once("uses: ") else {
            continue;
        };
        let (action, version) = uses.split_once(" # v").unwrap_or_else(|| panic!("{line}: no version"));
        let commit = action.split_once('@').unwrap().1;
        assert!(
            commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{line}"
        );
        assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{line}");
        actions += 1;
    }
    assert!(actions >= 5, "{actions}");
}

#[test]
fn no_script_has_text_of_others_put_into_it() {
    for step in steps() {
        let script = step["run"].as_str().unwrap_or_default();
        assert!(!script.contains("${{"), "give it by `env`: {script}");
    }
}

#[test]
fn only_what_signs_may_ask_for_an_identity() {
    for (name, job) in jobs() {
        let signs = job["steps"]
            .as_array()
            .unwrap()
            .iter()
            .any(|step| step["run"].as_str().is_some_and(|run| run.contains("cosign sign")));
        assert_eq!(job["permissions"]["id-token"] == "write", signs, "{name}");
    }
}

#[test]
fn image_chart_and_binaries_are_all_signed() {
    let scripts: String = steps()
        .iter()
        .filter_map(|step| step["run"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(scripts.matches("cosign sign --yes").count(), 2);
    assert_eq!(scripts.matches("cosign sign-blob --yes").count(), 1);
    let build = steps().into_iter().find(|step| step["id"] == "build").unwrap();
    assert_eq!(
        (&build["with"]["sbom"], &build["with"]["provenance"]),
        (&Value::from(true), &Value::from("mode=max"))
    );
}

#[test]
fn the_line_that_gets_the_images_digest_is_there_once() {
    let values = read("charts/libvirt-provider/values.yaml");
    assert_eq!(values.lines().filter(|line| *line == "  digest: \"\"").count(), 1);
}
