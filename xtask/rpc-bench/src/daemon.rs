//! A real libvirtd of our own, in namespaces of its own, with a pool in memory.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use libvirt_rpc::Connection;

use crate::process::{SERVER, Server, pinned};

/// Everything the daemon writes goes below `$dir` or into memory; what it knows of the machine's own libvirt is hidden.
const START: &str = r#"
mount --make-rprivate /
mount -t tmpfs tmpfs /run && mkdir -p /run/libvirt /run/lock
mount --bind "$dir/run" /run/libvirt
mount --bind "$dir/etc" /etc/libvirt
mount --bind "$dir/lib" /var/lib/libvirt
mount --bind "$dir/log" /var/log/libvirt
mount --bind "$dir/cache" /var/cache/libvirt
mount -t tmpfs tmpfs /var/lib/libvirt/images
# Not exec: somebody has to be the parent of what the daemon leaves behind.
libvirtd &
wait
"#;

/// The volume that is written and read.
pub(crate) const POOL: &str = "memory";
pub(crate) const VOLUME: &str = "volume";

/// A running daemon.
pub(crate) struct Libvirtd {
    dir: PathBuf,
    server: Server,
}

impl Libvirtd {
    /// Starts one below `dir`.
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        for part in ["run", "etc", "lib/images", "lib/qemu", "lib/boot", "log/qemu", "cache"] {
            let part = dir.join(part);
            fs::create_dir_all(&part).with_context(|| format!("making {}", part.display()))?;
        }
        // Neither side pings the other: C's client only does when it is told to, and ours is told not to.
        let conf = "auth_unix_rw = \"none\"\nkeepalive_interval = -1\n";
        fs::write(dir.join("etc/libvirtd.conf"), conf)?;
        fs::write(dir.join("etc/qemu.conf"), "security_driver = \"none\"\n")?;
        let mut command = pinned(SERVER, "unshare");
        command
            .args([
                "--mount",
                "--net",
                "--pid",
                "--fork",
                "--kill-child=KILL",
                "--mount-proc",
            ])
            .args(["bash", "-euc", START])
            .env("dir", dir)
            .stdout(Stdio::null())
            .stderr(File::create(dir.join("stderr"))?);
        let server = Server::start(&mut command, &dir.join("run/libvirt-sock"))?;
        let dir = dir.to_owned();
        Ok(Self { dir, server })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("run/libvirt-sock")
    }

    pub(crate) fn uri(&self, driver: &str, path: &str) -> String {
        format!("{driver}+unix://{path}?socket={}", self.socket().display())
    }

    /// The daemon itself, behind what set up its namespaces.
    pub(crate) fn id(&self) -> Result<u32> {
        let only_child = |of: u32| -> Result<u32> {
            let path = format!("/proc/{of}/task/{of}/children");
            let children = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
            let first = children.split_whitespace().next();
            first
                .with_context(|| format!("{path} names no child"))?
                .parse()
                .context(path)
        };
        // `unshare`, which `taskset` has become; then bash; then libvirtd.
        let id = only_child(only_child(self.server.id())?)?;
        let name = fs::read_to_string(format!("/proc/{id}/comm"))?;
        ensure!(name.trim() == "libvirtd", "process {id} is {name}, not libvirtd");
        Ok(id)
    }

    pub(crate) async fn version(&self) -> Result<String> {
        let connection = Connection::open(&self.uri("test", "/default")).await?;
        let number = connection.library_version().await?;
        connection.close().await;
        Ok(format!(
            "{}.{}.{}",
            number / 1_000_000,
            number / 1_000 % 1_000,
            number % 1_000
        ))
    }

    /// Makes a pool in memory with a volume of so many bytes.
    pub(crate) async fn make_volume(&self, bytes: u64) -> Result<()> {
        let connection = Connection::open(&self.uri("qemu", "/system")).await?;
        let xml =
            format!("<pool type='dir'><name>{POOL}</name><target><path>/var/lib/libvirt/images</path></target></pool>");
        let pool = connection.storage_pool_create_xml(&xml, Default::default()).await?;
        let xml = format!(
            "<volume><name>{VOLUME}</name><capacity>{bytes}</capacity><allocation>0</allocation>\
             <target><format type='raw'/></target></volume>"
        );
        connection.volume_create(&pool, &xml, Default::default()).await?;
        connection.close().await;
        Ok(())
    }

    /// The volume as the daemon has it, seen from outside.
    pub(crate) fn volume(&self) -> Result<File> {
        let path = format!("/proc/{}/root/var/lib/libvirt/images/{VOLUME}", self.id()?);
        File::open(&path).with_context(|| format!("opening {path}"))
    }
}

/// Builds libvirt's client.
pub(crate) fn c_client(dir: &Path) -> Result<PathBuf> {
    let (source, program) = (dir.join("client.c"), dir.join("client"));
    fs::write(&source, include_str!("../client.c"))?;
    let mut command = Command::new("cc");
    command
        .args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&program, &source])
        .args(["-lvirt", "-lpthread"]);
    let status = command.status().context("starting cc")?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(program)
}
