//! An sshd of the tests' own.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    libvirtd::{Libvirtd, is_installed},
    support::{port, soon},
};

/// A folder that goes with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("libvirt-rpc-{}-{test}-files", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, content: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Not by this process: a test that forks meanwhile would keep the file open for writing, and a script so busy.
        let written = Command::new("sh")
            .args(["-c", "printf %s \"$1\" >\"$0\""])
            .args([path.as_os_str(), content.as_ref()])
            .status();
        assert!(written.unwrap().success());
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

pub(crate) struct Sshd {
    child: std::process::Child,
    pub(crate) port: u16,
    pub(crate) files: Folder,
}

const STRICT: &str = "AllowStreamLocalForwarding no\nAllowTcpForwarding no\n";

impl Sshd {
    /// One that forwards nothing.
    pub(crate) fn start(test: &str) -> Option<Self> {
        Self::start_with(test, STRICT, None)
    }

    /// One with more configuration, in the mount namespace of a daemon if there is one.
    pub(crate) fn start_with(test: &str, more: &str, within: Option<&Libvirtd>) -> Option<Self> {
        let missing = ["sshd", "ssh", "ssh-keygen", "nc", "virt-ssh-helper"]
            .into_iter()
            .find(|program| !is_installed(program));
        if let Some(missing) = missing {
            assert!(
                std::env::var_os("CI").is_none(),
                "install openssh-server, netcat-openbsd and libvirt-daemon: {missing} is missing"
            );
            eprintln!("SKIPPED {test}: {missing} is missing (install openssh-server, netcat-openbsd, libvirt-daemon)");
            return None;
        }
        let files = Folder::new(test);
        fs::set_permissions(&files.0, fs::Permissions::from_mode(0o700)).unwrap();
        let sshd = |name: &str| files.0.join(name).display().to_string();
        for (key, kind) in [
            ("host", "ed25519"),
            ("host-rsa", "rsa"),
            ("client", "ed25519"),
            ("wrong", "ed25519"),
        ] {
            keygen(&files.0, key, kind, "");
        }
        fs::create_dir_all("/run/sshd").unwrap();
        let port = port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
             StrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             UsePAM no\n{more}",
            sshd("host"),
            sshd("host-rsa"),
            sshd("client.pub"),
        );
        let config = files.write("sshd_config", &config, 0o600);
        let mut command = match within {
            None => Command::new("sh"),
            Some(daemon) => {
                let mut enter = Command::new("nsenter");
                enter.args(["--mount", "--target", &daemon.leader(), "sh"]);
                enter
            }
        };
        let child = command
            .args(["-c", "mkdir -p /run/sshd; exec /usr/sbin/sshd -D -e -f \"$0\""])
            .arg(config)
            .stdin(Stdio::null())
            .stderr(fs::File::create(files.0.join("log")).unwrap())
            .spawn()
            .unwrap();
        Some(Self { child, port, files })
    }

    pub(crate) async fn ready(&self) {
        soon(async {
            while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// The name by which the host is known.
    #[cfg(feature = "russh")]
    pub(crate) fn host(&self) -> String {
        format!("[127.0.0.1]:{}", self.port)
    }

    /// A file that knows the host by a key.
    pub(crate) fn knows(&self, key: &str) -> PathBuf {
        let line = format!("[127.0.0.1]:{} {}", self.port, self.public(key));
        self.files.write(&format!("known-{key}"), &line, 0o600)
    }

    pub(crate) fn public(&self, key: &str) -> String {
        fs::read_to_string(self.files.0.join(format!("{key}.pub"))).unwrap()
    }

    pub(crate) fn uri(&self, daemon: &Libvirtd, key: &str, known: &Path) -> String {
        format!(
            "{}&socket={}",
            self.uri_without_socket(key, known),
            daemon.socket().display()
        )
    }

    pub(crate) fn uri_without_socket(&self, key: &str, known: &Path) -> String {
        format!(
            "test+libssh://root@127.0.0.1:{}/default?keyfile={}&known_hosts={}",
            self.port,
            self.files.0.join(key).display(),
            known.display()
        )
    }

    /// Signals whatever serves a connection.
    #[cfg(feature = "russh")]
    pub(crate) fn signal_sessions(&self, signal: &str) {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        assert!(!children.trim().is_empty(), "nobody is connected");
        let killed = Command::new("kill")
            .arg(signal)
            .args(children.split_whitespace())
            .status();
        assert!(killed.unwrap().success());
    }

    /// How many clients on this machine are connected, by the kernel's table: to our port, established.
    #[cfg(feature = "russh")]
    pub(crate) fn clients(&self) -> usize {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let to = format!("0100007F:{:04X}", self.port);
        let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        fields.filter(|fields| fields[2] == to && fields[3] == "01").count()
    }
}

/// Makes a pair of keys.
pub(crate) fn keygen(folder: &Path, name: &str, kind: &str, passphrase: &str) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-N", passphrase, "-C", name, "-f"])
        .arg(folder.join(name))
        .status();
    assert!(made.unwrap().success());
}

impl Drop for Sshd {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
