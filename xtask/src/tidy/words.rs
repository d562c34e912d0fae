//! Words that mean unfinished work.

use super::Finding;

/// In two halves each, so that this file does not contain them.
const WORDS: &[(&str, &str)] = &[
    ("to", "do!"),
    ("un", "implemented!"),
    ("d", "bg!("),
    ("#[", "ignore"),
    ("TO", "DO"),
    ("FIX", "ME"),
];

const KINDS: &[&str] = &[".rs", ".proto", ".toml", ".yaml", ".yml", ".sh", ".ci/run"];

/// Every line that says the work is not done.
pub(super) fn check(place: &str, text: &str) -> Vec<Finding> {
    if !KINDS.iter().any(|kind| place.ends_with(kind)) {
        return Vec::new();
    }
    let words: Vec<String> = WORDS.iter().map(|(head, tail)| format!("{head}{tail}")).collect();
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for word in words.iter().filter(|word| line.contains(word.as_str())) {
            let place = format!("{place}:{}", number + 1);
            findings.push(Finding::new(
                place,
                format!("`{word}` means unfinished work; finish it or file an issue"),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found_in_code_and_none_in_prose() {
        for (head, tail) in WORDS {
            let text = format!("fine\n  {head}{tail}\n");
            let findings = check("crates/x/src/a.rs", &text);
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert_eq!(findings[0].place, "crates/x/src/a.rs:2");
            assert_eq!(check("docs/a.md", &text), []);
        }
    }

    #[test]
    fn finished_work_is_fine() {
        assert_eq!(check("crates/x/src/a.rs", "let mastodon = ignore; // to do so\n"), []);
    }
}
