//! Every way to a real daemon.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use libvirt_rpc::{Connection, Error, Kind};

use crate::{
    libvirtd::{Libvirtd, is_installed},
    support::{port, soon},
};

async fn open(uri: &str) -> Result<Connection, Error> {
    soon(Connection::open(uri)).await
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("libvirt-rpc-{}-{test}-files", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, content: &str, mode: u32) -> PathBuf {
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

#[tokio::test]
async fn tcp_reaches_the_daemon() {
    let port = port();
    let config = format!(
        "listen_tls = 0\nlisten_tcp = 1\nlisten_addr = \"127.0.0.1\"\ntcp_port = \"{port}\"\nauth_tcp = \"none\"\n"
    );
    let Some(_daemon) = Libvirtd::start_with("tcp", &config, true).await else {
        return;
    };
    let c = open(&format!("test+tcp://127.0.0.1:{port}/default")).await.unwrap();
    assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");
    let refused = open(&format!("test+tcp://127.0.0.1:{}/default", crate::support::port()))
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), Kind::Connect);
}

/// A daemon that accepts TLS but never says whether it accepts the client.
#[cfg(feature = "tls")]
#[tokio::test]
async fn a_tls_daemon_that_never_judges_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = libvirt_rpc::Options::new().connect_timeout(std::time::Duration::from_millis(200));
    let uri = format!("test+tls://127.0.0.1:{port}/default?no_verify=1");
    let opening = soon(Connection::open_with(&uri, options)).await;
    assert_eq!(opening.unwrap_err().kind(), Kind::Deadline);
}

#[tokio::test]
async fn any_command_can_be_the_way() {
    let Some(daemon) = Libvirtd::start("ext").await else {
        return;
    };
    let files = Folder::new("ext");
    let relay = format!("#!/bin/sh\nexec nc -U {}\n", daemon.socket().display());
    let relay = files.write("relay", &relay, 0o755);
    if is_installed("nc") {
        let c = open(&format!("test+ext:///default?command={}", relay.display()))
            .await
            .unwrap();
        assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");
    } else {
        assert!(std::env::var_os("CI").is_none(), "install netcat-openbsd");
        eprintln!("SKIPPED ext: nc is missing (install netcat-openbsd)");
    }
    let broken = files.write("broken", "#!/bin/sh\necho no route to heaven >&2\nexit 1\n", 0o755);
    let error = open(&format!("test+ext:///default?command={}", broken.display()))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no route to heaven"), "{error}");
    for uri in [
        "test+ext:///default",
        "test+ext://host/default?command=/bin/true",
        "test+ext://user@/default?command=/bin/true",
        "test+ext://:22/default?command=/bin/true",
        "test+ext:///default?command=/bin/true&argv=x",
    ] {
        assert_eq!(open(uri).await.unwrap_err().kind(), Kind::Uri, "{uri}");
    }
}

/// An sshd of the tests' own.
struct Sshd {
    child: std::process::Child,
    port: u16,
    files: Folder,
}

impl Sshd {
    fn start(test: &str) -> Option<Self> {
        let missing = ["sshd", "ssh", "ssh-keygen", "nc"]
            .into_iter()
            .find(|program| !is_installed(program));
        if let Some(missing) = missing {
            assert!(
                std::env::var_os("CI").is_none(),
                "install openssh-server and netcat-openbsd: {missing} is missing"
            );
            eprintln!("SKIPPED {test}: {missing} is missing (install openssh-server, netcat-openbsd)");
            return None;
        }
        let files = Folder::new(test);
        fs::set_permissions(&files.0, fs::Permissions::from_mode(0o700)).unwrap();
        for key in ["host", "client", "wrong"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(files.0.join(key))
                .status();
            assert!(made.unwrap().success());
        }
        fs::create_dir_all("/run/sshd").unwrap();
        let port = port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {0}/host\nAuthorizedKeysFile {0}/client.pub\nPidFile none\n\
             StrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\n\
             AllowStreamLocalForwarding no\nAllowTcpForwarding no\n",
            files.0.display()
        );
        let config = files.write("sshd_config", &config, 0o600);
        let child = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(config)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Self { child, port, files })
    }

    async fn ready(&self) {
        soon(async {
            while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    fn knows(&self, key: &str) -> PathBuf {
        let key = fs::read_to_string(self.files.0.join(format!("{key}.pub"))).unwrap();
        self.files
            .write("known_hosts", &format!("[127.0.0.1]:{} {key}", self.port), 0o600)
    }

    fn uri(&self, daemon: &Libvirtd, key: &str, known: &Path) -> String {
        format!(
            "test+libssh://root@127.0.0.1:{}/default?socket={}&keyfile={}&known_hosts={}",
            self.port,
            daemon.socket().display(),
            self.files.0.join(key).display(),
            known.display()
        )
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// terraform#944, #922, #876 (host keys), #1005, #939, #1004, #1121 (forwarding disabled).
#[tokio::test]
async fn ssh_reaches_the_daemon_even_where_forwarding_is_forbidden_and_is_strict() {
    let Some(daemon) = Libvirtd::start("ssh").await else {
        return;
    };
    let Some(sshd) = Sshd::start("ssh") else {
        return;
    };
    sshd.ready().await;
    let c = open(&sshd.uri(&daemon, "client", &sshd.knows("host"))).await.unwrap();
    assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");
    assert_eq!(c.domains(Default::default()).await.unwrap().len(), 1);
    drop(c);

    let key = open(&sshd.uri(&daemon, "wrong", &sshd.knows("host")))
        .await
        .unwrap_err();
    assert!(key.to_string().contains("Permission denied"), "{key}");
    let unknown = sshd.files.write("nobody", "", 0o600);
    let stranger = open(&sshd.uri(&daemon, "client", &unknown)).await.unwrap_err();
    assert!(
        stranger.to_string().contains("Host key verification failed"),
        "{stranger}"
    );
    let changed = open(&sshd.uri(&daemon, "client", &sshd.knows("wrong")))
        .await
        .unwrap_err();
    assert!(
        changed.to_string().contains("REMOTE HOST IDENTIFICATION HAS CHANGED"),
        "{changed}"
    );
    let learnt = sshd.uri(&daemon, "client", &unknown) + "&known_hosts_verify=auto";
    assert_eq!(open(&learnt).await.unwrap().hypervisor_type().await.unwrap(), "TEST");
}
