//! The keys of a configuration, for those who describe it to people.

use serde_json::Value as Json;

use super::schema::Node;

/// One key, as its schema has it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Key {
    /// From the root, such as `listen.addr`. Below a list it goes on with `[]`, below a table of free names with
    /// `<name>`.
    pub path: String,
    /// What it holds.
    pub holds: Holds,
    /// What it does.
    pub description: String,
    /// What it is when nobody says anything; `null` where that is nothing.
    pub default: Json,
    /// The words it may be, each with what it means. Empty if it may be others, too.
    pub choices: Vec<(String, String)>,
}

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Keys of its own, which follow it.
    Table,
    /// A list of tables, whose keys follow.
    Tables,
    /// Tables by name, whose keys follow.
    Named,
    /// A value, in words such as "a whole number".
    Value(String),
}

impl Key {
    /// The environment variable that sets it, for those that begin with this prefix; none for what has no fixed name.
    #[must_use]
    pub fn variable(&self, prefix: &str) -> Option<String> {
        let fixed = !self.path.contains(['[', '<']) && self.holds != Holds::Table;
        fixed.then(|| format!("{prefix}__{}", self.path.to_uppercase().replace('.', "__")))
    }
}

/// Every key below a place, each table before its keys.
pub(super) fn keys(schema: &Json) -> Vec<Key> {
    let mut found = Vec::new();
    collect(Node::root(schema), schema, "", &mut found);
    found
}

fn collect(root: Node<'_>, schema: &Json, at: &str, found: &mut Vec<Key>) {
    let Some(properties) = schema.get("properties").and_then(Json::as_object) else {
        return;
    };
    // What is no table first, as TOML wants it.
    let rank = |property: &Json| match below(property, "") {
        None => 0,
        Some((Holds::Table, ..)) => 2,
        Some(_) => 1,
    };
    let mut properties: Vec<_> = properties.iter().collect();
    properties.sort_by_key(|(_, property)| rank(property));
    for (name, property) in properties {
        let path = if at.is_empty() {
            name.clone()
        } else {
            format!("{at}.{name}")
        };
        let node = root.of(property);
        let below = below(property, &path);
        found.push(Key {
            holds: match &below {
                Some((holds, ..)) => holds.clone(),
                None => Holds::Value(node.kind()),
            },
            description: text(property, "description"),
            default: property.get("default").cloned().unwrap_or_default(),
            choices: choices(node),
            path,
        });
        if let Some((_, schema, path)) = below {
            collect(root, schema, &path, found);
        }
    }
}

/// The keys under a key, and where they are.
fn below<'a>(property: &'a Json, path: &str) -> Option<(Holds, &'a Json, String)> {
    let has_keys = |schema: &&Json| schema.get("properties").is_some();
    if has_keys(&property) {
        return Some((Holds::Table, property, path.to_owned()));
    }
    if let Some(items) = property.get("items").filter(has_keys) {
        return Some((Holds::Tables, items, format!("{path}[]")));
    }
    let named = property.get("additionalProperties").filter(has_keys)?;
    Some((Holds::Named, named, format!("{path}.<name>")))
}

fn choices(node: Node<'_>) -> Vec<(String, String)> {
    let alternatives = node.alternatives().into_iter();
    let choices = alternatives.flat_map(|node| {
        let description = text(node.json(), "description");
        let words = node.choices().into_iter().map(str::to_owned);
        words.map(move |word| (word, description.clone())).collect::<Vec<_>>()
    });
    choices.collect()
}

fn text(schema: &Json, keyword: &str) -> String {
    let text = schema.get(keyword).and_then(Json::as_str);
    text.unwrap_or_default().to_owned()
}
