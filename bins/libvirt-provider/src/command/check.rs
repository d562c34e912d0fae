//! `check`: whether the configuration is right, and what would be served. Nothing outside this machine's files is asked.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
};

use super::{Exit, Failure, settings};
use crate::{
    cli::Flags,
    config::{Settings, Substrate},
};

pub(super) fn run(flags: &Flags) -> Result<Exit, Failure> {
    let settings = settings(flags)?;
    let mut out = io::stdout().lock();
    writeln!(out, "the configuration is right; this would be served:")?;
    for (what, value) in summary(&settings) {
        writeln!(out, "  {what:9} {value}")?;
    }
    Ok(Exit::Success)
}

fn summary(settings: &Settings) -> Vec<(&'static str, String)> {
    let runtime = &settings.runtime;
    let tls = match &runtime.listen.tls {
        None => "in plaintext",
        Some(files) if files.ca.is_some() => "over TLS, to clients with a certificate",
        Some(_) => "over TLS",
    };
    let mut lines = vec![
        ("provider", runtime.provider.to_string()),
        ("gRPC", format!("{} {tls}", runtime.listen.address)),
    ];
    lines.push(match &runtime.admin {
        Some(admin) => ("admin", admin.address.to_string()),
        None => ("admin", "nowhere".into()),
    });
    lines.push(match &runtime.state {
        Some(path) => ("state", path.display().to_string()),
        None => (
            "state",
            "in memory: everything is forgotten when the process ends".into(),
        ),
    });
    match &settings.substrate {
        Substrate::Fake(fake) => lines.push(("machines", format!("{} slots on fake hosts", fake.fake.seed_count))),
        Substrate::Libvirt(libvirt) => {
            for (zone, hosts) in &libvirt.zones {
                let names: Vec<_> = hosts.iter().map(|host| host.name.to_string()).collect();
                lines.push(("zone", format!("{zone}: {}", names.join(", "))));
            }
            let mut slots = BTreeMap::<_, u32>::new();
            for offering in &libvirt.offerings {
                let kind = (&*offering.zone, &*offering.instance_type.name);
                *slots.entry(kind).or_default() += offering.count;
            }
            for ((zone, kind), count) in slots {
                lines.push(("slots", format!("{count} of {kind} in zone {zone}")));
            }
            let machine = &libvirt.machine;
            lines.push(("image", format!("{} in pool {}", machine.image, machine.pool)));
        }
    }
    lines
}
