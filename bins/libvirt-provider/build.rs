//! What the binary knows of its own making. Commit and date come from the environment of the build, because a source
//! package has no repository to ask; `-dirty` after the commit says that the tree was not as committed.

#![allow(clippy::print_stdout, reason = "how a build script speaks")]

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let given = |name: &str| {
        println!("cargo::rerun-if-env-changed={name}");
        std::env::var(name).ok()
    };
    let tell = |name: &str, value: Option<String>| {
        let value = value.unwrap_or_else(|| "unknown".to_owned());
        println!("cargo::rustc-env=LIBVIRT_PROVIDER_{name}={value}");
    };
    tell("REVISION", given("BUILD_REVISION"));
    tell("DATE", given("BUILD_DATE"));
    tell("TARGET", std::env::var("TARGET").ok());
    tell("PROFILE", std::env::var("PROFILE").ok());
    tell("RUSTC", compiler());
}

/// The version of the compiler, such as `1.95.0`.
fn compiler() -> Option<String> {
    let output = Command::new(std::env::var_os("RUSTC")?)
        .arg("--version")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_whitespace().nth(1).map(str::to_owned)
}
