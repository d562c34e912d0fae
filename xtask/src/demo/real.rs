//! The demo on real libvirt hosts, with machines that boot.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

use super::{serve, walk};
use crate::{
    interrupt,
    lab::{self, Host, Image, Lab},
    workspace,
};

/// Seconds until the walk is given up: emulated guests on a busy machine boot in minutes.
const LIMIT: u32 = 900;
/// Seconds a machine stays CONFIGURED after all are.
const HOLD: u32 = 2;
/// The last lines of a log that tell what went wrong.
const TAIL: usize = 20;

/// Runs it from packages to nothing. Whatever happens, no host is left.
pub(super) fn run(folder: &Path, log: &Path, hosts: u32, machines: u32) -> Result<()> {
    lab::prepare()?;
    let image = Image::Tiny.ensure()?;
    // Not that of `cargo xtask lab`, on which somebody may be working.
    let lab = Lab::bound(workspace::target().join("lab-demo"));
    interrupt::defer()?;
    // Left by a demo that was killed.
    lab.down()?;
    let outcome = on_lab(&lab, &image, folder, log, hosts, machines);
    // Who interrupts it knows why.
    if outcome.is_err() && interrupt::check().is_ok() {
        tail(log);
        keep_logs(&lab, folder);
    }
    let down = lab.down().context("taking the lab down");
    match (outcome, down) {
        (Ok(()), Ok(_)) => {
            println!("all hosts are down");
            Ok(())
        }
        (Err(error), Err(also)) => bail!("{error:#}; and then, {also:#}"),
        (Err(error), Ok(_)) | (Ok(()), Err(error)) => Err(error),
    }
}

fn on_lab(lab: &Lab, image: &Path, folder: &Path, log: &Path, hosts: u32, machines: u32) -> Result<()> {
    let hosts = lab.up(hosts, image)?;
    for host in &hosts {
        println!("{} is zone {}: {}", host.name(), host.zone(), host.uri());
    }
    let mut arguments = lab::arguments(&hosts, machines);
    arguments.push(format!("--transition-timeout={LIMIT}s"));
    let more = [
        format!("--limit={LIMIT}"),
        format!("--hold={HOLD}"),
        format!("--inspect={}", listing(&hosts)),
    ];
    serve(folder, log, &arguments, |address| walk(address, machines, &more))?;
    println!();
    let image = image.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut left = Vec::new();
    for host in &hosts {
        println!(
            "{} at the end:\n{}\n",
            host.name(),
            host.virsh_table(&["list", "--all"])?
        );
        let of_host = |what: &str, names: Vec<String>| {
            let others = names.into_iter().filter(|name| name != image);
            others
                .map(|name| format!("{what} `{name}` on {}", host.name()))
                .collect::<Vec<_>>()
        };
        left.extend(of_host("domain", host.domains()?));
        left.extend(of_host("volume", host.volumes()?));
    }
    if !left.is_empty() {
        bail!("this is left: {}", left.join(", "));
    }
    println!("no domain is left, and no volume but {image}");
    Ok(())
}

/// A shell command that shows what each host has.
fn listing(hosts: &[Host]) -> String {
    let show = |host: &Host| {
        let uri = lab::quoted(&host.uri());
        format!("echo '{}:' && virsh -c {uri} list --all", host.name())
    };
    hosts.iter().map(show).collect::<Vec<_>>().join(" && ")
}

fn tail(log: &Path) {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    for line in lines.iter().skip(lines.len().saturating_sub(TAIL)) {
        eprintln!("  {line}");
    }
}

/// Saves what the hosts and the guests' consoles said.
fn keep_logs(lab: &Lab, folder: &Path) {
    for host in lab.hosts().unwrap_or_default() {
        let kept = folder.join(format!("{}-log", host.name()));
        match fs::rename(host.logs(), &kept) {
            Ok(()) => eprintln!("the logs of {} and its guests are in {}", host.name(), kept.display()),
            Err(error) => eprintln!("the logs of {} are lost: {error}", host.name()),
        }
    }
}
