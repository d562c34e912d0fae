//! Golden images, built when what they are built from has changed.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use ring::digest::{Context as Hasher, SHA256};

use crate::{
    packages::{self, Package},
    process, workspace,
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Which one
    #[arg(default_value = "tiny")]
    image: Image,
    /// Boot it afterwards, and check that it can be a machine (images/golden/check)
    #[arg(long)]
    check: bool,
}

/// A guest that `images/golden` has a builder for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Image {
    /// Kernel, busybox and the agent, in 15 MiB; for tests and the lab
    Tiny,
    /// Debian 12 with systemd and cloud-init
    Debian,
}

const TINY_PACKAGES: &[Package] = &[
    ("mmdebstrap", "mmdebstrap"),
    ("syslinux", "syslinux"),
    ("/usr/lib/syslinux/mbr/mbr.bin", "syslinux-common"),
    ("mcopy", "mtools"),
    ("mkfs.vfat", "dosfstools"),
    ("sfdisk", "fdisk"),
    ("mkfs.ext4", "e2fsprogs"),
    // The program is there with `busybox` too, but linked to libraries that the guest does not have.
    ("/var/lib/dpkg/info/busybox-static.list", "busybox-static"),
    ("depmod", "kmod"),
    ("cpio", "cpio"),
    ("qemu-img", "qemu-utils"),
];

const DEBIAN_PACKAGES: &[Package] = &[
    ("mmdebstrap", "mmdebstrap"),
    ("extlinux", "extlinux"),
    ("/usr/lib/EXTLINUX/mbr.bin", "extlinux"),
    ("sfdisk", "fdisk"),
    ("mkfs.ext4", "e2fsprogs"),
    ("losetup", "mount"),
    ("qemu-img", "qemu-utils"),
];

/// What `images/golden/check` needs.
const CHECK_PACKAGES: &[Package] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("qemu-img", "qemu-utils"),
    ("genisoimage", "genisoimage"),
    ("python3", "python3"),
];

/// Builds one, unless it is there.
///
/// # Errors
/// When it cannot be built, or does not pass its check.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let image = arguments.image;
    let path = image.ensure()?;
    println!("{}", path.display());
    if arguments.check {
        packages::install(CHECK_PACKAGES, &[])?;
        let mut check = Command::new(sources().join("check"));
        // As the lab's own hosts: there may be a KVM here that does not work, as within some virtual machines.
        check
            .arg("--accel=tcg")
            .arg(format!("--memory={}", image.memory_mib()))
            .arg(&path);
        process::run(&mut check)?;
    }
    Ok(())
}

impl Image {
    /// The Debian packages its builder needs.
    pub(crate) const fn packages(self) -> &'static [Package] {
        match self {
            Self::Tiny => TINY_PACKAGES,
            Self::Debian => DEBIAN_PACKAGES,
        }
    }

    /// The name of its builder, and of the folder with what is put into it.
    const fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Debian => "debian",
        }
    }

    const fn memory_mib(self) -> u32 {
        match self {
            Self::Tiny => 256,
            Self::Debian => 1024,
        }
    }

    /// Where it is once it is built.
    pub(crate) fn path(self) -> PathBuf {
        workspace::target().join(format!("golden/{}.qcow2", self.name()))
    }

    /// Builds it, with the packages that takes, unless what is there is from the same sources.
    ///
    /// # Errors
    /// When packages are missing and cannot be installed, or the builder fails; what was there stays.
    pub(crate) fn ensure(self) -> Result<PathBuf> {
        let path = self.path();
        let stamp = path.with_extension("sources");
        let hash = self.hash().context("reading images/golden")?;
        if path.exists() && fs::read_to_string(&stamp).is_ok_and(|known| known == hash) {
            return Ok(path);
        }
        packages::install(self.packages(), &[])?;
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        eprintln!("building the {} image; that takes some minutes", self.name());
        process::run(Command::new(sources().join(self.name())).arg(&path))?;
        fs::write(&stamp, hash).with_context(|| format!("writing {}", stamp.display()))?;
        Ok(path)
    }

    /// SHA-256 of all that its builder reads: names, modes and contents.
    fn hash(self) -> io::Result<String> {
        let mut hasher = Hasher::new(&SHA256);
        for name in ["builder.sh", self.name(), &format!("guest/{}", self.name())] {
            add(&mut hasher, &sources().join(name))?;
        }
        let digest = hasher.finish();
        Ok(digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

fn sources() -> PathBuf {
    workspace::root().join("images/golden")
}

fn add(hasher: &mut Hasher, path: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?;
    let content = if kind.is_dir() {
        let entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path()));
        let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
        entries.sort();
        entries.iter().try_for_each(|entry| add(hasher, entry))?;
        Vec::new()
    } else if kind.is_symlink() {
        fs::read_link(path)?.into_os_string().into_encoded_bytes()
    } else {
        fs::read(path)?
    };
    // Lengths first, so that no two trees give the same bytes. Of the mode what git keeps of it, or a checkout by
    // somebody else would be another image.
    let executable = kind.is_file() && kind.permissions().mode() & 0o100 != 0;
    let name = workspace::relative(path);
    hasher.update(format!("{} {name} {executable} {}\n", name.len(), content.len()).as_bytes());
    hasher.update(&content);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_a_hash_of_its_own_sources_alone() {
        let tiny = Image::Tiny.hash().unwrap();
        assert_eq!(tiny.len(), 64);
        assert_eq!(tiny, Image::Tiny.hash().unwrap());
        assert_ne!(tiny, Image::Debian.hash().unwrap());
    }

    #[test]
    fn what_is_in_a_file_and_what_it_is_called_changes_the_hash() {
        let folder = tempfile::tempdir().unwrap();
        let hash = || {
            let mut hasher = Hasher::new(&SHA256);
            add(&mut hasher, folder.path()).unwrap();
            hasher.finish().as_ref().to_vec()
        };
        let file = folder.path().join("a");
        let mut seen = vec![hash()];
        fs::write(&file, "x").unwrap();
        seen.push(hash());
        fs::write(&file, "y").unwrap();
        seen.push(hash());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        seen.push(hash());
        fs::rename(&file, folder.path().join("b")).unwrap();
        seen.push(hash());
        let count = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }
}
