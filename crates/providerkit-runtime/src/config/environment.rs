//! Which environment variables set which keys.

use std::ffi::OsString;

use super::{Finding, Origin, layer::TextValue, schema::Node};

const FILE: &str = "_FILE";

/// Reads the variables under a prefix, in the order of their names.
pub(super) fn read(
    root: Node<'_>,
    prefix: &str,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> (Vec<TextValue>, Vec<Finding>) {
    let prefix = format!("{prefix}__");
    let (mut values, mut findings) = (Vec::<TextValue>::new(), Vec::new());
    for (name, value) in sorted(&prefix, variables) {
        let origin = Origin::Environment(name.clone());
        let keys = name.strip_prefix(&prefix).unwrap_or_default();
        let place = Place::find(root, keys);
        let text = match value.into_string() {
            Ok(text) if place.from_file => match std::fs::read_to_string(&text) {
                Ok(content) => content.trim_end_matches(['\r', '\n']).to_owned(),
                Err(error) => {
                    let problem = format!("the file `{text}` cannot be read: {error}");
                    findings.push(Finding::new(origin, problem));
                    continue;
                }
            },
            Ok(text) => text,
            Err(_) => {
                findings.push(Finding::new(origin, "the value is not valid UTF-8"));
                continue;
            }
        };
        if let Some(earlier) = values.iter().find(|value| value.path == place.path) {
            let problem = format!("sets the same key as {}; keep one of them", earlier.origin);
            findings.push(Finding::new(origin, problem));
            continue;
        }
        values.push(TextValue {
            origin,
            path: place.path,
            text,
        });
    }
    (values, findings)
}

fn sorted(prefix: &str, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<(String, OsString)> {
    let mut named: Vec<_> = variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        // Kubernetes users set a variable to nothing to say that it is not set.
        .filter(|(name, value)| name.starts_with(prefix) && !value.is_empty())
        .collect();
    named.sort();
    named
}

/// What a variable's name says.
struct Place {
    path: Vec<String>,
    from_file: bool,
}

impl Place {
    fn find(root: Node<'_>, keys: &str) -> Self {
        if let Some(path) = known(root, keys) {
            return Self { path, from_file: false };
        }
        let named_by_file = keys.strip_suffix(FILE).and_then(|keys| known(root, keys));
        let from_file = named_by_file.is_some();
        // A key that is not known is looked up in lower case, so that the check reports it as it would be written.
        let path = named_by_file.unwrap_or_else(|| keys.split("__").map(str::to_lowercase).collect());
        Self { path, from_file }
    }
}

/// The path as the schema spells it; free keys keep their case.
fn known(root: Node<'_>, keys: &str) -> Option<Vec<String>> {
    let mut node = root;
    let mut path = Vec::new();
    for key in keys.split("__") {
        let child = node.child(key)?;
        path.push(if child.name.is_empty() { key } else { child.name }.to_owned());
        node = child.node;
    }
    Some(path)
}
