//! Running other programs.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt::Write as _,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::workspace;

/// The cargo that runs us, at the workspace's root.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace::root());
    without_package(&mut command);
    command
}

/// `cargo run` describes the package it runs in variables that build scripts watch. Passed on, they would make an inner
/// cargo build ring again each time, so they are taken out.
pub(crate) fn without_package(command: &mut Command) -> &mut Command {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(describes_a_package) {
            command.env_remove(name);
        }
    }
    command
}

fn describes_a_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_")
        || variable.starts_with("CARGO_MANIFEST_")
        || matches!(
            variable,
            "CARGO_BIN_NAME" | "CARGO_CRATE_NAME" | "CARGO_PRIMARY_PACKAGE"
        )
}

/// A program that the kernel ends with us, however we end: nothing else is left to do it after SIGKILL. Only our first
/// thread may start it. Where `setpriv` is missing it is the program alone.
pub(crate) fn bound(program: impl AsRef<OsStr>) -> Command {
    if !answers(Command::new("setpriv").arg("--version")) {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Whether the program can be started and answers without an error.
pub(crate) fn answers(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs the program in sight of the user.
///
/// # Errors
/// When it cannot be started or fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = announce(command);
    let status = command.status().with_context(|| format!("starting `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Runs the program in sight of the user, hands every line of its output to `watch`, and tells whether it succeeded.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn watch(command: &mut Command, mut watch: impl FnMut(&str)) -> Result<bool> {
    let line = announce(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting `{line}`"))?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line?;
            println!("{line}");
            watch(&line);
        }
    }
    Ok(child.wait()?.success())
}

fn announce(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let mut line = name.to_string_lossy().into_owned();
    for argument in command.get_args() {
        let _ = write!(line, " {}", argument.to_string_lossy());
    }
    eprintln!("$ {line}");
    line
}

#[cfg(test)]
mod tests {
    use std::{
        fs, thread,
        time::{Duration, Instant},
    };

    use super::*;

    #[test]
    fn a_bound_program_is_the_program_itself() {
        let mut child = bound("cat").stdin(Stdio::piped()).spawn().unwrap();
        let name = format!("/proc/{}/comm", child.id());
        // It becomes it: what is sent to it meets nobody in between.
        let deadline = Instant::now() + Duration::from_secs(60);
        while fs::read_to_string(&name).unwrap() != "cat\n" {
            assert!(Instant::now() < deadline, "it never became it");
            thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_bound_program_ends_with_the_one_that_started_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!(
            "setpriv --pdeathsig KILL -- sh -c 'echo $$ >{0}.part; mv {0}.part {0}; exec sleep 1000' & wait",
            file.display()
        );
        let mut parent = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let until = |what: &str, holds: &dyn Fn() -> bool| {
            while !holds() {
                assert!(Instant::now() < deadline, "in vain: {what}");
                thread::sleep(Duration::from_millis(5));
            }
        };
        until("it runs", &|| file.exists());
        let pid = fs::read_to_string(&file).unwrap();
        parent.kill().unwrap();
        parent.wait().unwrap();
        let state = format!("/proc/{}/stat", pid.trim());
        until("it has ended", &|| {
            fs::read_to_string(&state).map_or(true, |stat| stat.contains(") Z "))
        });
    }

    #[test]
    fn only_what_describes_a_package_is_taken_out() {
        for name in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "CARGO_BIN_NAME"] {
            assert!(describes_a_package(name), "{name}");
        }
        for name in ["CARGO_TARGET_DIR", "CARGO_HOME", "CARGO_INCREMENTAL", "PATH"] {
            assert!(!describes_a_package(name), "{name}");
        }
    }
}
