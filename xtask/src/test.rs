//! `cargo xtask test`: everything that must pass, with one command and one target folder.

mod counts;
mod tools;

use std::{
    env, fs,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    certify, image,
    lab::{self, Image},
    libvirt::sources,
    packages,
    pinned::Pinned,
    process, workspace,
};
use packages::Package;
use tools::Tool;

pub(crate) use counts::Counts;

/// Debian packages that the tests' real peers come in, beside those of the lab and its image.
const PACKAGES: &[Package] = &[
    ("nc", "netcat-openbsd"),
    ("sshd", "openssh-server"),
    ("saslpasswd2", "sasl2-bin"),
    ("xz", "xz-utils"),
    ("isoinfo", "genisoimage"),
    ("xorriso", "xorriso"),
    ("python3", "python3"),
    // For the status page.
    ("chromium", "chromium"),
    // For promtool; its service is not started.
    ("promtool", "prometheus"),
    ("/usr/include/libvirt/libvirt.h", "libvirt-dev"),
    // For the polkit rule of a host.
    ("dbus-daemon", "dbus-daemon"),
    ("gdbus", "libglib2.0-bin"),
    // For the certificates of a host.
    ("certtool", "gnutls-bin"),
    // For the unit.
    ("strace", "strace"),
    ("systemd-analyze", "systemd"),
];

/// What goes with them and is no program.
const WITH_THEM: &[&str] = &["libsasl2-modules"];

/// What the live tests of libvirt-backend need, and where they find it.
const LIVE: [(&str, Made); 3] = [
    ("LIBVIRT_PROVIDER_TINY_IMAGE", Made::Image(Image::Tiny)),
    ("LIBVIRT_PROVIDER_DEBIAN_IMAGE", Made::Image(Image::Debian)),
    ("LIBVIRT_PROVIDER_KUBECTL", Made::Program(Pinned::Kubectl)),
];

/// Something that is made or fetched once.
#[derive(Clone, Copy)]
enum Made {
    Image(Image),
    Program(Pinned),
}

impl Made {
    fn ensure(self) -> Result<PathBuf> {
        match self {
            Self::Image(image) => image.ensure(),
            Self::Program(program) => program.ensure(),
        }
    }

    fn path(self) -> PathBuf {
        match self {
            Self::Image(image) => image.path(),
            Self::Program(program) => program.path(),
        }
    }
}

/// Where those of libvirt-provider find the binary that is put into its image.
const BINARY: &str = "LIBVIRT_PROVIDER_IMAGE_BINARY";

/// Whether nothing may be skipped.
fn everything_must_run() -> bool {
    env::var_os("CI").is_some()
}

/// Runs every check to its end, whatever the others say, and closes with the number of tests.
///
/// # Errors
/// When one of them fails, or with `CI` set when a check or a test cannot run.
pub(crate) fn run() -> Result<()> {
    // Where they cannot be had, the tests that need them say so themselves: loudly on a person's machine, as failures
    // in CI.
    let packages = [PACKAGES, lab::PACKAGES, Image::Tiny.packages()].concat();
    if let Err(error) = packages::install(&packages, WITH_THEM) {
        eprintln!("*** tests against real peers will be skipped: {error:#}");
    }
    // A host takes root, so that nobody else has a use for them.
    if rustix::process::geteuid().is_root() {
        for (_, made) in LIVE {
            if let Err(error) = made.ensure() {
                eprintln!("*** tests on real hosts will be skipped: {error:#}");
            }
        }
    }
    if let Err(error) = sources::fetch() {
        eprintln!("*** tests on libvirt's own sources will be skipped: {error:#}");
    }
    for tool in [Pinned::Helm, Pinned::Hadolint] {
        if let Err(error) = tool.ensure() {
            eprintln!("*** tests with {tool:?} will be skipped: {error:#}");
        }
    }
    if let Err(error) = image::for_tests() {
        eprintln!("*** tests of the provider's image will be skipped: {error:#}");
    }
    let mut checks = Checks::default();
    checks.step("format", Tool::Rustfmt, |_| {
        process::run(&mut process::cargo(["fmt", "--all", "--check"]))
    });
    if Tool::Nextest.is_there() {
        checks.step("tests", Tool::Nextest, nextest);
        checks.step("doc tests", Tool::Cargo, |counts| {
            cargo_test(&["--doc", "--", "--show-output"], counts)
        });
    } else {
        eprintln!("cargo-nextest is not installed; going on with `cargo test`");
        checks.step("tests", Tool::Cargo, |counts| {
            cargo_test(&["--no-fail-fast", "--", "--show-output"], counts)
        });
    }
    checks.step("certify", Tool::Cargo, |_| certify::run(&certify::Arguments::default()));
    if rustix::process::geteuid().is_root() {
        checks.step("certify on guests", Tool::Cargo, |_| {
            certify::run(&certify::Arguments::on_guests())
        });
    } else {
        checks.skip(
            "certify on guests",
            "hosts for guests need root; run `cargo xtask certify --real` as root",
        );
    }
    // Last, because it shares nothing with the builds above but time.
    checks.step("lints", Tool::Clippy, |_| {
        process::run(&mut process::cargo([
            "clippy",
            "--workspace",
            "--all-targets",
            "--keep-going",
            "--",
            "-Dwarnings",
        ]))
    });
    checks.close()
}

