//! `console`: what a machine writes to its serial port, from now on until it stops. Nothing is typed into it.

use std::io::{self, Write as _};

use providerkit::MachineId;

use super::{Exit, Failure, in_runtime, libvirt, settings};
use crate::cli::Flags;

pub(super) fn run(flags: &Flags, machine: &str, force: bool) -> Result<Exit, Failure> {
    let settings = libvirt(settings(flags)?)?;
    let machine = MachineId::new(machine).map_err(Failure::usage)?;
    in_runtime(async {
        let opened = libvirt_backend::Serial::open(&settings, &machine, force).await;
        let mut serial = opened.map_err(Failure::unavailable)?;
        while let Some(text) = serial.next().await.map_err(Failure::unavailable)? {
            let mut out = io::stdout().lock();
            out.write_all(&text)?;
            out.flush()?;
        }
        Ok(Exit::Success)
    })
}
