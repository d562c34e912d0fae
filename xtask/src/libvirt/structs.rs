//! Cross-check with `*_protocol-structs`, where libvirt commits what a C compiler made of the `.x` files.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};

use super::{
    ast::{Field, File, Shape, Type},
    model::Model,
};

/// Compares every struct, union and enum of `file` with the listing.
///
/// # Errors
/// Names the first item that differs.
pub(crate) fn check(file: &File, model: &Model, listing: &str) -> Result<()> {
    let listed = listing_items(listing);
    for item in &file.structs {
        let fields: Vec<String> = item
            .fields
            .iter()
            .map(|f| c_field(f, model))
            .collect::<Result<_>>()
            .with_context(|| item.name.clone())?;
        compare(&listed, &format!("struct {}", item.name), &fields.join(" "))?;
    }
    for item in &file.unions {
        let arms: Vec<String> = item
            .arms
            .iter()
            .map(|(_, f)| c_field(f, model))
            .collect::<Result<_>>()?;
        let body = format!("int type; union {{ {} }} {}_u;", arms.join(" "), item.name);
        compare(&listed, &format!("struct {}", item.name), &body)?;
    }
    for item in &file.enums {
        let values: Vec<String> = item
            .variants
            .iter()
            .map(|v| format!("{} = {},", v.name, v.value))
            .collect();
        let key = format!("enum {}", item.name);
        // The compiler only lists an enum that something uses.
        if listed.contains_key(&key) || item.name.ends_with("_procedure") {
            compare(&listed, &key, &values.join(" "))?;
        }
    }
    let described: BTreeSet<&str> = file
        .structs
        .iter()
        .map(|s| s.name.as_str())
        .chain(file.unions.iter().map(|u| u.name.as_str()))
        .collect();
    for name in listed.keys().filter_map(|k| k.strip_prefix("struct ")) {
        // A listing may repeat types of the description it includes.
        let included = model
            .programs
            .values()
            .any(|f| f.structs.iter().any(|s| s.name == name));
        ensure!(
            described.contains(name) || included,
            "the listing has `{name}`, the description does not"
        );
    }
    Ok(())
}

fn compare(listed: &BTreeMap<String, String>, key: &str, ours: &str) -> Result<()> {
    let theirs = listed.get(key).with_context(|| format!("{key} is not listed"))?;
    ensure!(
        ours == theirs,
        "{key} differs:\n  described {ours}\n  listed    {theirs}"
    );
    Ok(())
}

fn listing_items(listing: &str) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut open: Option<(String, Vec<String>)> = None;
    for line in listing.lines() {
        let text = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((name, mut body)) = open.take() {
            if line.starts_with('}') {
                out.insert(name, body.join(" "));
            } else {
                body.push(text);
                open = Some((name, body));
            }
        } else if let Some(name) = text.strip_suffix(" {") {
            open = Some((name.to_owned(), Vec::new()));
        }
    }
    out
}

fn c_field(field: &Field, model: &Model) -> Result<String> {
    let ty = c_type(&field.ty);
    let name = &field.name;
    Ok(match &field.shape {
        Shape::One if field.ty == Type::String => format!("char * {name};"),
        Shape::One => format!("{ty} {name};"),
        Shape::Optional => format!("{ty} * {name};"),
        Shape::Fixed(length) => format!("{ty} {name}[{}];", model.number(length)?),
        Shape::AtMost(_) => format!("struct {{ u_int {name}_len; {ty} * {name}_val; }} {name};"),
    })
}

fn c_type(ty: &Type) -> &str {
    match ty {
        Type::Int => "int",
        Type::UnsignedInt => "u_int",
        Type::Hyper => "int64_t",
        Type::UnsignedHyper => "uint64_t",
        Type::Double => "double",
        Type::UnsignedChar => "u_char",
        Type::Short => "short",
        Type::UnsignedShort => "u_short",
        Type::Char | Type::Opaque | Type::String => "char",
        Type::Named(name) => name,
    }
}
