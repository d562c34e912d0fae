//! Debian packages, unpacked once and kept with the build; never installed. Tests of other crates include this file.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The root folder of packages, called by the first thing wanted of them. Where they cannot be had, the test says so
/// loudly, and fails in CI.
pub(crate) fn unpacked(test: &str, name: &str, packages: &[&str]) -> Option<PathBuf> {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if kept.exists() {
        return Some(kept);
    }
    let fetched = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let download = Command::new("apt-get")
        .args(["-q", "download"])
        .args(packages)
        .current_dir(&fetched)
        .output();
    let reason = match download {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(reason) = reason {
        assert!(env::var_os("CI").is_none(), "{test} needs the package {name}: {reason}");
        eprintln!("*** SKIPPED {test}: {name} cannot be downloaded (apt-get update?): {reason}");
        return None;
    }
    let root = fetched.path().join("root");
    for entry in fs::read_dir(&fetched).unwrap() {
        let package = entry.unwrap().path();
        let status = Command::new("dpkg").arg("-x").arg(&package).arg(&root).status();
        assert!(status.unwrap().success(), "{}", package.display());
    }
    // Another test may have been faster: then it stays in its way, and is as good.
    if let Err(error) = fs::rename(&root, &kept) {
        assert!(kept.exists(), "{error}");
    }
    Some(kept)
}
