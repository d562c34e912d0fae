//! Lists of named values, in which libvirt hands over most statistics.

use crate::wire::{
    remote::record::{TypedParam, TypedParamValue},
    xdr::Text,
};

/// Named values in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params(pub Vec<TypedParam>);

/// A value, whatever width it travelled in.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A signed number.
    Signed(i64),
    /// An unsigned number.
    Unsigned(u64),
    /// A number with a fraction.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// A text.
    Text(&'a Text),
}

impl Params {
    /// The value of a name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<Value<'_>> {
        let param = self.0.iter().find(|param| param.field == *name)?;
        Some(match &param.value {
            TypedParamValue::Int(number) => Value::Signed((*number).into()),
            TypedParamValue::Uint(number) => Value::Unsigned((*number).into()),
            TypedParamValue::Llong(number) => Value::Signed(*number),
            TypedParamValue::Ullong(number) => Value::Unsigned(*number),
            TypedParamValue::Double(number) => Value::Float(*number),
            TypedParamValue::Boolean(word) => Value::Bool(*word != 0),
            TypedParamValue::String(text) => Value::Text(text),
        })
    }

    /// The value of a name, if it is a number that is not negative.
    #[must_use]
    pub fn unsigned(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            Value::Unsigned(number) => Some(number),
            Value::Signed(number) => number.try_into().ok(),
            _ => None,
        }
    }

    /// The value of a name, if it is a text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<std::borrow::Cow<'_, str>> {
        match self.value(name)? {
            Value::Text(text) => Some(text.to_string_lossy()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_whatever_its_width() {
        let param = |field: &str, value| TypedParam {
            field: field.into(),
            value,
        };
        let params = Params(vec![
            param("a", TypedParamValue::Int(-1)),
            param("b", TypedParamValue::Ullong(7)),
            param("c", TypedParamValue::String("x".into())),
            param("d", TypedParamValue::Boolean(1)),
        ]);
        assert_eq!(params.unsigned("a"), None);
        assert_eq!(params.unsigned("b"), Some(7));
        assert_eq!(params.text("c").as_deref(), Some("x"));
        assert_eq!(params.value("d"), Some(Value::Bool(true)));
        assert_eq!(params.value("e"), None);
    }
}
