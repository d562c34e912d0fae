//! The schema of the chart's values: ours for the chart, with the binary's own for its configuration in it.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Puts the schema of the configuration into that of the values, as `config`.
///
/// # Errors
/// When either is no JSON schema of an object, or both define the same name.
pub(super) fn of_values(values: &str, config: &str) -> Result<String> {
    let mut values: Value = serde_json::from_str(values).context("values.schema.in.json")?;
    let mut config: Value = serde_json::from_str(config).context("the schema of the configuration")?;
    let inner = config
        .as_object_mut()
        .context("the schema of the configuration is no object")?;
    inner.remove("$schema");
    let definitions = inner.remove("$defs").unwrap_or_default();
    // A reference in it is `#/$defs/Name`, and stays right when the definitions move to the top.
    if let Some(definitions) = definitions.as_object() {
        let all = values.pointer_mut("/$defs").and_then(Value::as_object_mut);
        let all = all.context("values.schema.in.json has no `$defs`")?;
        for (name, definition) in definitions {
            let earlier = all.insert(name.clone(), definition.clone());
            ensure!(earlier.is_none(), "`{name}` is defined twice");
        }
    }
    let slot = values.pointer_mut("/properties/config");
    *slot.context("values.schema.in.json has no property `config`")? = config;
    Ok(format!("{values:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: &str = r##"{"properties": {"config": {}, "mode": {"enum": ["a"]}}, "$defs": {"chart.A": {}}}"##;

    #[test]
    fn the_configuration_keeps_its_references() {
        let config = r##"{"$schema": "x", "$defs": {"Host": {"type": "object"}},
                         "properties": {"host": {"$ref": "#/$defs/Host"}}}"##;
        let merged: Value = serde_json::from_str(&of_values(VALUES, config).unwrap()).unwrap();
        assert_eq!(
            merged["properties"]["config"]["properties"]["host"]["$ref"],
            "#/$defs/Host"
        );
        assert_eq!(merged["$defs"]["Host"]["type"], "object");
        assert_eq!(merged["properties"]["config"]["$schema"], Value::Null);
        assert_eq!(merged["properties"]["mode"]["enum"][0], "a");
    }

    #[test]
    fn a_name_that_both_define_is_refused() {
        let error = of_values(VALUES, r#"{"$defs": {"chart.A": {}}}"#).unwrap_err();
        assert!(error.to_string().contains("chart.A"), "{error}");
    }
}
