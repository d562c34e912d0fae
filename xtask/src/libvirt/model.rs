//! A libvirt source tree as one checked model: files read, names resolved, procedures joined with their structs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    ast::{Field, File, Shape, Struct, Type, Value, Variant},
    headers::{self, CEnum, Known},
    parser, structs,
};

/// What is generated, with the file that says it.
const PROGRAMS: [(&str, &str); 6] = [
    ("net", "src/rpc/virnetprotocol.x"),
    ("keepalive", "src/rpc/virkeepaliveprotocol.x"),
    ("remote", "src/remote/remote_protocol.x"),
    ("qemu", "src/remote/qemu_protocol.x"),
    ("lxc", "src/remote/lxc_protocol.x"),
    ("admin", "src/admin/admin_protocol.x"),
];

/// Public headers in an order in which each refers only to those before it.
const HEADERS: [&str; 14] = [
    "common",
    "host",
    "domain",
    "domain-checkpoint",
    "domain-snapshot",
    "event",
    "interface",
    "network",
    "nodedev",
    "nwfilter",
    "secret",
    "storage",
    "stream",
    "qemu",
];

/// A whole source tree.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) version: String,
    pub(crate) programs: BTreeMap<&'static str, File>,
    /// By header name.
    pub(crate) enums: BTreeMap<&'static str, Vec<CEnum>>,
    pub(crate) known: Known,
}

/// A procedure joined with its structs.
#[derive(Debug)]
pub(crate) struct Procedure<'a> {
    /// Without the program's prefix, in lower case: `domain_create`.
    pub(crate) name: String,
    pub(crate) variant: &'a Variant,
    pub(crate) args: Option<&'a Struct>,
    pub(crate) ret: Option<&'a Struct>,
    pub(crate) msg: Option<&'a Struct>,
}

impl Model {
    /// Reads the source tree at `dir` and checks it against its own `*_protocol-structs`.
    ///
    /// # Errors
    /// Names the file that is missing, not understood or in contradiction with another.
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let read = |name: &str| {
            let path = dir.join(name);
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
        };
        let mut programs = BTreeMap::new();
        for (program, path) in PROGRAMS {
            let file = parser::parse(&read(path)?).with_context(|| path.to_owned())?;
            programs.insert(program, file);
        }
        let mut known = Known::new();
        let mut enums = BTreeMap::new();
        for name in HEADERS {
            let suffix = if name == "common" { ".h.in" } else { ".h" };
            let path = format!("include/libvirt/libvirt-{name}{suffix}");
            enums.insert(name, headers::parse(&read(&path)?, &mut known).context(path)?);
        }
        let path = "include/libvirt/virterror.h";
        enums.insert("error", headers::parse(&read(path)?, &mut known).context(path)?);
        // Lengths of C buffers, facts of the ABI that no enumeration states.
        for (name, value) in [
            ("VIR_UUID_BUFLEN", 16),
            ("VIR_SECURITY_MODEL_BUFLEN", 257),
            ("VIR_SECURITY_LABEL_BUFLEN", 4097),
            ("VIR_SECURITY_DOI_BUFLEN", 257),
        ] {
            known.insert(name.to_owned(), value);
        }
        let version = version(&read("meson.build")?)?;
        let model = Self {
            version,
            programs,
            enums,
            known,
        };
        for (program, path) in [
            ("remote", "src/remote_protocol-structs"),
            ("qemu", "src/qemu_protocol-structs"),
            ("lxc", "src/lxc_protocol-structs"),
            ("admin", "src/admin_protocol-structs"),
            ("net", "src/virnetprotocol-structs"),
            ("keepalive", "src/virkeepaliveprotocol-structs"),
        ] {
            structs::check(model.file(program)?, &model, &read(path)?).with_context(|| path.to_owned())?;
        }
        Ok(model)
    }

    pub(crate) fn file(&self, program: &str) -> Result<&File> {
        self.programs
            .get(program)
            .with_context(|| format!("program `{program}` was not read"))
    }

    /// The number a length or constant stands for.
    ///
    /// # Errors
    /// When the name is unknown.
    pub(crate) fn number(&self, value: &Value) -> Result<i64> {
        let name = match value {
            Value::Number(number) => return Ok(*number),
            Value::Name(name) => name,
        };
        let constant = self
            .programs
            .values()
            .flat_map(|file| &file.constants)
            .find(|constant| constant.name == *name);
        match constant {
            Some(constant) => self.number(&constant.value),
            None => self
                .known
                .get(name)
                .copied()
                .with_context(|| format!("`{name}` has no value")),
        }
    }

    pub(crate) fn typedef(&self, name: &str) -> Option<&Field> {
        self.programs
            .values()
            .flat_map(|f| &f.typedefs)
            .find(|f| f.name == name)
    }

    /// A field whose type is a typedef, with the typedef looked through.
    pub(crate) fn resolve(&self, field: &Field) -> Result<Field> {
        let Type::Named(name) = &field.ty else {
            return Ok(field.clone());
        };
        let Some(typedef) = self.typedef(name) else {
            return Ok(field.clone());
        };
        if field.shape != Shape::One {
            // An array of strings: the element stays a name of its own.
            return Ok(field.clone());
        }
        self.resolve(&Field {
            name: field.name.clone(),
            ..typedef.clone()
        })
    }

    /// The procedures of a program in the order of their numbers.
    ///
    /// # Errors
    /// When a number is used twice or a struct belongs to no procedure.
    pub(crate) fn procedures(&self, program: &str) -> Result<Vec<Procedure<'_>>> {
        let file = self.file(program)?;
        let enum_name = format!("{program}_procedure");
        let prefix = format!("{}_PROC_", program.to_uppercase());
        let Some(numbers) = file.enums.iter().find(|e| e.name == enum_name) else {
            return Ok(Vec::new());
        };
        let structs: BTreeMap<&str, &Struct> = file.structs.iter().map(|s| (s.name.as_str(), s)).collect();
        let mut used = BTreeSet::new();
        let mut out: Vec<Procedure<'_>> = Vec::new();
        for variant in &numbers.variants {
            let name = variant
                .name
                .strip_prefix(&prefix)
                .unwrap_or(&variant.name)
                .to_lowercase();
            let mut find = |kind: &str| {
                let (key, found) = structs.get_key_value(format!("{program}_{name}_{kind}").as_str())?;
                used.insert(*key);
                Some(*found)
            };
            let (args, ret, msg) = (find("args"), find("ret"), find("msg"));
            ensure!(
                msg.is_none() || (args.is_none() && ret.is_none()),
                "`{name}` is both a call and an event"
            );
            out.push(Procedure {
                name,
                variant,
                args,
                ret,
                msg,
            });
        }
        out.sort_by_key(|p| p.variant.value);
        for pair in out.windows(2) {
            if let [a, b] = pair {
                ensure!(
                    a.variant.value != b.variant.value,
                    "`{}` and `{}` share a number",
                    a.name,
                    b.name
                );
            }
        }
        for name in structs.keys() {
            let wanted = ["_args", "_ret", "_msg"].iter().any(|end| name.ends_with(end));
            ensure!(!wanted || used.contains(name), "`{name}` belongs to no procedure");
        }
        Ok(out)
    }
}

fn version(meson: &str) -> Result<String> {
    let found = meson.lines().find_map(|line| {
        line.trim()
            .strip_prefix("version: '")?
            .split('\'')
            .next()
            .map(str::to_owned)
    });
    match found {
        Some(version) => Ok(version),
        None => bail!("meson.build names no version"),
    }
}
