//! Debian packages that tests, benchmarks and the lab need beside Rust.

use std::{
    collections::BTreeSet,
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{process, workspace};

/// A program or a file with its whole path, and the package it comes in.
pub(crate) type Package = (&'static str, &'static str);

/// Installs what is missing of `wanted`, and then `with_them` too, which are recognised by nothing.
///
/// # Errors
/// Names what is missing and cannot be installed.
pub(crate) fn install(wanted: &[Package], with_them: &[&str]) -> Result<()> {
    let missing = wanted.iter().filter(|(sign, _)| !is_there(sign));
    let missing: BTreeSet<&str> = missing.map(|(_, name)| *name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.iter().copied().collect::<Vec<_>>().join(" ");
    if !is_there("apt-get") || !rustix::process::geteuid().is_root() {
        bail!("{list} missing; install them, or run this as root on Debian");
    }
    eprintln!("installing {list}");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new(workspace::root().join("xtask/src/apt.sh"));
        command
            .args(["-qq", "-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=300"])
            .args(arguments);
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("RUNLEVEL", "1")
            .stdout(Stdio::null());
        process::run(&mut command)
    };
    // Of the release, and also where a newer one is installed: QEMU and its tools are of one version or in conflict.
    let tools = codename().map_or_else(|| "qemu-utils".to_owned(), |release| format!("qemu-utils/{release}"));
    let mut install = vec!["install", "--yes", "--no-install-recommends", "--allow-downgrades"];
    if missing.iter().any(|name| name.starts_with("qemu")) {
        install.push(&tools);
    }
    install.extend(missing.iter().filter(|name| **name != "qemu-utils"));
    install.extend(with_them);
    apt(&["update"])
        .and_then(|()| apt(&install))
        .with_context(|| format!("installing {list}"))
}

/// Debian's name of the running release.
fn codename() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="))?;
    Some(name.trim_matches('"').to_owned())
}

fn is_there(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).to_owned()));
    folders.iter().any(|folder| folder.join(program).exists())
}
