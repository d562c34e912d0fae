//! Renderings as they were last agreed to. `BLESS=1 cargo nextest run -p xtask snapshots` agrees to the new ones.

use std::{env, fs};

use super::Chart;

#[test]
fn every_example_renders_as_was_agreed() {
    let Some(chart) = Chart::new() else { return };
    let folder = Chart::folder().join("ci/snapshots");
    let mut different = Vec::new();
    for name in Chart::examples() {
        let path = folder.join(format!("{name}.yaml"));
        let fresh = chart.example(&name, &["--kube-version", "1.31.0"]).text;
        if env::var_os("BLESS").is_some() {
            fs::write(&path, fresh).unwrap();
            continue;
        }
        let agreed = fs::read_to_string(&path).unwrap_or_default();
        if let Some(at) = first_difference(&agreed, &fresh) {
            different.push(format!("{}:{at}", path.display()));
        }
    }
    assert!(
        different.is_empty(),
        "renders otherwise from here on: {different:#?}; look at it, then set BLESS=1"
    );
}

/// The line at which two texts part.
fn first_difference(one: &str, other: &str) -> Option<usize> {
    if one == other {
        return None;
    }
    let same = one
        .lines()
        .zip(other.lines())
        .take_while(|(one, other)| one == other)
        .count();
    Some(same + 1)
}

#[test]
fn no_snapshot_is_left_of_an_example_that_is_gone() {
    let examples = Chart::examples();
    for entry in fs::read_dir(Chart::folder().join("ci/snapshots")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let example = name.strip_suffix(".yaml").unwrap_or(&name);
        assert!(examples.iter().any(|known| known == example), "{name}");
    }
}
