//! What every crate's manifest takes from the workspace's.

use super::Finding;

const INHERITED: &[&str] = &["version", "edition", "rust-version", "license"];

/// What a crate says for itself although the workspace says it for all.
pub(super) fn check(place: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for key in INHERITED {
        if !has(text, "package", &format!("{key}.workspace = true")) {
            let what = format!("[package] needs `{key}.workspace = true`");
            findings.push(Finding::new(place, what));
        }
    }
    if !has(text, "lints", "workspace = true") {
        findings.push(Finding::new(place, "needs `[lints]` with `workspace = true`"));
    }
    for (section, line) in lines(text) {
        if section.ends_with("dependencies") && !line.contains("workspace = true") {
            let what = format!("`{line}` names a version; put it into [workspace.dependencies]");
            findings.push(Finding::new(place, what));
        }
    }
    findings
}

fn has(text: &str, section: &str, wanted: &str) -> bool {
    lines(text).any(|(of, line)| of == section && line == wanted)
}

/// Every line that says something, with the section it stands in. A dependency's table takes one line here.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut section = "";
    text.lines().map(str::trim).filter_map(move |line| {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_matches(['[', ']']);
            return None;
        }
        let says_something = !line.is_empty() && !line.starts_with('#');
        says_something.then_some((section, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
        [package]\nname = \"x\"\nversion.workspace = true\nedition.workspace = true\n\
        rust-version.workspace = true\nlicense.workspace = true\n\n\
        [dependencies]\n# Why.\nserde.workspace = true\n\
        tokio = { workspace = true, features = [\"rt\"] }\n\n[lints]\nworkspace = true\n";

    #[test]
    fn a_manifest_that_inherits_is_fine() {
        assert_eq!(check("Cargo.toml", GOOD), []);
    }

    #[test]
    fn what_is_not_inherited_is_found() {
        for (from, to) in [
            ("version.workspace = true\ned", "version = \"1\"\ned"),
            ("edition.workspace = true", "edition = \"2021\""),
            ("license.workspace = true", ""),
            ("[lints]\nworkspace = true", ""),
            ("serde.workspace = true", "serde = \"1\""),
            ("[dependencies]\n", "[dev-dependencies]\nserde = { version = \"1\" }\n"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_eq!(check("Cargo.toml", &text).len(), 1, "{text}");
        }
    }
}
