//! `cargo xtask image`: the static binary that goes into the provider's image.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use ring::digest::{SHA256, digest};

use crate::{
    packages::{self, Package},
    process, workspace,
};

const PROVIDER: &str = "libvirt-provider";
const CARGO: &str = "images/provider/cargo";

const PACKAGES: &[Package] = &[("musl-gcc", "musl-tools")];

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// As it is released; without it, as tests run it, which is built far sooner
    #[arg(long)]
    release: bool,
    /// Build it twice, in two folders, from what the image is built from, and compare
    #[arg(long)]
    check: bool,
}

/// Builds it, and says where it is.
///
/// # Errors
/// When it cannot be built, or with `check` when two builds differ.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let profile = if arguments.release { "release" } else { "image" };
    if arguments.check {
        return check(profile);
    }
    println!("{}", ensure(profile)?.display());
    Ok(())
}

/// Where it is once it is built.
pub(crate) fn path() -> PathBuf {
    workspace::target().join("static").join(PROVIDER)
}

/// Builds the one that tests run.
///
/// # Errors
/// When the target, a compiler for it or the build is not to be had.
pub(crate) fn for_tests() -> Result<PathBuf> {
    ensure("image")
}

fn ensure(profile: &str) -> Result<PathBuf> {
    prepare()?;
    let built = build(&workspace::root(), profile)?;
    install(&built, &path())?;
    Ok(path())
}

/// Installs the target and its compiler for C.
fn prepare() -> Result<()> {
    packages::install(PACKAGES, &[])?;
    process::run(Command::new("rustup").args(["--quiet", "target", "add", &target()]))
}

fn target() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Builds it in a copy of the workspace, and answers where it is.
fn build(root: &Path, profile: &str) -> Result<PathBuf> {
    let out = if root == workspace::root() {
        workspace::target()
    } else {
        root.join("target")
    };
    let mut command = Command::new(root.join(CARGO));
    command
        .args(["build", "--quiet", "--profile", profile, "--package", PROVIDER])
        .current_dir(root)
        .env("CARGO_TARGET_DIR", &out);
    process::run(process::without_package(&mut command))?;
    Ok(out.join(target()).join(profile).join(PROVIDER))
}

fn install(built: &Path, place: &Path) -> Result<()> {
    let folder = place.parent().unwrap_or(place);
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    // Another name first: the old one may be running.
    let fresh = place.with_extension("fresh");
    fs::copy(built, &fresh).with_context(|| format!("copying {}", built.display()))?;
    fs::rename(&fresh, place).with_context(|| format!("writing {}", place.display()))
}

fn check(profile: &str) -> Result<()> {
    prepare()?;
    let files = context()?;
    let work = workspace::target().join("static");
    let mut hashes = Vec::new();
    // Names of different lengths, so that a path that gets into the binary cannot hide.
    for name in ["one", "another"] {
        let root = work.join(name);
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| format!("removing {}", root.display()))?;
        }
        for file in &files {
            let to = root.join(file);
            fs::create_dir_all(to.parent().unwrap_or(&root))?;
            fs::copy(workspace::root().join(file), &to).with_context(|| format!("copying {file}"))?;
        }
        let binary = fs::read(build(&root, profile)?)?;
        let hash = digest(&SHA256, &binary);
        let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        println!("{hash}  {} bytes, built in {}", binary.len(), root.display());
        fs::remove_dir_all(&root).with_context(|| format!("removing {}", root.display()))?;
        hashes.push(hash);
    }
    hashes.dedup();
    ensure!(
        hashes.len() == 1,
        "the two differ; something of the folder or the time got into the binary"
    );
    Ok(())
}

/// The files that `docker build` is given: what the list of ignored ones takes back.
fn context() -> Result<Vec<String>> {
    let list = workspace::root().join("images/provider/Dockerfile.dockerignore");
    let list = fs::read_to_string(&list).with_context(|| format!("reading {}", list.display()))?;
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "--"])
        .args(list.lines().filter_map(|line| line.strip_prefix('!')))
        .current_dir(workspace::root());
    let output = git.output().context("starting git")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}
