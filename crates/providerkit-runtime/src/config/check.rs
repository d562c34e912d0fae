//! Compares the merged layers with the schema, value by value.

use std::collections::BTreeMap;

use figment::value::{Dict, Num, Tag, Value};
use serde_json::{Map, Value as Json};

use super::{
    Finding, Origin,
    layer::Layers,
    schema::{Node, suggestion},
};

/// What fits, what does not, and where everything came from.
pub(super) struct Checked {
    pub(super) config: Json,
    pub(super) findings: Vec<Finding>,
    pub(super) origins: BTreeMap<String, Origin>,
}

/// Leaves out and reports what does not fit.
pub(super) fn check(root: Node<'_>, layers: &Layers) -> Checked {
    let mut walk = Walk {
        layers,
        findings: Vec::new(),
        origins: BTreeMap::new(),
    };
    let config = walk.table(root, "", &Origin::Default, layers.merged());
    Checked {
        config: config.unwrap_or_else(|| Json::Object(Map::new())),
        findings: walk.findings,
        origins: walk.origins,
    }
}

struct Walk<'a> {
    layers: &'a Layers,
    findings: Vec<Finding>,
    origins: BTreeMap<String, Origin>,
}

impl Walk<'_> {
    /// Answers nothing for what does not fit or counts as unset.
    fn value(&mut self, node: Node<'_>, key: &str, value: Value) -> Option<Json> {
        let origin = self.layers.origin(value.tag());
        self.origins.insert(key.to_owned(), origin.clone());
        match value {
            Value::Empty(..) => None,
            Value::Dict(_, dict) if node.is("object") => self.table(node, key, &origin, dict),
            Value::Array(_, items) if node.is("array") => {
                let kept = items.into_iter().enumerate().filter_map(|(index, item)| {
                    let items = node.items()?;
                    self.value(items, &format!("{key}[{index}]"), item)
                });
                Some(Json::Array(kept.collect()))
            }
            other => self.scalar(node, key, origin, other),
        }
    }

    fn table(&mut self, node: Node<'_>, at: &str, origin: &Origin, dict: Dict) -> Option<Json> {
        let missing: Vec<_> = node
            .required()
            .into_iter()
            .filter(|required| matches!(dict.get(*required), None | Some(Value::Empty(..))))
            .collect();
        for required in &missing {
            let problem = format!("`{}` is missing", join(at, required));
            self.findings.push(Finding::new(origin.clone(), problem));
        }
        let mut kept = Map::new();
        for (key, value) in dict {
            let path = join(at, &key);
            match node.child(&key) {
                // A file spells keys exactly; only the environment is forgiven its capitals.
                Some(child) if child.name.is_empty() || child.name == key => {
                    if let Some(json) = self.value(child.node, &path, value) {
                        kept.insert(key, json);
                    }
                }
                _ => self.unknown(node, at, &key, value.tag()),
            }
        }
        missing.is_empty().then_some(Json::Object(kept))
    }

    fn scalar(&mut self, node: Node<'_>, key: &str, origin: Origin, value: Value) -> Option<Json> {
        let found = describe(&value);
        if let Some(json) = scalar_json(value)
            && node.accepts(&json)
        {
            return Some(json);
        }
        let found = if node.is_secret() { "something else" } else { &found };
        let problem = format!("`{key}` must be {}, but is {found}", node.expected());
        self.findings.push(Finding::new(origin, problem));
        None
    }

    fn unknown(&mut self, node: Node<'_>, at: &str, key: &str, tag: Tag) {
        let keys = node.keys();
        let hint = match suggestion(key, &keys) {
            Some(name) => format!("did you mean `{}`?", join(at, name)),
            None => format!("known here: {}", keys.join(", ")),
        };
        let problem = format!("`{}` is not a known key; {hint}", join(at, key));
        self.findings.push(Finding::new(self.layers.origin(tag), problem));
    }
}

pub(super) fn join(at: &str, key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let quoted = if key.is_empty() || !key.chars().all(bare) {
        format!("{key:?}")
    } else {
        key.to_owned()
    };
    if at.is_empty() {
        quoted
    } else {
        format!("{at}.{quoted}")
    }
}

fn scalar_json(value: Value) -> Option<Json> {
    match value {
        Value::String(_, text) => Some(Json::from(text)),
        Value::Char(_, character) => Some(Json::from(character.to_string())),
        Value::Bool(_, truth) => Some(Json::from(truth)),
        Value::Num(_, Num::F32(number)) => Some(Json::from(number)),
        Value::Num(_, Num::F64(number)) => Some(Json::from(number)),
        Value::Num(_, number) => {
            let unsigned = number.to_u128().and_then(|whole| u64::try_from(whole).ok());
            let signed = number.to_i128().and_then(|whole| i64::try_from(whole).ok());
            unsigned.map(Json::from).or_else(|| signed.map(Json::from))
        }
        Value::Empty(..) | Value::Dict(..) | Value::Array(..) => None,
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::String(_, text) => format!("the text `{text}`"),
        Value::Char(_, character) => format!("the text `{character}`"),
        Value::Bool(_, truth) => format!("`{truth}`"),
        Value::Num(_, Num::F32(number)) => format!("the number {number:?}"),
        Value::Num(_, Num::F64(number)) => format!("the number {number:?}"),
        Value::Num(_, number) => match (number.to_u128(), number.to_i128()) {
            (Some(whole), _) => format!("the number {whole}"),
            (_, Some(whole)) => format!("the number {whole}"),
            _ => "a number".into(),
        },
        Value::Empty(..) => "nothing".into(),
        Value::Dict(..) => "a table of keys".into(),
        Value::Array(..) => "a list".into(),
    }
}
