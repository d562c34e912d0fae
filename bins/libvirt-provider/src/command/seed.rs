//! `seed`: the cloud-init image of a machine, to look at or to boot a guest with by hand. No host is asked.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use anyhow::Context as _;
use providerkit::{MachineId, OperationId};

use super::{Exit, Failure, libvirt, settings};
use crate::cli::Flags;

pub(super) fn run(flags: &Flags, machine: &str, operation: Option<&str>, file: &Path) -> Result<Exit, Failure> {
    let settings = libvirt(settings(flags)?)?;
    let machine = MachineId::new(machine).map_err(Failure::usage)?;
    let operation = match operation {
        None => OperationId::mint(),
        Some(text) => {
            let parsed = text.parse::<OperationId>();
            parsed
                .with_context(|| format!("--operation `{text}` is no id of an operation"))
                .map_err(Failure::usage)?
        }
    };
    let seed = libvirt_backend::seed(settings, &machine, operation).map_err(Failure::usage)?;
    fs::write(file, &seed)
        .with_context(|| format!("`{}` cannot be written", file.display()))
        .map_err(Failure::internal)?;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{}: {} bytes, for machine {machine} made by operation {operation}",
        file.display(),
        seed.len()
    )?;
    Ok(Exit::Success)
}
