//! Turns the protocol description of a libvirt source tree into the committed Rust of `libvirt-rpc`.

mod ast;
mod docs;
mod emit;
mod generate;
mod headers;
mod lexer;
mod model;
mod names;
mod parser;
pub(crate) mod sources;
mod structs;
#[cfg(test)]
mod versions;

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail};
use clap::Subcommand;

use crate::workspace;

const OUT: &str = "crates/libvirt-rpc/src/wire/generated";

/// What else can be generated.
#[derive(Debug, Subcommand)]
pub(crate) enum Codegen {
    /// Regenerate libvirt-rpc's wire types from a libvirt source tree
    Libvirt {
        /// An unpacked libvirt source (`apt-get source libvirt`)
        #[arg(long)]
        source: PathBuf,
        /// Only compare; fail if a file would change
        #[arg(long)]
        check: bool,
    },
}

impl Codegen {
    /// Runs it.
    ///
    /// # Errors
    /// When the source is not understood, or with `check` when a committed file differs.
    pub(crate) fn run(&self) -> Result<()> {
        let Self::Libvirt { source, check } = self;
        let model = model::Model::read(source)?;
        let files = generate::files(&model)?;
        let out = workspace::root().join(OUT);
        let mut stale = Vec::new();
        for (name, text) in &files {
            let path = out.join(name);
            if fs::read_to_string(&path).ok().as_deref() == Some(text) {
                continue;
            }
            if *check {
                stale.push(name.as_str());
                continue;
            }
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        if !stale.is_empty() {
            bail!(
                "{} differ from libvirt {}; run codegen without --check",
                stale.join(", "),
                model.version
            );
        }
        Ok(())
    }
}
