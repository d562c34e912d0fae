//! The systemd unit, as systemd itself judges it.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::{fs as unix, net::UnixDatagram, process::CommandExt as _},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::{provider, read, root, run, skip};

const UNIT: &str = "images/systemd/libvirt-provider.service";

/// Whether the program is there.
fn there(program: &str, package: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok();
    if !found {
        skip("unit", &format!("{program} is missing (install {package})"));
    }
    found
}

/// The values of a key, in the order of the file.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .collect()
}

#[test]
fn systemd_finds_no_mistake_in_it() {
    if !there("systemd-analyze", "systemd") {
        return;
    }
    // The program is not installed here; any other stands for it.
    let folder = TempDir::new().unwrap();
    let copy = folder.path().join("libvirt-provider.service");
    fs::write(
        &copy,
        read(UNIT).replace("/usr/local/bin/libvirt-provider", "/bin/true"),
    )
    .unwrap();
    let said = run(Command::new("systemd-analyze")
        .arg("verify")
        .arg(&copy)
        .stderr(Stdio::piped()));
    assert_eq!(said.as_deref(), Ok(""));
    fs::write(&copy, read(UNIT).replace("DynamicUser=", "DynamikUser=")).unwrap();
    let output = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&copy)
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("DynamikUser"),
        "{output:?}"
    );
}

#[test]
fn its_exposure_is_at_most_two_of_ten() {
    if !there("systemd-analyze", "systemd") {
        return;
    }
    let judged = run(Command::new("systemd-analyze")
        .args(["security", "--offline=yes", "--threshold=20", "--no-pager"])
        .arg(root().join(UNIT)));
    judged.unwrap_or_else(|said| panic!("{said}"));
}

#[test]
fn what_it_says_is_what_the_program_does() {
    let unit = read(UNIT);
    assert_eq!(values(&unit, "Type"), ["notify"]);
    assert_eq!(
        values(&unit, "RestartPreventExitStatus"),
        ["64"],
        "a mistake in the configuration"
    );
    let state = values(&unit, "StateDirectory")[0];
    let start = values(&unit, "ExecStart")[0];
    assert!(start.contains(&format!("--state=/var/lib/{state}/")), "{start}");
}

/// The system calls that a filter lets through, groups taken apart.
fn allowed(filters: &[&str]) -> BTreeSet<String> {
    let mut calls = BTreeSet::new();
    for filter in filters {
        let (denied, names) = match filter.strip_prefix('~') {
            Some(names) => (true, names),
            None => (false, *filter),
        };
        for name in names.split_whitespace() {
            for call in members(name) {
                if denied {
                    calls.remove(&call);
                } else {
                    calls.insert(call);
                }
            }
        }
    }
    calls
}

fn members(name: &str) -> Vec<String> {
    if !name.starts_with('@') {
        return vec![name.to_owned()];
    }
    let listed = run(Command::new("systemd-analyze").args(["syscall-filter", name])).unwrap();
    let names = listed.lines().skip(1).map(str::trim);
    let names = names.filter(|name| !name.is_empty() && !name.starts_with('#'));
    names.flat_map(members).collect()
}

/// The names of the system calls in what strace wrote.
fn made(trace: &str) -> BTreeSet<String> {
    let names = trace.lines().filter_map(|line| {
        let line = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        let (name, _) = line.split_once('(')?;
        let plain = name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        plain.then(|| name.to_owned())
    });
    names.collect()
}

/// Runs the provider as systemd would, from start over a reload to its end, and waits to be told of each.
fn live(provider: &Path, folder: &Path, trace: &Path) {
    let socket = folder.join("notify");
    let systemd = UnixDatagram::bind(&socket).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(trace).arg(provider);
    command
        .args([
            "serve",
            "--use-fake-backend",
            "--addr=127.0.0.1:0",
            "--metrics-addr=127.0.0.1:0",
        ])
        .arg(format!("--state={}", folder.join("state.db").display()))
        .env("NOTIFY_SOCKET", &socket)
        .env("WATCHDOG_USEC", "1000000")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if rustix::process::geteuid().is_root() {
        // Root does more than the service ever may, such as giving files away.
        for path in [folder, &socket] {
            unix::chown(path, Some(65_532), Some(65_532)).unwrap();
        }
        command.uid(65_532).gid(65_532);
    }
    let mut strace = command.spawn().unwrap();
    let mut told: Vec<String> = Vec::new();
    let mut told_until = |wanted: &str| {
        let mut buffer = [0; 4096];
        while !told.iter().any(|line| line == wanted) {
            let length = systemd
                .recv(&mut buffer)
                .unwrap_or_else(|error| panic!("no {wanted}: {error}; {told:?}"));
            told.extend(String::from_utf8_lossy(&buffer[..length]).lines().map(str::to_owned));
        }
    };
    told_until("READY=1");
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", strace.id())).unwrap();
    let pid: i32 = children.split_whitespace().next().unwrap().parse().unwrap();
    let signal = |signal| kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    told_until("WATCHDOG=1");
    // What `ExecReload` sends.
    signal(Signal::HUP);
    told_until("RELOADING=1");
    signal(Signal::TERM);
    told_until("STOPPING=1");
    assert!(strace.wait().unwrap().success());
}

#[test]
fn the_program_makes_no_system_call_that_the_unit_forbids_and_tells_systemd_where_it_is() {
    let Some(provider) = provider() else { return };
    if !there("systemd-analyze", "systemd") || !there("strace", "strace") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("trace");
    live(&provider, folder.path(), &trace);
    let made = made(&fs::read_to_string(&trace).unwrap());
    assert!(made.contains("accept4") || made.contains("epoll_wait"), "{made:?}");
    let allowed = allowed(&values(&read(UNIT), "SystemCallFilter"));
    assert!(
        !allowed.contains("mount") && allowed.contains("fdatasync"),
        "{allowed:?}"
    );
    let forbidden: Vec<_> = made.difference(&allowed).collect();
    assert!(forbidden.is_empty(), "{forbidden:?}");
}
