//! From the model to Rust text, one file an object.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use anyhow::{Context, Result, ensure};

use super::{
    ast::{Enum, Field, Shape, Struct, Type, Union, Value},
    docs,
    model::{Model, Procedure},
    names,
};

/// Fields whose content must never reach a log.
const SECRETS: [(&str, &str); 7] = [
    ("remote_secret_set_value_args", "value"),
    ("remote_secret_get_value_ret", "value"),
    ("remote_auth_sasl_start_args", "data"),
    ("remote_auth_sasl_start_ret", "data"),
    ("remote_auth_sasl_step_args", "data"),
    ("remote_auth_sasl_step_ret", "data"),
    ("remote_domain_set_user_password_args", "password"),
];

/// One file in the making: its text and what it must import.
#[derive(Debug, Default)]
pub(crate) struct Unit {
    pub(crate) module: String,
    text: String,
    imports: BTreeSet<String>,
}

impl Unit {
    pub(crate) fn new(module: &str) -> Self {
        Self {
            module: module.to_owned(),
            ..Self::default()
        }
    }

    fn import(&mut self, path: &str) {
        let (module, _) = path.rsplit_once("::").unwrap_or_default();
        if module != format!("crate::wire::{}", self.module) {
            self.imports.insert(path.to_owned());
        }
    }

    fn xdr(&mut self, name: &str) -> String {
        self.import(&format!("crate::wire::xdr::{name}"));
        name.to_owned()
    }

    /// The file's text below its header.
    pub(crate) fn finish(&self, doc: &str) -> String {
        let mut out = format!("//! {doc}\n\n");
        let mut modules: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (module, name) in self.imports.iter().filter_map(|path| path.rsplit_once("::")) {
            modules.entry(module).or_default().push(name);
        }
        for (module, names) in modules {
            let _ = writeln!(out, "use {module}::{{{}}};", names.join(", "));
        }
        out.push('\n');
        out.push_str(&self.text);
        out
    }

    /// A constant; limits and program numbers are all unsigned words.
    pub(crate) fn constant(&mut self, name: &str, c_name: &str, value: i64) {
        let shown = if c_name.ends_with("PROGRAM") {
            format!("{value:#x}")
        } else {
            value.to_string()
        };
        let _ = writeln!(self.text, "/// `{c_name}`.\npub const {name}: u32 = {shown};\n");
    }

    /// An enumeration of a `.x` file, open to values of newer daemons.
    pub(crate) fn enumeration(&mut self, item: &Enum) {
        let c_names: Vec<&str> = item.variants.iter().map(|v| v.name.as_str()).collect();
        let values: Vec<i64> = item.variants.iter().map(|v| v.value).collect();
        self.open_enum("open_enum", &names::item(&item.name), &item.name, &c_names, &values);
    }

    /// A newtype with constants: `kind` is the macro, `open_enum` or `flags`.
    pub(crate) fn open_enum(&mut self, kind: &str, name: &str, c_name: &str, c_names: &[&str], values: &[i64]) {
        self.import(&format!("crate::wire::macros::{kind}"));
        let _ = writeln!(self.text, "{kind}! {{\n    /// `{c_name}`.\n    {name} {{");
        for ((short, c_name), value) in names::c_values(c_name, c_names).iter().zip(c_names).zip(values) {
            let _ = writeln!(self.text, "        /// `{c_name}`.\n        {short} = {value},");
        }
        self.text.push_str("    }\n}\n\n");
    }
}

/// Emits the items of one program.
#[derive(Debug)]
pub(crate) struct Emitter<'a> {
    pub(crate) model: &'a Model,
    /// Module of each struct, enum and union, by its name in the description.
    pub(crate) homes: BTreeMap<&'a str, String>,
}

