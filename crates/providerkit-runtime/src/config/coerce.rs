//! Text from the environment or a flag, given the type its key has.

use figment::value::{Dict, Value};
use serde_json::Value as Json;

use super::schema::Node;

/// Reads text as the schema wants it. What does not fit stays text, and is reported as that; and so does the zone `007`
/// where text is wanted.
pub(super) fn coerce(node: Option<Node<'_>>, text: &str) -> Value {
    let as_text = || Value::from(text);
    let Some(node) = node else {
        return as_text();
    };
    if node.is("array") {
        return list(node, text);
    }
    if node.is("object") {
        return structured(text).unwrap_or_else(as_text);
    }
    if node.is("boolean")
        && let Ok(truth) = text.trim().parse::<bool>()
    {
        return Value::from(truth);
    }
    if node.is("integer") || node.is("number") {
        let trimmed = text.trim();
        if let Ok(number) = trimmed.parse::<u64>() {
            return Value::from(number);
        }
        if let Ok(number) = trimmed.parse::<i64>() {
            return Value::from(number);
        }
        if node.is("number")
            && let Ok(number) = trimmed.parse::<f64>()
        {
            return Value::from(number);
        }
    }
    as_text()
}

fn list(node: Node<'_>, text: &str) -> Value {
    if text.trim_start().starts_with('[')
        && let Some(value) = structured(text)
    {
        return value;
    }
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    Value::from(items.map(|item| coerce(node.items(), item)).collect::<Vec<_>>())
}

fn structured(text: &str) -> Option<Value> {
    let json: Json = serde_json::from_str(text).ok()?;
    (json.is_object() || json.is_array()).then(|| from_json(json))
}

fn from_json(json: Json) -> Value {
    match json {
        Json::Null => Value::from(""),
        Json::Bool(truth) => Value::from(truth),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(whole), _) => Value::from(whole),
            (_, Some(whole)) => Value::from(whole),
            _ => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text),
        Json::Array(items) => Value::from(items.into_iter().map(from_json).collect::<Vec<_>>()),
        Json::Object(map) => {
            let entries = map.into_iter().map(|(key, value)| (key, from_json(value)));
            Value::from(entries.collect::<Dict>())
        }
    }
}
