//! What the binary knows of its own making. The commit comes from the environment of the build, because a source
//! package has no repository to ask.

#![allow(clippy::print_stdout, reason = "how a build script speaks")]

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=BUILD_REVISION");
    let revision = std::env::var("BUILD_REVISION").unwrap_or_else(|_| "unknown".to_owned());
    println!("cargo::rustc-env=LIBVIRT_PROVIDER_REVISION={revision}");
    let compiler = compiler().unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=LIBVIRT_PROVIDER_RUSTC={compiler}");
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
