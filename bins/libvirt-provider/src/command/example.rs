//! `config example`: a file with every key, made from the schema, so that it is never behind.

use std::fmt::Write as _;

use providerkit_runtime::config::{Holds, Key};
use serde_json::Value as Json;

use super::config::inline;

/// Comments are broken after so many characters.
const WIDTH: usize = 100;

const HEAD: &str = "\
Every key of libvirt-provider with its default. Remove the # right before a key to change it. `libvirt-provider check
--config FILE` says whether a file is right, `libvirt-provider config print --sources` what holds and why.";

/// The file. Taken as it is, it changes nothing.
pub(super) fn render(keys: &[Key]) -> String {
    let mut text = String::new();
    comment(&mut text, HEAD);
    for key in keys {
        // Writing to a string cannot fail.
        let _ = one(&mut text, key);
    }
    text
}

fn one(text: &mut String, key: &Key) -> std::fmt::Result {
    let name = key.path.rsplit('.').next().unwrap_or_default();
    let within = key.path.contains("[]") || key.path.contains("<name>");
    match &key.holds {
        _ if within => {
            let value = match &key.default {
                Json::Null => "…".to_owned(),
                default => inline(default),
            };
            return writeln!(text, "# {name} = {value}  # {}", key.description);
        }
        Holds::Value(_) => text.push('\n'),
        _ => text.push_str("\n\n"),
    }
    comment(text, &key.description);
    for (word, meaning) in &key.choices {
        comment(text, &format!("- {word}: {meaning}"));
    }
    match (&key.holds, &key.default) {
        (Holds::Table, _) => writeln!(text, "[{}]", key.path),
        (Holds::Tables, _) => writeln!(text, "# [[{}]]", key.path),
        (Holds::Named, _) => writeln!(text, "# [{}.\"NAME\"]", key.path),
        (Holds::Value(kind), Json::Null) => writeln!(text, "# {name} = …  # {kind}; not set"),
        (_, default) => writeln!(text, "#{name} = {}", inline(default)),
    }
}

fn comment(text: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.len() + word.len() >= WIDTH {
            text.push_str(&line);
            text.push('\n');
            line.truncate(1);
        }
        line.push(' ');
        line.push_str(word);
    }
    if line.len() > 1 {
        text.push_str(&line);
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use providerkit_runtime::config::{Loader, keys};

    use super::*;
    use crate::config::Config;

    fn loaded(text: &str) -> Config {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("example.toml");
        std::fs::write(&path, text).unwrap();
        let loaded = Loader::<Config>::new().file(path).load();
        loaded.finish(|config, _| config).unwrap()
    }

    #[test]
    fn the_example_is_the_defaults_with_and_without_its_comments() {
        let text = render(&keys::<Config>());
        assert_eq!(loaded(&text), Config::default());
        let bare: Vec<_> = text
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) => rest,
                _ => line,
            })
            .collect();
        let settings = bare
            .iter()
            .filter(|line| !line.starts_with(['#', '[']) && !line.is_empty());
        assert!(settings.count() > 40, "{text}");
        assert_eq!(loaded(&bare.join("\n")), Config::default());
    }

    #[test]
    fn lists_of_tables_are_shown_as_they_are_written() {
        let text = render(&keys::<Config>());
        for line in [
            "# [[hosts]]\n",
            "# uri = \"\"  # ",
            "# [[capacity.offerings]]\n",
            "\n[guest]\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
