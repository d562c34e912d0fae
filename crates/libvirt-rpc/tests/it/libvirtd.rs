//! A libvirtd of the tests' own, in namespaces of its own.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::process::{Child, Command};

use crate::support::soon;

/// A running daemon; it ends with this value.
pub(crate) struct Libvirtd {
    dir: PathBuf,
    setup: Setup,
    child: Child,
}

/// How it is started.
struct Setup {
    listens: bool,
    sasl: PathBuf,
    before: String,
}

/// Everything the daemon writes goes below `$dir`; what it knows of the machine's own libvirt is hidden.
const START: &str = r#"
mount --make-rprivate /
mount -t tmpfs tmpfs /run && mkdir -p /run/libvirt /run/lock
mount --bind "$dir/run" /run/libvirt
mount --bind "$dir/etc" /etc/libvirt
mount --bind "$dir/lib" /var/lib/libvirt
mount --bind "$dir/log" /var/log/libvirt
mount --bind "$dir/cache" /var/cache/libvirt
eval "$before"
# Not exec: somebody has to be the parent of what QEMU leaves behind.
libvirtd $flags &
wait
"#;

impl Setup {
    fn spawn(&self, dir: &Path) -> Child {
        let network = if self.listens { "--uts" } else { "--net" };
        Command::new("unshare")
            .args([
                "--mount",
                network,
                "--pid",
                "--fork",
                "--kill-child=KILL",
                "--mount-proc",
            ])
            .args(["bash", "-euc", START])
            .env("flags", if self.listens { "--listen" } else { "" })
            .env("SASL_CONF_PATH", &self.sasl)
            .env("before", &self.before)
            .env("dir", dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.join("stderr")).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }
}

impl Libvirtd {
    /// Starts one, or says loudly why not. In CI a missing package is a failure.
    pub(crate) async fn start(test: &str) -> Option<Self> {
        Self::start_with(test, "", false).await
    }

    /// Starts one with more configuration; one that listens shares the machine's network.
    pub(crate) async fn start_with(test: &str, config: &str, listens: bool) -> Option<Self> {
        Self::start_sasl(test, config, listens, Path::new("/nonexistent")).await
    }

    /// As [`start_with`](Self::start_with), with SASL configured in a folder.
    pub(crate) async fn start_sasl(test: &str, config: &str, listens: bool, sasl: &Path) -> Option<Self> {
        Self::start_after(test, config, listens, sasl, "").await
    }

    /// As [`start_sasl`](Self::start_sasl), after a script that may use `$dir`.
    pub(crate) async fn start_after(
        test: &str,
        config: &str,
        listens: bool,
        sasl: &Path,
        before: &str,
    ) -> Option<Self> {
        let missing = ["libvirtd", "unshare"]
            .into_iter()
            .find(|program| !is_installed(program));
        let missing = missing.or_else(|| (!is_root()).then_some("root"));
        if let Some(missing) = missing {
            assert!(
                std::env::var_os("CI").is_none(),
                "{test} needs {missing}: install libvirt-daemon-system, run as root"
            );
            eprintln!("SKIPPED {test}: {missing} is missing (install libvirt-daemon-system, run as root)");
            return None;
        }
        let dir = std::env::temp_dir().join(format!("libvirt-rpc-{}-{test}", std::process::id()));
        for part in [
            "run",
            "etc",
            "lib/images",
            "lib/qemu/channel/target",
            "lib/qemu/save",
            "lib/qemu/nvram",
            "lib/qemu/dump",
            "lib/qemu/ram",
            "lib/boot",
            "log/qemu",
            "cache",
        ] {
            std::fs::create_dir_all(dir.join(part)).unwrap();
        }
        std::fs::write(
            dir.join("etc/libvirtd.conf"),
            // The first of two counts.
            format!("{config}auth_unix_rw = \"none\"\n"),
        )
        .unwrap();
        let qemu = "stdio_handler = \"file\"\nsecurity_driver = \"none\"\nuser = \"root\"\ngroup = \"root\"\n";
        std::fs::write(dir.join("etc/qemu.conf"), qemu).unwrap();
        let setup = Setup {
            listens,
            sasl: sasl.to_owned(),
            before: before.to_owned(),
        };
        let child = setup.spawn(&dir);
        let daemon = Self { dir, setup, child };
        soon(daemon.ready()).await;
        Some(daemon)
    }

    async fn ready(&self) {
        while tokio::net::UnixStream::connect(self.socket()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Where everything of it is.
    pub(crate) fn folder(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("run/libvirt-sock")
    }

    /// A URI of the test driver, or another, on this daemon.
    pub(crate) fn uri(&self, driver: &str, path: &str) -> String {
        format!("{driver}+unix://{path}?socket={}", self.socket().display())
    }

    /// The process that is in all namespaces of the daemon.
    pub(crate) fn leader(&self) -> String {
        let parent = self.child.id().unwrap();
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
        children.trim().to_owned()
    }

    /// Signals the processes of a name that belong to this daemon, and no others.
    pub(crate) async fn signal(&self, name: &str, signal: &str) {
        let space = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = space(&self.leader());
        assert!(own.is_some());
        let ours = |pid: &str| space(pid) == own;
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry.file_name().into_string().unwrap();
            let comm = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if comm.split('\0').next().is_some_and(|program| program.ends_with(name)) && ours(&pid) {
                let sent = Command::new("kill").args(["-s", signal, &pid]).status().await;
                assert!(sent.unwrap().success());
            }
        }
    }

    /// Kills it as if by loss of power.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }
}

impl Libvirtd {
    /// Starts it again after it was killed.
    pub(crate) async fn restart(&mut self) {
        self.child = self.setup.spawn(&self.dir);
        soon(self.ready()).await;
    }
}

impl Drop for Libvirtd {
    fn drop(&mut self) {
        drop(self.child.start_kill());
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .any(|dir| dir.join(program).exists())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
        && Path::new("/proc/self/ns").exists()
}
