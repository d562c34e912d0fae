//! What the tests must not forget.

use std::{fs, path::Path};

/// Typed calls that no daemon here can answer but with a refusal, which the tests make all the same.
///
/// There is none: what needs a guest's agent or a device to spare is answered by the test driver, or refused.
const UNTESTED: [(&str, &str); 0] = [];

/// Rows of the table of other people's bugs that are not tests of this crate, and why.
const ELSEWHERE: [(usize, &str); 1] = [(
    20,
    "the generator is xtask's, and so is the test that a newer libvirt only adds",
)];

fn sources(folder: &str, wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            for entry in fs::read_dir(&path).unwrap() {
                let path = entry.unwrap().path();
                out.push((name.clone(), fs::read_to_string(path).unwrap()));
            }
        } else if wanted(&name) {
            out.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    out
}

/// The names of the methods in a file of the typed API.
fn methods(source: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut in_calls = false;
    for line in source.lines() {
        in_calls = match line {
            "calls! {" | "lists! {" => true,
            "}" => false,
            _ => in_calls,
        };
        let declared = line.trim_start().strip_prefix("pub async fn ");
        let listed = || {
            line.strip_prefix("    ")
                .filter(|rest| in_calls && !rest.starts_with([' ', '/', '=']))
        };
        let Some(rest) = declared.or_else(listed) else { continue };
        let end = rest.find(['(', '<']).unwrap_or(0);
        let name = &rest[..end];
        if !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
        {
            out.push(name.to_owned());
        }
    }
    out
}

#[test]
fn every_typed_call_is_made_to_a_real_daemon() {
    let api = sources("src/api", |_| true);
    let calls: Vec<_> = api.iter().flat_map(|(_, source)| methods(source)).collect();
    assert!(calls.len() > 140, "only {} calls were found: {calls:?}", calls.len());
    let real = sources("tests/it", |name| name.starts_with("real") || name.starts_with("qemu"));
    let real: String = real.into_iter().map(|(_, source)| source).collect();
    let squeezed: String = real.chars().filter(|c| !c.is_whitespace()).collect();
    let is_made = |call: &str| squeezed.contains(&format!(".{call}("));
    let forgotten: Vec<_> = calls
        .iter()
        .filter(|call| !is_made(call) && !UNTESTED.iter().any(|(name, _)| name == call))
        .collect();
    assert!(forgotten.is_empty(), "no real daemon is asked {forgotten:?}");
    let tested: Vec<_> = UNTESTED.iter().filter(|(name, _)| is_made(name)).collect();
    assert!(tested.is_empty(), "these are tested by now: {tested:?}");
}

#[test]
fn every_row_of_other_peoples_bugs_is_a_test() {
    let tests: String = sources("tests/it", |_| true)
        .into_iter()
        .map(|(_, source)| source)
        .collect();
    for row in 1..=32 {
        let is_named = tests.contains(&format!("fn row_{row:02}_")) || tests.contains(&format!(" Row {row}:"));
        let is_elsewhere = ELSEWHERE.iter().any(|(number, _)| *number == row);
        assert!(
            is_named != is_elsewhere,
            "row {row}: a test {is_named}, elsewhere {is_elsewhere}"
        );
    }
}
