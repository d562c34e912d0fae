//! Which item goes to which file.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::Write as _,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{
    ast::File,
    docs,
    emit::{Emitter, Unit},
    model::Model,
    names,
};

/// Path below `generated/` and text.
pub(crate) type Files = BTreeMap<String, String>;

const SINGLE: [&str; 5] = ["net", "keepalive", "qemu", "lxc", "admin"];

/// Every file of `crates/libvirt-rpc/src/wire/generated`.
///
/// # Errors
/// When an item cannot be expressed, or rustfmt refuses the text.
pub(crate) fn files(model: &Model) -> Result<Files> {
    let mut units = BTreeMap::new();
    let emitter = Emitter {
        model,
        homes: homes(model),
    };
    for program in SINGLE {
        units.insert(program.to_owned(), Unit::new(program));
    }
    for (program, file) in &model.programs {
        constants(&mut units, program, file, model)?;
        for item in file.enums.iter().filter(|e| !e.name.ends_with("_procedure")) {
            home(&mut units, &emitter, &item.name).enumeration(item);
        }
        for item in &file.unions {
            emitter.union(home(&mut units, &emitter, &item.name), item)?;
        }
        let procedures = model.procedures(program)?;
        for item in &file.structs {
            let owner = procedures.iter().find(|p| {
                [p.args, p.ret, p.msg]
                    .into_iter()
                    .flatten()
                    .any(|s| s.name == item.name)
            });
            let doc = docs::structure(&item.name, owner.map(|p| (p.variant.value, p.name.as_str())));
            emitter.structure(home(&mut units, &emitter, &item.name), item, &doc)?;
        }
        for item in &procedures {
            let module = module_of(program, Some(&item.name));
            let unit = units.entry(module.clone()).or_insert_with(|| Unit::new(&module));
            emitter.procedure(unit, program, item)?;
        }
    }
    for (header, enums) in &model.enums {
        let module = format!("constant::{}", names::snake(&header.replace('-', "_")));
        let unit = units.entry(module.clone()).or_insert_with(|| Unit::new(&module));
        for item in enums {
            let c_names: Vec<&str> = item.values.iter().map(|(n, _)| n.as_str()).collect();
            let values: Vec<i64> = item.values.iter().map(|(_, v)| *v).collect();
            let kind = if is_flags(&item.name) { "flags" } else { "open_enum" };
            unit.open_enum(kind, &names::c_enum(&item.name), &item.name, &c_names, &values);
        }
    }
    let mut out = Files::new();
    for (module, unit) in &units {
        let doc = format!("`{module}`: what libvirt {} says about it.", model.version);
        out.insert(format!("{}.rs", module.replace("::", "/")), unit.finish(&doc));
    }
    modules(&mut out);
    out.insert("event.rs".to_owned(), events(model, &emitter)?);
    out.insert("table.rs".to_owned(), table(model, &emitter)?);
    out.insert("describe.rs".to_owned(), describe(model, &emitter)?);
    out.insert("every.rs".to_owned(), every(&emitter));
    out.into_iter()
        .map(|(path, text)| Ok((path.clone(), finish(model, &text).with_context(|| path)?)))
        .collect()
}

/// Bit sets, as opposed to values of which one holds.
fn is_flags(name: &str) -> bool {
    name.contains("Flag")
        || [
            "virDomainModificationImpact",
            "virDomainStatsTypes",
            "virDomainGuestInfoTypes",
        ]
        .contains(&name)
}

fn module_of(program: &str, procedure: Option<&str>) -> String {
    match (program, procedure) {
        ("remote", Some(name)) => format!("remote::{}", names::object(name)),
        ("remote", None) => "remote::record".to_owned(),
        (other, _) => other.to_owned(),
    }
}

fn homes(model: &Model) -> BTreeMap<&str, String> {
    let mut out = BTreeMap::new();
    for (program, file) in &model.programs {
        let plain = module_of(program, None);
        for name in file
            .enums
            .iter()
            .map(|e| &e.name)
            .chain(file.unions.iter().map(|u| &u.name))
        {
            out.insert(name.as_str(), plain.clone());
        }
        for item in &file.structs {
            let call = ["_args", "_ret", "_msg"]
                .iter()
                .find_map(|end| item.name.strip_suffix(end)?.strip_prefix("remote_"));
            out.insert(&item.name, module_of(program, call));
        }
    }
    out
}

fn home<'u>(units: &'u mut BTreeMap<String, Unit>, emitter: &Emitter<'_>, name: &str) -> &'u mut Unit {
    let module = emitter.homes.get(name).cloned().unwrap_or_default();
    units.entry(module.clone()).or_insert_with(|| Unit::new(&module))
}

fn constants(units: &mut BTreeMap<String, Unit>, program: &str, file: &File, model: &Model) -> Result<()> {
    let (prefix, module) = match program {
        "net" => ("VIR_NET_".to_owned(), "net"),
        "remote" => ("REMOTE_".to_owned(), "remote::limit"),
        other => (format!("{}_", other.to_uppercase()), other),
    };
    let unit = units.entry(module.to_owned()).or_insert_with(|| Unit::new(module));
    for constant in &file.constants {
        let short = constant.name.strip_prefix(&prefix).unwrap_or(&constant.name);
        unit.constant(short, &constant.name, model.number(&constant.value)?);
    }
    Ok(())
}

