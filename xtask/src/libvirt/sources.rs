//! The libvirt source trees that the generated code is held to.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{process, workspace};

/// Trees of one's own choice instead of those below: `dir:dir`, oldest first.
const VARIABLE: &str = "LIBVIRT_SOURCES";

/// One release as Debian keeps it, and the hash of the archive.
struct Release {
    version: &'static str,
    sha256: &'static str,
}

/// Oldest first: those of Debian 12 and 13.
const RELEASES: [Release; 2] = [
    Release {
        version: "9.0.0",
        sha256: "deca5cff1b7baac297bca9663907c61f71a47183371dc7ac019c107806d5435a",
    },
    Release {
        version: "11.3.0",
        sha256: "6bcb0c42c4580436fea262ced56f68a6afe20f7390b1bea2116718cc034a0283",
    },
];

const POOL: &str = "http://deb.debian.org/debian/pool/main/libv/libvirt";

/// It goes the way apt goes, through the same proxies, and checks the hash.
const FETCHER: &str = "/usr/lib/apt/apt-helper";

/// What the generator reads of a tree.
const PARTS: [&str; 6] = [
    "meson.build",
    "include/libvirt",
    "src/rpc",
    "src/remote",
    "src/admin",
    "src/*-structs",
];

impl Release {
    fn tree(&self) -> PathBuf {
        // A tree appears under this name when it is whole.
        let hash = self.sha256.get(..8).unwrap_or(self.sha256);
        let name = format!("libvirt-sources/{}-{hash}", self.version);
        workspace::target().join(name)
    }

    fn fetch(&self) -> Result<()> {
        let tree = self.tree();
        if tree.is_dir() {
            return Ok(());
        }
        if !Path::new(FETCHER).exists() {
            bail!(
                "{FETCHER} is missing; unpack libvirt {} and name it in {VARIABLE}",
                self.version
            );
        }
        let parent = workspace::target().join("libvirt-sources");
        let work = parent.join(format!("{}.{}", self.version, std::process::id()));
        fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
        let outcome = self.unpack(&work).and_then(|()| {
            match fs::rename(work.join("tree"), &tree) {
                // Another one was faster with the same.
                Err(_) if tree.is_dir() => Ok(()),
                renamed => renamed.with_context(|| format!("moving {} into place", tree.display())),
            }
        });
        let cleaned = fs::remove_dir_all(&work).with_context(|| format!("removing {}", work.display()));
        outcome.and(cleaned)
    }

    fn unpack(&self, work: &Path) -> Result<()> {
        let Self { version, sha256 } = self;
        let archive = work.join("archive.tar.xz");
        let mut download = Command::new(FETCHER);
        download
            .args(["-qq", "download-file", &format!("{POOL}/libvirt_{version}.orig.tar.xz")])
            .arg(&archive)
            .arg(format!("SHA256:{sha256}"));
        process::run(&mut download)?;
        let tree = work.join("tree");
        fs::create_dir(&tree)?;
        let mut unpack = Command::new("tar");
        unpack
            .args(["--strip-components=1", "--no-same-owner", "--wildcards", "-xJf"])
            .arg(&archive)
            .arg("-C")
            .arg(&tree)
            .args(PARTS.map(|part| format!("libvirt-{version}/{part}")));
        process::run(&mut unpack)
    }
}

/// Fetches what is missing, unless one's own trees are named.
///
/// # Errors
/// When an archive cannot be fetched, is not what it was, or cannot be unpacked.
pub(crate) fn fetch() -> Result<()> {
    if env::var_os(VARIABLE).is_some() {
        return Ok(());
    }
    RELEASES.iter().try_for_each(Release::fetch)
}

/// The trees to test with, oldest first.
///
/// # Errors
/// A line that says what is missing.
#[cfg(test)]
pub(super) fn there() -> Result<Vec<PathBuf>, String> {
    if let Some(named) = env::var_os(VARIABLE) {
        return Ok(env::split_paths(&named).collect());
    }
    let trees: Vec<PathBuf> = RELEASES.iter().map(Release::tree).collect();
    match trees.iter().find(|tree| !tree.is_dir()) {
        Some(missing) => Err(format!(
            "{} is missing (run `cargo xtask test`, or name trees in {VARIABLE}=dir:dir)",
            missing.display()
        )),
        None => Ok(trees),
    }
}