fn nextest(counts: &mut Counts) -> Result<()> {
    // Beside the workspace, whatever CARGO_TARGET_DIR says: nextest keeps its store there.
    let report = workspace::root().join("target/nextest/default/junit.xml");
    drop(fs::remove_file(&report));
    let mut command = process::cargo(["nextest", "run", "--workspace"]);
    let outcome = process::run(with_made(&mut command));
    // What does not build leaves no report, and has been told by then.
    let read = fs::read_to_string(&report)
        .with_context(|| format!("reading {}", report.display()))
        .and_then(|text| counts.read_junit(&text));
    outcome.and(read)
}

fn cargo_test(arguments: &[&str], counts: &mut Counts) -> Result<()> {
    let mut command = process::cargo(["test", "--workspace"]);
    with_made(&mut command).args(arguments);
    if !process::watch(&mut command, |line| counts.read(line))? {
        bail!("tests failed");
    }
    Ok(())
}

/// The target folder may be elsewhere than tests can know.
fn with_made(command: &mut Command) -> &mut Command {
    let paths = LIVE.map(|(variable, made)| (variable, made.path()));
    for (variable, path) in paths.into_iter().chain([(BINARY, image::path())]) {
        if env::var_os(variable).is_none() {
            command.env(variable, path);
        }
    }
    command
}

#[derive(Default)]
struct Checks {
    counts: Counts,
    lines: Vec<String>,
    failed: Vec<&'static str>,
}

impl Checks {
    fn step(&mut self, name: &'static str, tool: Tool, check: impl FnOnce(&mut Counts) -> Result<()>) {
        eprintln!("\n=== {name}");
        let begun = Instant::now();
        let outcome = match tool.ensure() {
            Ok(true) => check(&mut self.counts),
            Ok(false) => return self.skip(name, &tool.remedy()),
            Err(missing) => Err(missing),
        };
        let verdict = match outcome {
            Ok(()) => "ok",
            Err(error) => {
                eprintln!("{name}: {error:#}");
                self.failed.push(name);
                "FAILED"
            }
        };
        self.line(name, begun.elapsed(), verdict);
    }

    fn skip(&mut self, name: &'static str, remedy: &str) {
        eprintln!("*** SKIPPED: {name}. {remedy}");
        self.line(name, Duration::ZERO, "SKIPPED");
    }

    fn line(&mut self, name: &str, took: Duration, verdict: &str) {
        self.lines
            .push(format!("{name:<10} {:>6.1} s  {verdict}", took.as_secs_f64()));
    }

    fn close(self) -> Result<()> {
        println!();
        for line in &self.lines {
            println!("{line}");
        }
        println!("\n{}", self.counts);
        if !self.failed.is_empty() {
            bail!("{} failed", self.failed.join(", "));
        }
        if self.counts.passed == 0 {
            bail!("no test ran");
        }
        if self.counts.skipped() > 0 && everything_must_run() {
            bail!("tests were skipped; where CI is set, all must run");
        }
        Ok(())
    }
}
