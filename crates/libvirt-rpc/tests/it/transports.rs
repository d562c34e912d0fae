//! Every way to a real daemon.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use libvirt_rpc::{Connection, Error, Kind, Options};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::{
    libvirtd::{Libvirtd, is_installed},
    support::soon,
};

async fn open(uri: &str) -> Result<Connection, Error> {
    soon(Connection::open(uri)).await
}

/// A port nobody has: below those the kernel gives away, and each only once.
fn port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let at = NEXT.fetch_add(1, Ordering::Relaxed) + std::process::id() * 16;
        let port = u16::try_from(20_000 + at % 12_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
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
        fs::write(&path, content).unwrap();
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
    let refused = open(&format!("test+tcp://127.0.0.1:{}/default", self::port()))
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), Kind::Connect);
}

/// A certificate authority and what it has signed.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// A folder for `pkipath`, with a client's certificate or without.
    fn folder(&self, files: &Folder, name: &str, client: Option<&Self>) -> PathBuf {
        files.write(&format!("{name}/cacert.pem"), &self.pem, 0o644);
        if let Some(signer) = client {
            let (certificate, key) = signer.sign("client");
            files.write(&format!("{name}/clientcert.pem"), &certificate, 0o644);
            files.write(&format!("{name}/clientkey.pem"), &key, 0o600);
        }
        files.0.join(name)
    }
}

/// go-libvirt#89, packer-plugin-libvirt#11, terraform#1155, #1184.
#[cfg(feature = "tls")]
#[tokio::test]
async fn tls_lets_in_who_is_known_and_says_why_it_does_not() {
    let files = Folder::new("tls");
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (certificate, key) = authority.sign("localhost");
    let port = port();
    let config = format!(
        "listen_tls = 1\nlisten_addr = \"127.0.0.1\"\ntls_port = \"{port}\"\nauth_tls = \"none\"\ntls_no_sanity_certificate = 1\n\
         ca_file = \"{}\"\ncert_file = \"{}\"\nkey_file = \"{}\"\n",
        files.write("ca.pem", &authority.pem, 0o644).display(),
        files.write("server.pem", &certificate, 0o644).display(),
        files.write("server.key", &key, 0o600).display(),
    );
    let Some(_daemon) = Libvirtd::start_with("tls", &config, true).await else {
        return;
    };
    let uri = |host: &str, pki: &Path, more: &str| {
        format!("test+tls://{host}:{port}/default?pkipath={}{more}", pki.display())
    };
    let good = authority.folder(&files, "good", Some(&authority));
    let c = open(&uri("localhost", &good, "")).await.unwrap();
    assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");
    assert!(c.is_secure().await.unwrap());

    let text = |error: &Error| {
        format!(
            "{error}: {:?}",
            std::error::Error::source(error).map(ToString::to_string)
        )
    };
    let other = stranger.folder(&files, "other", Some(&authority));
    let wrong = open(&uri("localhost", &other, "")).await.unwrap_err();
    assert!(text(&wrong).contains("invalid peer certificate"), "{}", text(&wrong));
    open(&uri("localhost", &other, "&no_verify=1")).await.unwrap();

    let name = open(&uri("127.0.0.1", &good, "")).await.unwrap_err();
    assert!(text(&name).contains("not valid for name"), "{}", text(&name));

    let unknown = authority.folder(&files, "unknown", Some(&stranger));
    let none = authority.folder(&files, "none", None);
    for pki in [unknown, none] {
        let refused = open(&uri("localhost", &pki, "")).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Connect, "{}", text(&refused));
    }
    assert_eq!(
        open(&uri("localhost", &good, "&tls_priority=NORMAL"))
            .await
            .unwrap_err()
            .kind(),
        Kind::Uri
    );
}

/// A daemon that accepts TLS but never says whether it accepts the client.
#[cfg(feature = "tls")]
#[tokio::test]
async fn a_tls_daemon_that_never_judges_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = Options::new().connect_timeout(std::time::Duration::from_millis(200));
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
    assert_eq!(open("test+ext:///default").await.unwrap_err().kind(), Kind::Uri);
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

/// go-libvirt#221, terraform#810.
#[cfg(feature = "sasl")]
#[tokio::test]
async fn sasl_lets_in_who_knows_the_password_and_says_what_is_missing() {
    if !is_installed("saslpasswd2") {
        assert!(
            std::env::var_os("CI").is_none(),
            "install sasl2-bin and libsasl2-modules"
        );
        eprintln!("SKIPPED sasl: saslpasswd2 is missing (install sasl2-bin, libsasl2-modules)");
        return;
    }
    let files = Folder::new("sasl");
    let database = files.0.join("passwd.db");
    let mut save = Command::new("saslpasswd2")
        .args(["-c", "-p", "-a", "libvirt", "-f"])
        .arg(&database)
        .arg("fred")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut save.stdin.take().unwrap(), b"open sesame").unwrap();
    assert!(save.wait().unwrap().success());
    let mechanisms = "SCRAM-SHA-256 SCRAM-SHA-1 PLAIN GSSAPI";
    let sasl = format!(
        "mech_list: {mechanisms}\nsasldb_path: {}\npwcheck_method: auxprop\nauxprop_plugin: sasldb\n",
        database.display()
    );
    files.write("libvirt.conf", &sasl, 0o644);
    let config = "auth_unix_ro = \"sasl\"\n";
    let Some(daemon) = Libvirtd::start_sasl("sasl", config, &files.0).await else {
        return;
    };
    let uri = |auth: &str| {
        format!(
            "{}&auth={auth}",
            daemon.uri("test", "/default").replace("-sock", "-sock-ro")
        )
    };
    let open = |auth: &str, password: &str| {
        let options = Options::new().read_only(true).credentials("fred", password);
        let uri = uri(auth);
        async move { soon(Connection::open_with(&uri, options)).await }
    };
    for mechanism in ["sasl", "sasl.SCRAM-SHA-256", "sasl.SCRAM-SHA-1", "sasl.PLAIN"] {
        let c = open(mechanism, "open sesame")
            .await
            .unwrap_or_else(|e| panic!("{mechanism}: {e}"));
        assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");
        let wrong = open(mechanism, "open barley").await.unwrap_err();
        assert!(
            matches!(wrong.kind(), Kind::Daemon | Kind::Auth),
            "{mechanism}: {wrong}"
        );
    }
    let unknown = open("sasl.GSSAPI", "open sesame").await.unwrap_err();
    assert!(unknown.to_string().contains("SCRAM-SHA-256"), "{unknown}");
    let nobody = soon(Connection::open_with(&uri("sasl"), Options::new().read_only(true)))
        .await
        .unwrap_err();
    assert!(nobody.to_string().contains("credentials"), "{nobody}");
}
