//! What the tests share.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The workspace's top folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A file of the workspace.
pub(crate) fn read(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Says that a test cannot run; nobody has to be content with that where `CI` is set.
pub(crate) fn skip(what: &str, why: &str) {
    eprintln!("SKIPPED {what}: {why}");
    assert!(env::var_os("CI").is_none(), "where CI is set, all must run");
}

/// A command that must succeed; what it said if it did not.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let Output { status, stdout, stderr } = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let stderr = String::from_utf8_lossy(&stderr);
    if status.success() {
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    } else {
        Err(format!("{stderr}{}", String::from_utf8_lossy(&stdout)))
    }
}

/// A program that xtask installs by itself, unless it cannot be had.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    match run(Command::new(env!("CARGO_BIN_EXE_xtask")).args(["tool", name])) {
        Ok(path) => Some(PathBuf::from(path.trim())),
        Err(why) => {
            let last = why.lines().rev().find(|line| !line.is_empty()).unwrap_or_default();
            skip(
                name,
                &format!("it cannot be installed: {last} (cargo xtask tool {name})"),
            );
            None
        }
    }
}

/// The provider that was built beside us: with the workspace, or by hand.
pub(crate) fn provider() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("libvirt-provider");
    if path.exists() {
        return Some(path);
    }
    skip("libvirt-provider", "it is not built (cargo build -p libvirt-provider)");
    None
}
