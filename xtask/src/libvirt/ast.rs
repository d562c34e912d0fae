//! What a protocol description says, before any of it is Rust.

use std::collections::BTreeMap;

/// One `.x` file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) constants: Vec<Constant>,
    pub(crate) typedefs: Vec<Field>,
    pub(crate) structs: Vec<Struct>,
    pub(crate) enums: Vec<Enum>,
    pub(crate) unions: Vec<Union>,
}

/// `const NAME = value;`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Constant {
    pub(crate) name: String,
    pub(crate) value: Value,
}

/// A number, or the name of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Number(i64),
    Name(String),
}

/// A named list of fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
}

/// A type, a name and how often the type is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) shape: Shape,
}

/// The element type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    Int,
    UnsignedInt,
    Hyper,
    UnsignedHyper,
    Double,
    Char,
    UnsignedChar,
    Short,
    UnsignedShort,
    Opaque,
    String,
    Named(String),
}

/// How often the element is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    Optional,
    Fixed(Value),
    AtMost(Option<Value>),
}

/// An enumeration; the procedures are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Enum {
    pub(crate) name: String,
    pub(crate) variants: Vec<Variant>,
}

/// A value of an enumeration with the annotations before it (`@priority: high`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) value: i64,
    pub(crate) annotations: BTreeMap<String, Vec<String>>,
}

/// `union NAME switch (TAG) { case C: field; }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Union {
    pub(crate) name: String,
    pub(crate) arms: Vec<(String, Field)>,
}
