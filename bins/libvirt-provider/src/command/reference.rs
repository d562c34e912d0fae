//! `config reference`: `docs/configuration.md`, made from the schema; a test holds the file to it.

use providerkit_runtime::config::{Holds, Key};
use serde_json::Value as Json;

use super::config::inline;
use crate::cli::{ENVIRONMENT_PREFIX, FLAGS};

const HEAD: &str = include_str!("reference.md");

const COLUMNS: &str = "\n| key | type | default | what | variable | flag |\n|---|---|---|---|---|---|\n";

/// The whole document.
pub(super) fn render(keys: &[Key]) -> String {
    let mut text = HEAD.to_owned();
    text.push_str(COLUMNS);
    for key in keys {
        if key.holds == Holds::Table {
            text.push_str(&format!("\n## `{}`\n\n{}\n{COLUMNS}", key.path, key.description));
        } else {
            row(&mut text, key);
        }
    }
    text
}

fn row(text: &mut String, key: &Key) {
    let code = |word: &str| format!("`{}`", word.replace('|', "\\|"));
    let kind = match &key.holds {
        _ if !key.choices.is_empty() => {
            let words: Vec<_> = key.choices.iter().map(|(word, _)| code(word)).collect();
            words.join(", ")
        }
        Holds::Value(kind) => kind.replace('`', ""),
        Holds::Tables => "list of tables".into(),
        Holds::Named => "tables by name".into(),
        Holds::Table => String::new(),
    };
    let default = match &key.default {
        Json::Null => String::new(),
        Json::String(text) if text.is_empty() => String::new(),
        default => code(&inline(default)),
    };
    let mut what = key.description.clone();
    for (word, meaning) in &key.choices {
        what.push_str(&format!(" {}: {}", code(word), meaning));
    }
    let flags: Vec<_> = FLAGS
        .iter()
        .filter(|flag| flag.keys.contains(&key.path.as_str()))
        .map(|flag| code(&format!("--{}", flag.name)))
        .collect();
    let variable = key.variable(ENVIRONMENT_PREFIX).map(|name| code(&name));
    text.push_str(&format!(
        "| {} | {kind} | {default} | {} | {} | {} |\n",
        code(&key.path),
        what.replace('|', "\\|"),
        variable.unwrap_or_default(),
        flags.join(", "),
    ));
}
