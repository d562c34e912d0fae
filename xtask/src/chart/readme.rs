//! The table of values, out of the comments in `values.yaml`: `# -- text`, as helm-docs reads them.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use serde_json::Value;

const BEGIN: &str = "<!-- values: cargo xtask chart -->\n";
const END: &str = "<!-- end of values -->\n";

/// One value that a comment describes.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    path: Vec<String>,
    text: String,
    default: Option<String>,
}

/// The README with a fresh table.
///
/// # Errors
/// When it has no place for the table, or `values.yaml` cannot be read.
pub(super) fn with_table(readme: &str, values: &str) -> Result<String> {
    let around = readme
        .split_once(BEGIN)
        .and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let Some((before, after)) = around else {
        bail!("README.md has no lines `{}` and `{}`", BEGIN.trim(), END.trim());
    };
    Ok(format!("{before}{BEGIN}{}{END}{after}", table(values)?))
}

fn table(values: &str) -> Result<String> {
    let parsed: Value = serde_saphyr::from_str(values).context("values.yaml")?;
    let mut table = String::from("| value | default | |\n|---|---|---|\n");
    for row in rows(values) {
        let path = row.path.join(".");
        let default = match row.default {
            Some(text) => text,
            None => {
                let value = row.path.iter().try_fold(&parsed, |at, key| at.get(key));
                let value = value.with_context(|| format!("values.yaml has no `{path}`"))?;
                if value.is_object() && !value.as_object().is_some_and(serde_json::Map::is_empty) {
                    "".to_owned()
                } else {
                    format!("`{value}`")
                }
            }
        };
        writeln!(table, "| `{path}` | {default} | {} |", row.text)?;
    }
    Ok(table)
}

/// The described values, in the order of the file.
fn rows(values: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    // Keys around the line, with their columns.
    let mut around: Vec<(usize, String)> = Vec::new();
    let mut text: Option<String> = None;
    let mut default = None;
    for line in values.lines() {
        let column = line.len() - line.trim_start().len();
        let line = line.trim_start();
        if let Some(begin) = line.strip_prefix("# -- ") {
            (text, default) = (Some(begin.to_owned()), None);
        } else if let Some(what) = line.strip_prefix("# @default -- ") {
            default = Some(what.to_owned());
        } else if let Some(more) = line.strip_prefix("# ") {
            if let Some(text) = &mut text {
                text.push(' ');
                text.push_str(more);
            }
        } else if let Some(key) = key(line) {
            around.retain(|(other, _)| *other < column);
            around.push((column, key.to_owned()));
            if let Some(text) = text.take() {
                let path = around.iter().map(|(_, key)| key.clone()).collect();
                let default = default.take();
                rows.push(Row { path, text, default });
            }
        } else {
            text = None;
        }
    }
    rows
}

/// The key a line begins with.
fn key(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    let plain = key.chars().all(|c| c.is_ascii_alphanumeric());
    (plain && !key.is_empty() && (rest.is_empty() || rest.starts_with(' '))).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: &str = "\
# A note that describes nothing.

# -- What it does,
# in two lines.
mode: real
tls:
  # -- Whether it is on.
  enabled: false
  # -- Names.
  # @default -- none
  names: [a]
  inner:
    # -- Deep.
    deep: {}
";

    #[test]
    fn every_comment_makes_a_row_with_its_path_and_default() {
        assert_eq!(
            table(VALUES).unwrap(),
            "| value | default | |\n|---|---|---|\n\
             | `mode` | `\"real\"` | What it does, in two lines. |\n\
             | `tls.enabled` | `false` | Whether it is on. |\n\
             | `tls.names` | none | Names. |\n\
             | `tls.inner.deep` | `{}` | Deep. |\n"
        );
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let readme = format!("a\n{BEGIN}old\n{END}b\n");
        let fresh = with_table(&readme, VALUES).unwrap();
        assert!(fresh.starts_with(&format!("a\n{BEGIN}| value")), "{fresh}");
        assert!(fresh.ends_with(&format!("|\n{END}b\n")), "{fresh}");
        assert!(with_table("a\n", VALUES).is_err());
    }
}