impl Emitter<'_> {
    /// A struct with its codec.
    pub(crate) fn structure(&self, unit: &mut Unit, item: &Struct, doc: &str) -> Result<()> {
        let name = names::item(&item.name);
        let secret: Vec<String> = SECRETS
            .iter()
            .filter(|(s, _)| *s == item.name)
            .map(|(_, f)| names::field(f))
            .collect();
        let debug = if secret.is_empty() { "Debug, " } else { "" };
        let _ = writeln!(
            unit.text,
            "/// {doc}\n#[derive(Clone, {debug}Default, PartialEq)]\npub struct {name} {{"
        );
        let min = self.min_struct(item)?;
        let mut codec = String::new();
        let mut seen = BTreeSet::new();
        for field in &item.fields {
            let (ty, max) = self.rust_type(unit, field).with_context(|| item.name.clone())?;
            let rust = names::field(&field.name);
            ensure!(seen.insert(rust.clone()), "`{}` has two fields `{rust}`", item.name);
            let doc = docs::field(&field.name, &item.name);
            let _ = writeln!(unit.text, "    /// {doc}\n    pub {rust}: {ty},");
            match max {
                Some(max) => {
                    let _ = write!(codec, "{rust}: {max}, ");
                }
                None => {
                    let _ = write!(codec, "{rust}, ");
                }
            }
        }
        unit.import("crate::wire::macros::xdr_struct");
        let _ = writeln!(unit.text, "}}\n\nxdr_struct!({min}, {name} {{ {codec} }});\n");
        if !secret.is_empty() {
            unit.import("crate::wire::macros::redacted_debug");
            let open: Vec<_> = seen.iter().filter(|f| !secret.contains(f)).cloned().collect();
            let _ = writeln!(
                unit.text,
                "redacted_debug!({name}, [{}], [{}]);\n",
                open.join(", "),
                secret.join(", ")
            );
        }
        Ok(())
    }

    /// A discriminated union.
    pub(crate) fn union(&self, unit: &mut Unit, item: &Union) -> Result<()> {
        let name = names::item(&item.name);
        let mut variants = String::new();
        let mut codec = String::new();
        for (tag, field) in &item.arms {
            let (ty, _) = self.rust_type(unit, field)?;
            let number = self.model.number(&Value::Name(tag.clone()))?;
            let variant = names::camel(&tag.rsplit('_').next().unwrap_or(tag).to_lowercase());
            let _ = writeln!(variants, "    /// `{tag}`.\n    {variant}({ty}),");
            let _ = write!(codec, "{variant}: {number}, ");
        }
        unit.import("crate::wire::macros::xdr_union");
        let _ = writeln!(
            unit.text,
            "/// `{}`.\n#[derive(Clone, Debug, PartialEq)]\n#[non_exhaustive]\npub enum {name} {{\n{variants}}}\n\n\
             xdr_union!({name} {{ {codec} }});\n",
            item.name
        );
        Ok(())
    }

    /// The marker type of a call, or the event side of a message struct.
    pub(crate) fn procedure(&self, unit: &mut Unit, program: &str, item: &Procedure<'_>) -> Result<()> {
        let number = item.variant.value;
        let info = self.info(unit, program, item)?;
        if let Some(msg) = item.msg {
            let id = msg.fields.iter().any(|f| f.name == "callbackID");
            let callback = if id { "Some(self.callback_id)" } else { "None" };
            unit.import("crate::wire::procedure::EventMessage");
            let _ = writeln!(
                unit.text,
                "impl EventMessage for {} {{\n    const INFO: Info = {info};\n\n\
                 fn callback_id(&self) -> Option<i32> {{ {callback} }}\n}}\n",
                names::item(&msg.name)
            );
            return Ok(());
        }
        let name = names::camel(&item.name);
        let side = |s: Option<&Struct>| s.map_or_else(|| "()".to_owned(), |s| names::item(&s.name));
        unit.import("crate::wire::procedure::Procedure");
        let _ = writeln!(
            unit.text,
            "/// Procedure {number} of the {program} program, `{}`.\n#[derive(Clone, Copy, Debug)]\npub enum {name} {{}}\n\n\
             impl Procedure for {name} {{\n    type Args = {};\n    type Ret = {};\n\n    const INFO: Info = {info};\n}}\n",
            item.name,
            side(item.args),
            side(item.ret)
        );
        Ok(())
    }

    fn info(&self, unit: &mut Unit, program: &str, item: &Procedure<'_>) -> Result<String> {
        unit.import("crate::wire::procedure::Info");
        unit.import("crate::wire::procedure::Program");
        let mut info = format!(
            "Info::new(Program::{}, {}, \"{}\")",
            program.to_uppercase(),
            item.variant.value,
            item.name
        );
        let notes = &item.variant.annotations;
        if notes.get("priority").is_some_and(|v| v.iter().any(|v| v == "high")) {
            info.push_str(".high()");
        }
        for (key, call) in [("readstream", "reads"), ("writestream", "writes")] {
            if notes.contains_key(key) {
                let _ = write!(info, ".{call}()");
            }
        }
        for flag in notes.get("sparseflag").into_iter().flatten() {
            let _ = write!(info, ".sparse({})", self.model.number(&Value::Name(flag.clone()))?);
        }
        if item.msg.is_some() {
            info.push_str(".event()");
        }
        Ok(info)
    }

    fn min_struct(&self, item: &Struct) -> Result<i64> {
        item.fields.iter().map(|field| self.min(field)).sum()
    }

    /// The fewest bytes a field takes.
    fn min(&self, field: &Field) -> Result<i64> {
        let field = self.model.resolve(field)?;
        Ok(match (&field.ty, &field.shape) {
            (_, Shape::Optional | Shape::AtMost(_)) => 4,
            (Type::Opaque, Shape::Fixed(length)) => self.model.number(length)?,
            (_, Shape::Fixed(length)) => 4 * self.model.number(length)?,
            (Type::Hyper | Type::UnsignedHyper | Type::Double, Shape::One) => 8,
            (Type::Named(name), Shape::One) => {
                let files = self.model.programs.values();
                match files.flat_map(|f| &f.structs).find(|s| s.name == *name) {
                    Some(inner) => self.min_struct(inner)?,
                    None if self.is_union(name) => 8,
                    None => 4,
                }
            }
            (_, Shape::One) => 4,
        })
    }

    fn is_union(&self, name: &str) -> bool {
        self.model
            .programs
            .values()
            .flat_map(|f| &f.unions)
            .any(|u| u.name == name)
    }

    /// The Rust type of a field, and the limit its length is held to.
    fn rust_type(&self, unit: &mut Unit, field: &Field) -> Result<(String, Option<String>)> {
        let field = &self.model.resolve(field)?;
        let max = match &field.shape {
            Shape::AtMost(Some(max)) => Some(max),
            _ => None,
        };
        let limit = |unit: &mut Unit| max.map(|max| limit(unit, max));
        Ok(match (&field.ty, &field.shape) {
            (Type::String, Shape::AtMost(_)) => {
                let max = self.model.number(max.context("a string without limit")?)?;
                ensure!(max == 4_194_304, "a string limit of {max} is new");
                (unit.xdr("Text"), None)
            }
            (Type::Opaque, Shape::Fixed(length)) => {
                ensure!(self.model.number(length)? == 16, "fixed opaque other than a UUID");
                (unit.xdr("Uuid"), None)
            }
            (Type::Opaque, Shape::AtMost(_)) => (unit.xdr("Opaque"), limit(unit)),
            (Type::Char, Shape::AtMost(_)) => (unit.xdr("Chars"), limit(unit)),
            (Type::Char, Shape::Fixed(length)) => (
                format!("{}<{}>", unit.xdr("CharArray"), self.model.number(length)?),
                None,
            ),
            (ty, Shape::One) => (self.element(unit, ty)?, None),
            (ty, Shape::Optional) => (format!("Option<{}>", self.element(unit, ty)?), None),
            (ty, Shape::AtMost(_)) => (format!("Vec<{}>", self.element(unit, ty)?), limit(unit)),
            (ty, Shape::Fixed(_)) => anyhow::bail!("fixed array of {ty:?} is new"),
        })
    }

    fn element(&self, unit: &mut Unit, ty: &Type) -> Result<String> {
        Ok(match ty {
            Type::Int => "i32".to_owned(),
            Type::UnsignedInt => "u32".to_owned(),
            Type::Hyper => "i64".to_owned(),
            Type::UnsignedHyper => "u64".to_owned(),
            Type::Double => "f64".to_owned(),
            Type::Char => "i8".to_owned(),
            Type::UnsignedChar => "u8".to_owned(),
            Type::Short => "i16".to_owned(),
            Type::UnsignedShort => "u16".to_owned(),
            Type::Opaque | Type::String => anyhow::bail!("bare {ty:?}"),
            Type::Named(name) => {
                if let Some(typedef) = self.model.typedef(name) {
                    return Ok(self.rust_type(unit, typedef)?.0);
                }
                let home = self
                    .homes
                    .get(name.as_str())
                    .with_context(|| format!("`{name}` is not defined"))?;
                let rust = names::item(name);
                unit.import(&format!("crate::wire::{home}::{rust}"));
                rust
            }
        })
    }
}

fn limit(unit: &mut Unit, max: &Value) -> String {
    let name = match max {
        Value::Number(number) => return number.to_string(),
        Value::Name(name) => name,
    };
    for (prefix, home) in [("REMOTE_", "remote::limit"), ("ADMIN_", "admin"), ("VIR_NET_", "net")] {
        if let Some(short) = name.strip_prefix(prefix) {
            unit.import(&format!("crate::wire::{home}::{short}"));
            return short.to_owned();
        }
    }
    name.clone()
}
