//! Debian packages that the tests' real peers come in.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::process;

/// A program the tests start, and its package.
const PROGRAMS: &[(&str, &str)] = &[
    ("libvirtd", "libvirt-daemon-system"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("qemu-img", "qemu-utils"),
    ("nc", "netcat-openbsd"),
    ("sshd", "openssh-server"),
    ("saslpasswd2", "sasl2-bin"),
];

/// What goes with them and is no program.
const WITH_THEM: &[&str] = &["libvirt-daemon-driver-qemu", "libsasl2-modules"];

/// Installs what is missing, where that can be done. Where it cannot, the tests that need it say so themselves: loudly
/// on a person's machine, as failures in CI.
pub(super) fn install() {
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, _)| !is_there(program))
        .map(|(_, name)| *name)
        .collect();
    if missing.is_empty() {
        return;
    }
    let list = missing.join(" ");
    if !is_there("apt-get") || !rustix::process::geteuid().is_root() {
        eprintln!("*** missing: {list}. Tests against real peers are skipped; install them, or run this as root");
        return;
    }
    eprintln!("installing {list}");
    // Tests start their own daemons; those of the packages would only be in the way.
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-qq", "-o", "Dpkg::Use-Pty=0"]).args(arguments);
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("RUNLEVEL", "1")
            .stdout(Stdio::null());
        process::run(&mut command)
    };
    // Of the release, and also where a newer one is installed: QEMU and its tools are of one version or in conflict.
    let tools = codename().map_or_else(|| "qemu-utils".to_owned(), |release| format!("qemu-utils/{release}"));
    let mut install = vec![
        "install",
        "--yes",
        "--no-install-recommends",
        "--allow-downgrades",
        &tools,
    ];
    install.extend(missing.into_iter().filter(|name| *name != "qemu-utils"));
    install.extend(WITH_THEM);
    let outcome = apt(&["update"]).and_then(|()| apt(&install));
    if let Err(error) = outcome {
        eprintln!("*** {list} cannot be installed: {error:#}");
    }
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
