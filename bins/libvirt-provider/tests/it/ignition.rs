//! Configurations for Ignition, as Ignition itself reads them (field report F53). How they get into a guest is in
//! libvirt-backend's live tests.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;
use tempfile::TempDir;

use crate::{harness::Run, unpacked::unpacked};

/// Where the package has it: it runs in the initramfs alone.
const PROGRAM: &str = "usr/lib/dracut/modules.d/30ignition/ignition";
const MACHINE: &str = "libvirt-local-kvm.small-001";

/// Ignition, as Debian has it.
fn ignition(test: &str) -> Option<PathBuf> {
    Some(unpacked(test, "ignition", &["ignition"])?.join(PROGRAM))
}

fn seed(folder: &Path, configuration: &str) -> Run {
    let user_data = folder.join("user-data");
    fs::write(&user_data, configuration).unwrap();
    Run::of(&["seed", "--connect=qemu:///system", "--image=i", "--machine", MACHINE])
        .flag("--set", "machine.user_data_format=ignition")
        .flag("--base-user-data", &user_data)
        .flag("-o", folder.join("machine.ign"))
}

/// The machine's own configuration, applied to an empty root.
fn applied(program: &Path, folder: &Path, configuration: &str) -> PathBuf {
    seed(folder, configuration).ok();
    let root = folder.join("root");
    fs::create_dir_all(&root).unwrap();
    for stage in ["fetch-offline", "files"] {
        let run = Command::new(program)
            .env("IGNITION_CONFIG_FILE", folder.join("machine.ign"))
            .args(["-platform", "file", "-log-to-stdout", "-stage", stage, "-root"])
            .arg(&root)
            .arg("-config-cache")
            .arg(folder.join("cache.json"))
            .arg("-state-file")
            .arg(folder.join("state"))
            .arg("-neednet")
            .arg(folder.join("neednet"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        // Debian's build closes with SELinux's labels, for which this root has no policy; all else is done by then.
        let labels = said.contains("CRITICAL : Ignition failed: failed to handle relabeling");
        assert!(run.status.success() || labels, "{stage}: {said}");
    }
    root
}

#[test]
fn ignition_applies_the_machines_name_and_all_that_the_operator_wants() {
    let Some(program) = ignition("ignition_applies_the_machines_name_and_all_that_the_operator_wants") else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let bootstrap = "#!/bin/sh\nexec /opt/bin/join \"$1\"\n";
    let configuration = json!({
        "ignition": {"version": "3.3.0"},
        "storage": {"files": [{
            "path": "/opt/bigfleet/bootstrap",
            "mode": 0o755,
            "contents": {"source": "data:,%23%21%2Fbin%2Fsh%0Aexec%20%2Fopt%2Fbin%2Fjoin%20%22%241%22%0A"},
        }]},
    });
    let root = applied(&program, folder.path(), &configuration.to_string());
    let name = fs::read_to_string(root.join("etc/hostname")).unwrap();
    assert!(
        name.starts_with("bf-libvirt-local-kvm-small-001-") && name.ends_with('\n'),
        "{name:?}"
    );
    assert_eq!(
        fs::read_to_string(root.join("opt/bigfleet/bootstrap")).unwrap(),
        bootstrap
    );
}

#[test]
fn an_operators_own_host_name_holds() {
    let Some(program) = ignition("an_operators_own_host_name_holds") else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let configuration = json!({
        "ignition": {"version": "3.0.0"},
        "storage": {"files": [{"path": "/etc/hostname", "contents": {"source": "data:,theirs%0A"}}]},
    });
    let root = applied(&program, folder.path(), &configuration.to_string());
    assert_eq!(fs::read_to_string(root.join("etc/hostname")).unwrap(), "theirs\n");
}

#[test]
fn what_ignition_would_refuse_at_boot_is_refused_at_start() {
    let folder = TempDir::new().unwrap();
    let small = r#"{"ignition": {"version": "3.0.0"}}"#;
    let secret = r#"{"ignition": {"version": "3.0.0"}, "storage": {"files": [{"path": "/t", "contents":
        {"source": "data:,token%3Dabcdef"}}]}}"#;
    for (configuration, more, said) in [
        ("#cloud-config\n{}\n", "", "so it is no configuration for Ignition"),
        (r#"{"ignition": {"version": "2.3.0"}}"#, "", "must be of version 3"),
        (
            secret,
            "",
            "/storage/files/0/contents/source, line 1: a token (`token`)",
        ),
        (
            small,
            "guest.delivery=seed",
            "`guest.delivery` is `seed`, which needs cloud-init",
        ),
    ] {
        let run = seed(folder.path(), configuration);
        let run = if more.is_empty() { run } else { run.flag("--set", more) };
        let end = run.end();
        assert!(end.code == 64 && end.err.contains(said), "{configuration}: {}", end.err);
    }
}
