//! What a configuration came to, key by key, fit to be shown.

use serde_json::Value as Json;

use super::{Findings, Origin, check::join, schema::Node};

/// What stands for a value that must not be shown.
const REDACTED: &str = "<redacted>";

/// A key that has a value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Effective {
    /// From the root, such as `listen.addr`, quoted as in TOML.
    pub key: String,
    /// The same, name by name.
    pub path: Vec<String>,
    /// The value; secrets and passwords in URIs are left out. `null` is unset.
    pub value: Json,
    /// Where it came from.
    pub origin: Origin,
}

pub(super) fn effective(schema: &Json, config: Json, findings: &Findings) -> Vec<Effective> {
    let mut found = Vec::new();
    collect(Node::root(schema), "", &[], config, findings, &mut found);
    found
}

fn collect(node: Node<'_>, at: &str, above: &[String], value: Json, findings: &Findings, found: &mut Vec<Effective>) {
    let Json::Object(table) = value else { return };
    for (name, value) in table {
        let key = join(at, &name);
        let Some(child) = node.child(&name) else { continue };
        let path = [above, &[name]].concat();
        if value.as_object().is_some_and(|table| !table.is_empty()) {
            collect(child.node, &key, &path, value, findings, found);
            continue;
        }
        found.push(Effective {
            value: shown(child.node, value),
            origin: findings.origin(&key),
            key,
            path,
        });
    }
}

fn shown(node: Node<'_>, value: Json) -> Json {
    match value {
        Json::Null => Json::Null,
        _ if node.is_secret() => Json::from(REDACTED),
        Json::String(text) => Json::from(without_password(&text)),
        Json::Array(items) => {
            let items = items.into_iter().map(|item| match node.items() {
                Some(node) => shown(node, item),
                None => item,
            });
            Json::Array(items.collect())
        }
        Json::Object(table) => {
            let shown = table.into_iter().map(|(name, value)| {
                let value = match node.child(&name) {
                    Some(child) => shown(child.node, value),
                    None => value,
                };
                (name, value)
            });
            Json::Object(shown.collect())
        }
        other => other,
    }
}

/// Leaves out what stands between `user:` and `@host` in every URI of a text.
fn without_password(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let end = after.find(['/', '?', '#', ',']).unwrap_or(after.len());
        let (authority, next) = after.split_at(end);
        shown.push_str(before);
        shown.push_str("://");
        match authority.rsplit_once('@') {
            Some((user, host)) if user.contains(':') => {
                let user = user.split(':').next().unwrap_or_default();
                shown.push_str(&format!("{user}:{REDACTED}@{host}"));
            }
            _ => shown.push_str(authority),
        }
        rest = next;
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_uris_are_not_shown() {
        for (text, expected) in [
            ("qemu+ssh://u:hush@h/system?x=1", "qemu+ssh://u:<redacted>@h/system?x=1"),
            (
                "a=qemu://u:p@h/system,b=qemu://v@i:1/system",
                "a=qemu://u:<redacted>@h/system,b=qemu://v@i:1/system",
            ),
            ("qemu:///system?socket=/a@b:c", "qemu:///system?socket=/a@b:c"),
            (":9000", ":9000"),
        ] {
            assert_eq!(without_password(text), expected);
        }
    }
}
