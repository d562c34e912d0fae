//! The static binary as its image runs it: in a root that holds nothing else and cannot be written to, as nobody in
//! particular.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use bigfleet_proto::MachineState as S;
use tempfile::TempDir;

use crate::harness::{Binding, Launch};

/// Where the one that `cargo xtask image` has built may be instead of where it usually is.
const BINARY: &str = "LIBVIRT_PROVIDER_IMAGE_BINARY";
const UID: &str = "65532";

/// The command that starts it, unless it is missing here.
fn as_in_the_image(test: &str, state: &Path) -> Option<Vec<OsString>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let usual = root.join("target/static/libvirt-provider");
    let binary = env::var_os(BINARY).map_or(usual, PathBuf::from);
    let missing = if !binary.exists() {
        Some("the static binary is missing (cargo xtask image)")
    } else if !rustix::process::geteuid().is_root() {
        Some("a root of its own takes root (run as root)")
    } else {
        None
    };
    if let Some(missing) = missing {
        eprintln!("SKIPPED {test}: {missing}");
        assert!(env::var_os("CI").is_none(), "where CI is set, all must run");
        return None;
    }
    let run = root.join("images/provider/run").into_os_string();
    Some(vec![run, binary.into(), state.as_os_str().to_owned()])
}

/// A line of `/proc/PID/status`.
fn status(pid: u32, key: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap().split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn the_static_binary_serves_from_an_empty_read_only_root_and_keeps_its_state() {
    let state = TempDir::new().unwrap();
    let test = "the_static_binary_serves_from_an_empty_read_only_root_and_keeps_its_state";
    let Some(program) = as_in_the_image(test, state.path()) else {
        return;
    };
    let launch = Launch::on("/var/lib/libvirt-provider/state.db").program(program.clone());
    let provider = launch.start().await;
    let pid = provider.pid();
    assert_eq!(status(pid, "Uid"), [UID; 4]);
    assert_eq!(status(pid, "Gid"), [UID; 4]);
    assert!(status(pid, "Groups").is_empty());
    assert_eq!(status(pid, "CapEff"), ["0000000000000000"]);
    assert_eq!(status(pid, "CapBnd").len(), 1);
    assert_eq!(status(pid, "NoNewPrivs"), ["1"]);
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    let mount = |place: &str| {
        let line = mounts.lines().find(|line| line.split(' ').nth(4) == Some(place));
        line.unwrap_or_else(|| panic!("{place} is no mount:\n{mounts}"))
            .to_owned()
    };
    assert!(mount("/").contains(" ro,"), "{mounts}");
    assert!(mount("/var/lib/libvirt-provider").contains(" rw,"), "{mounts}");

    let binding = Binding::to("kept").blob("join kept");
    let id = provider.configured(&binding).await;
    let before = provider.get(&id).await;
    let provider = provider.restart().await;
    assert_eq!(provider.get(&id).await, before);
    assert_eq!(provider.state(&id).await, S::Configured);

    // What the image's HEALTHCHECK does.
    let probe = |address: String| {
        let mut command = Command::new(&program[0]);
        let output = command
            .args(&program[1..])
            .args(["probe", &format!("--addr={address}")])
            .output();
        output.unwrap()
    };
    let healthy = probe(provider.address().to_string());
    assert!(healthy.status.success(), "{healthy:?}");
    let address = provider.address().to_string();
    let (exit, _) = provider.terminate().await;
    assert_eq!(exit.code(), Some(0));
    assert!(!probe(address).status.success(), "nobody is left to answer");
    let kept: Vec<_> = fs::read_dir(state.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(kept.contains(&"state.db".into()), "{kept:?}");
}
