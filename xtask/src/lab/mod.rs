//! `cargo xtask lab`: private libvirt hosts on this machine, with a golden image in their pools.

mod host;
mod image;
mod pid;
mod serve;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};

use crate::{
    packages::{self, Package},
    workspace,
};

pub(crate) use self::{
    host::{Host, Power},
    image::Image,
    serve::{arguments, quoted},
};

#[derive(Debug, Subcommand)]
pub(crate) enum What {
    /// Build a golden image, unless it is there
    Image(image::Arguments),
    /// Start hosts, each in namespaces of its own, and say how to serve them
    Up(Up),
    /// End all hosts and remove everything they kept
    Down,
    /// Show every host, its domains and its volumes
    Status,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// How many; those that run go on running
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    hosts: u32,
}

/// What a host is made of.
pub(crate) const PACKAGES: &[Package] = &[
    ("libvirtd", "libvirt-daemon-system"),
    (
        "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so",
        "libvirt-daemon-driver-qemu",
    ),
    ("virsh", "libvirt-clients"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("qemu-img", "qemu-utils"),
    ("dnsmasq", "dnsmasq-base"),
    ("iptables", "iptables"),
    ("ip", "iproute2"),
];

/// Does it.
///
/// # Errors
/// When it cannot be done; what runs by then goes on running.
pub(crate) fn run(what: &What) -> Result<()> {
    let lab = Lab::new(workspace::target().join("lab"));
    match what {
        What::Image(arguments) => image::run(arguments),
        What::Up(Up { hosts }) => {
            prepare()?;
            let hosts = lab.up(*hosts, &Image::Tiny.ensure()?)?;
            serve::explain(&lab.folder, &hosts);
            Ok(())
        }
        What::Down => {
            let hosts = match lab.down()? {
                0 => "there was no host".to_owned(),
                1 => "1 host is down".to_owned(),
                count => format!("{count} hosts are down"),
            };
            println!("{hosts}; {} is gone", lab.folder.display());
            Ok(())
        }
        What::Status => status(&lab),
    }
}

/// Sees to it that hosts can be started here.
///
/// # Errors
/// When they cannot, with the reason.
pub(crate) fn prepare() -> Result<()> {
    packages::install(PACKAGES, &[])?;
    ensure!(
        rustix::process::geteuid().is_root(),
        "a host needs namespaces, bridges and mounts; run this as root"
    );
    Ok(())
}

/// Hosts that share a folder.
#[derive(Debug)]
pub(crate) struct Lab {
    folder: PathBuf,
    bound: bool,
}

impl Lab {
    /// Hosts that go on when we have ended.
    pub(crate) const fn new(folder: PathBuf) -> Self {
        Self { folder, bound: false }
    }

    /// Hosts that lose their power with us, however we end.
    pub(crate) const fn bound(folder: PathBuf) -> Self {
        Self { folder, bound: true }
    }

    /// Every host there is, by number.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(crate) fn hosts(&self) -> Result<Vec<Host>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| format!("reading {}", self.folder.display())),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_prefix("host-")?.parse::<u32>().ok());
            numbers.extend(number);
        }
        numbers.sort_unstable();
        Ok(numbers.iter().map(|number| Host::new(&self.folder, *number)).collect())
    }

    /// Sees to it that there are so many hosts, that all hosts run, and that the image is in their pools.
    ///
    /// # Errors
    /// When one does not start.
    pub(crate) fn up(&self, count: u32, image: &Path) -> Result<Vec<Host>> {
        for number in 1..=count {
            Host::new(&self.folder, number).start(image, self.bound)?;
        }
        let hosts = self.hosts()?;
        for host in &hosts {
            host.start(image, self.bound)?;
        }
        hosts.iter().try_for_each(Host::wait)?;
        Ok(hosts)
    }

    /// Ends all hosts, removes the folder, and tells how many there were.
    ///
    /// # Errors
    /// When a host does not end; the folder stays then.
    pub(crate) fn down(&self) -> Result<usize> {
        let hosts = self.hosts()?;
        let problems: Vec<String> = hosts
            .iter()
            .filter_map(|host| host.stop().err().map(|error| format!("{}: {error:#}", host.name())))
            .collect();
        if !problems.is_empty() {
            bail!("not all hosts are down: {}", problems.join("; "));
        }
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {}", self.folder.display()))
            }
            _ => Ok(hosts.len()),
        }
    }
}

fn status(lab: &Lab) -> Result<()> {
    let hosts = lab.hosts()?;
    if hosts.is_empty() {
        println!("there is no lab; `cargo xtask lab up` makes one");
    }
    for host in &hosts {
        let power = host.power()?;
        let state = match power {
            Power::On => "up",
            Power::Starting => "starting",
            Power::Off => "down; `cargo xtask lab up` boots it",
        };
        println!("{}  {}  {}  {state}", host.name(), host.zone(), host.uri());
        if power == Power::On {
            // A host that does not answer is no reason to say nothing of the others.
            match host.virsh(&["list", "--all"]) {
                Ok(list) => println!("  domains: {}", indented(&list)),
                Err(error) => println!("  domains: unknown: {error:#}"),
            }
            match host.volumes() {
                Ok(names) => println!("  volumes: {}", indented(&names.join("\n"))),
                Err(error) => println!("  volumes: unknown: {error:#}"),
            }
        }
    }
    Ok(())
}

fn indented(text: &str) -> String {
    match text.trim() {
        "" => "none".to_owned(),
        text => text.lines().map(|line| format!("\n    {}", line.trim())).collect(),
    }
}