/// `mod.rs` of the root and of each folder.
fn modules(files: &mut Files) {
    let mut folders: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in files.keys() {
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
        folders
            .entry(folder.to_owned())
            .or_default()
            .push(file.trim_end_matches(".rs").to_owned());
    }
    let inner: Vec<String> = folders.keys().filter(|f| !f.is_empty()).cloned().collect();
    for (folder, mut names) in folders {
        let mut text = String::new();
        if folder.is_empty() {
            names.extend(inner.iter().cloned());
            text.push_str("//! All of libvirt's protocol, written by `cargo xtask codegen libvirt`.\n\nmod describe;\nmod event;\nmod table;\n");
            text.push_str("#[cfg(test)]\npub(crate) mod every;\n\npub use describe::describe;\npub use event::Event;\npub use table::PROCEDURES;\n\n");
        } else {
            let _ = writeln!(text, "//! `{folder}`: one file an object.\n");
        }
        names.sort();
        for name in names {
            let _ = writeln!(text, "pub mod {name};");
        }
        let path = if folder.is_empty() {
            "mod.rs".to_owned()
        } else {
            format!("{folder}/mod.rs")
        };
        files.insert(path, text);
    }
}

fn events(model: &Model, emitter: &Emitter<'_>) -> Result<String> {
    let mut uses = String::new();
    let mut variants = String::new();
    for program in ["remote", "qemu"] {
        for item in model.procedures(program)? {
            let Some(msg) = item.msg else { continue };
            let ty = names::item(&msg.name);
            let home = emitter.homes.get(msg.name.as_str()).context("event without home")?;
            let _ = writeln!(uses, "use crate::wire::{home}::{ty};");
            let variant = match program {
                "qemu" => format!("Qemu{}", names::camel(&item.name)),
                _ => names::camel(&item.name),
            };
            let _ = writeln!(variants, "    /// `{}`.\n    {variant}({ty}),", item.name);
        }
    }
    Ok(format!(
        "//! Every event a daemon may send.\n\nuse crate::wire::macros::event_enum;\n{uses}\nevent_enum! {{\n{variants}}}\n"
    ))
}

fn table(model: &Model, emitter: &Emitter<'_>) -> Result<String> {
    let mut rows = String::new();
    let mut count = 0;
    for program in ["remote", "qemu", "lxc", "admin", "keepalive"] {
        for item in model.procedures(program)? {
            let row = match item.msg {
                Some(msg) => {
                    let home = emitter.homes.get(msg.name.as_str()).context("event without home")?;
                    format!("<super::{home}::{} as EventMessage>::INFO", names::item(&msg.name))
                }
                None => {
                    let home = module_of(program, Some(&item.name));
                    format!("<super::{home}::{} as Procedure>::INFO", names::camel(&item.name))
                }
            };
            let _ = writeln!(rows, "    {row},");
            count += 1;
        }
    }
    Ok(format!(
        "//! Every procedure by program and number.\n\nuse crate::wire::procedure::{{EventMessage, Info, Procedure}};\n\n\
         /// All procedures and events, sorted by program (remote, qemu, lxc, admin, keepalive) and number.\n\
         pub const PROCEDURES: [Info; {count}] = [\n{rows}];\n"
    ))
}

/// The arms of a match from a message to its content for people.
fn describe(model: &Model, emitter: &Emitter<'_>) -> Result<String> {
    let mut arms = String::new();
    for program in ["remote", "qemu", "lxc", "admin", "keepalive"] {
        for item in model.procedures(program)? {
            let path = |s: Option<&super::ast::Struct>| -> Result<String> {
                let Some(s) = s else {
                    return Ok("()".to_owned());
                };
                let home = emitter.homes.get(s.name.as_str()).context("struct without home")?;
                Ok(format!("super::{home}::{}", names::item(&s.name)))
            };
            let (call, reply) = match item.msg {
                Some(_) => (path(item.msg)?, path(item.msg)?),
                None => (path(item.args)?, path(item.ret)?),
            };
            let program = program.to_uppercase();
            let number = item.variant.value;
            let _ = writeln!(
                arms,
                "(Program::{program}, {number}) => either::<{call}, {reply}>(is_reply, payload),"
            );
        }
    }
    Ok(format!(
        "//! Any message as text.\n\nuse crate::wire::Error;\nuse crate::wire::procedure::{{Program, either}};\n\n\
         /// The content of a call, event or (`is_reply`) reply as text for a trace, secrets left out; `None` for a number\n\
         /// this library does not know.\n\
         pub fn describe(program: Program, number: i32, is_reply: bool, payload: &[u8]) -> Option<Result<String, Error>> {{\n\
         Some(match (program, number) {{\n{arms}_ => return None,\n}})\n}}\n"
    ))
}

fn every(emitter: &Emitter<'_>) -> String {
    let mut rows = String::new();
    for (name, home) in &emitter.homes {
        if !name.ends_with("_procedure") {
            let _ = writeln!(
                rows,
                "            {} = crate::wire::{home}::{};",
                names::snake(name),
                names::item(name)
            );
        }
    }
    format!(
        "//! The list of all types, for tests over all of them.\n\n\
         macro_rules! every_type {{\n    ($with:ident) => {{\n        $with! {{\n{rows}        }}\n    }};\n}}\n\
         pub(crate) use every_type;\n"
    )
}

fn finish(model: &Model, text: &str) -> Result<String> {
    let header = format!(
        "// Generated by `cargo xtask codegen libvirt` from the protocol of libvirt {}; do not edit.\n",
        model.version
    );
    let mut child = Command::new("rustfmt")
        .args([
            "--edition",
            "2024",
            "--config",
            "style_edition=2024,use_field_init_shorthand=true",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("running rustfmt")?;
    let mut stdin = child.stdin.take().context("rustfmt has no stdin")?;
    let bytes = (header + text).into_bytes();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output()?;
    if writer.join().is_err() || !output.status.success() {
        ensure!(
            false,
            "rustfmt refused the text:\n{}",
            text.chars().take(2000).collect::<String>()
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}
