//! The schema as others get it (charts, editors, documentation): in one piece, closed, with the defaults of the whole.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Serialize;
use serde_json::{Map, Value as Json};

/// The schema of `T`. Every table takes the keys it names and no others; every key has its default, also where a table
/// was flattened into one that has others than its own.
pub(super) fn schema<T: Default + Serialize + JsonSchema>() -> Json {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    close(&mut schema);
    if let Ok(defaults) = serde_json::to_value(T::default()) {
        set_default(&mut schema, &defaults);
    }
    schema
}

fn close(schema: &mut Json) {
    let Json::Object(schema) = schema else { return };
    if let Some(Json::String(description)) = schema.get_mut("description") {
        // As the source breaks its lines is nobody's business.
        *description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    if schema.contains_key("properties") {
        schema.entry("additionalProperties").or_insert(Json::Bool(false));
    }
    for (keyword, inner) in schema.iter_mut() {
        match (keyword.as_str(), inner) {
            ("items" | "additionalProperties", inner) => close(inner),
            ("properties" | "$defs", Json::Object(inner)) => inner.values_mut().for_each(close),
            ("anyOf" | "oneOf" | "allOf", Json::Array(inner)) => inner.iter_mut().for_each(close),
            _ => {}
        }
    }
}

/// Tables have none of their own: their keys have.
fn set_default(schema: &mut Json, default: &Json) {
    let Json::Object(schema) = schema else { return };
    match schema.get_mut("properties") {
        Some(Json::Object(properties)) => {
            for (key, property) in properties {
                if let Some(default) = default.get(key) {
                    set_default(property, default);
                }
            }
            schema.remove("default");
        }
        _ => drop(Map::insert(schema, "default".to_owned(), default.clone())),
    }
}
