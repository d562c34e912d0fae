//! Real hosts, as `cargo xtask lab` makes them. The provider's own tests include this file, too.
#![allow(dead_code, reason = "not every suite does everything to a host")]

use std::{
    path::{Path, PathBuf},
    process::{Command as Blocking, Stdio},
    time::Duration,
};

use tokio::process::{Child, Command};

/// A running host; it loses power with this value.
pub(crate) struct Host {
    dir: tempfile::TempDir,
    child: Child,
}

/// A file that `cargo xtask test` makes, at its usual place below `target` or where the environment says.
pub(crate) struct Made {
    variable: &'static str,
    place: &'static str,
    remedy: &'static str,
}

pub(crate) const TINY: Made = Made {
    variable: "LIBVIRT_PROVIDER_TINY_IMAGE",
    place: "golden/tiny.qcow2",
    remedy: "cargo xtask lab image",
};
pub(crate) const DEBIAN: Made = Made {
    variable: "LIBVIRT_PROVIDER_DEBIAN_IMAGE",
    place: "golden/debian.qcow2",
    remedy: "cargo xtask lab image debian",
};
pub(crate) const KUBECTL: Made = Made {
    variable: "LIBVIRT_PROVIDER_KUBECTL",
    place: "tools/kubectl",
    remedy: "cargo xtask tool kubectl",
};

impl Made {
    /// Where it is, or why it is not.
    fn find(&self) -> Result<PathBuf, String> {
        let path = std::env::var_os(self.variable).map_or_else(
            || {
                Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join("../../target")
                    .join(self.place)
            },
            PathBuf::from,
        );
        if path.exists() {
            Ok(path)
        } else {
            Err(format!("{} is missing (run `{}`)", path.display(), self.remedy))
        }
    }

    /// Where it is, for a test that needs nothing else but root; or says loudly why it cannot run.
    pub(crate) fn or_skip(&self, test: &str) -> Option<PathBuf> {
        let found = self.find().and_then(|path| {
            if is_root() {
                Ok(path)
            } else {
                Err("root is missing".to_owned())
            }
        });
        found.map_err(|missing| skip(test, &missing)).ok()
    }

    pub(crate) fn read(&self) -> Vec<u8> {
        std::fs::read(self.find().unwrap()).unwrap()
    }

    /// What its file is called, in a pool too.
    pub(crate) fn name(&self) -> &'static str {
        self.place.rsplit('/').next().unwrap()
    }
}

fn missing() -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = |program: &str| {
        std::env::split_paths(&path)
            .chain([PathBuf::from("/usr/sbin")])
            .any(|dir| dir.join(program).exists())
    };
    let programs = ["libvirtd", "virsh", "qemu-system-x86_64", "qemu-img", "dnsmasq"];
    let program = programs.into_iter().find(|program| !installed(program));
    program
        .map(|program| format!("{program} is missing"))
        .or_else(|| (!is_root()).then(|| "root is missing".to_owned()))
}

/// Whether a test cannot run for want of something; says so loudly, and in CI fails.
fn cannot(test: &str, made: &[&Made]) -> bool {
    let Some(missing) = missing().or_else(|| made.iter().find_map(|made| made.find().err())) else {
        return false;
    };
    skip(test, &missing);
    true
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

fn skip(test: &str, missing: &str) {
    assert!(std::env::var_os("CI").is_none(), "{test}: {missing}");
    eprintln!("SKIPPED {test}: {missing}");
}

impl Host {
    /// Starts one with the tiny image in its pool, or says loudly why not. In CI a missing package is a failure.
    pub(crate) async fn start(test: &str) -> Option<Self> {
        Self::start_with(test, &TINY, &[]).await
    }

    /// Starts one with this image in its pool, where the other things are there that the test needs, too.
    pub(crate) async fn start_with(test: &str, image: &Made, others: &[&Made]) -> Option<Self> {
        Self::begin(test, image, others, |_| ()).await
    }

    /// Starts one after its folder was prepared.
    pub(crate) async fn start_prepared(test: &str, prepare: impl FnOnce(&Path)) -> Option<Self> {
        Self::begin(test, &TINY, &[], prepare).await
    }

    async fn begin(test: &str, image: &Made, others: &[&Made], prepare: impl FnOnce(&Path)) -> Option<Self> {
        if cannot(test, &[&[image], others].concat()) {
            return None;
        }
        let dir = tempfile::Builder::new().prefix("lab-").tempdir().unwrap();
        let images = dir.path().join("lib/images");
        std::fs::create_dir_all(&images).unwrap();
        std::fs::copy(image.find().unwrap(), images.join(image.name())).unwrap();
        prepare(dir.path());
        let child = boot(dir.path());
        let host = Self { dir, child };
        host.ready().await;
        Some(host)
    }

    pub(crate) fn uri(&self) -> String {
        format!(
            "qemu+unix:///system?socket={}/run/libvirt-sock",
            self.dir.path().display()
        )
    }

    async fn ready(&self) {
        let ready = self.dir.path().join("run/lab-ready");
        soon("the host is ready", || ready.exists()).await;
    }

    /// What `virsh` prints.
    pub(crate) fn virsh(&self, arguments: &[&str]) -> String {
        self.try_virsh(arguments)
            .unwrap_or_else(|error| panic!("virsh {arguments:?}: {error}"))
    }

    /// What `virsh` prints, or what it complains of.
    pub(crate) fn try_virsh(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Blocking::new("virsh")
            .args(["-q", "-c", &self.uri()])
            .args(arguments)
            .output()
            .unwrap();
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    }

    /// Runs a command on the host, as its own shell would.
    pub(crate) fn run(&self, command: &str) {
        let status = self.enter().args(["sh", "-ec", command]).status();
        assert!(status.unwrap().success(), "{command}");
    }

    /// A command that runs on the host what is added to it.
    pub(crate) fn enter(&self) -> Blocking {
        let mut command = Blocking::new("nsenter");
        command.args(["--target", &self.leader(), "--mount", "--net", "--pid", "--"]);
        command
    }

    /// The names of all domains.
    pub(crate) fn domains(&self) -> Vec<String> {
        lines(&self.virsh(&["list", "--all", "--name"]))
    }

    /// The names of all volumes but the image.
    pub(crate) fn volumes(&self) -> Vec<String> {
        self.virsh(&["pool-refresh", "default"]);
        let lines = lines(&self.virsh(&["vol-list", "default"]));
        let names = lines.iter().filter_map(|line| line.split_whitespace().next());
        let images = [TINY.name(), DEBIAN.name()];
        names.filter(|name| !images.contains(name)).map(str::to_owned).collect()
    }

    /// Listens on the host's own network, where its guests are.
    pub(crate) fn listen(&self, address: &str) -> std::net::TcpListener {
        let space = std::fs::File::open(format!("/proc/{}/ns/net", self.leader())).unwrap();
        let address = address.to_owned();
        // A socket stays in the network it was made in; the thread ends.
        let listener = std::thread::spawn(move || {
            let kind = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&space), Some(kind)).unwrap();
            std::net::TcpListener::bind(address).unwrap()
        });
        listener.join().unwrap()
    }

    /// Defines a domain as it stands.
    pub(crate) fn define(&self, xml: &str) {
        let file = self.dir.path().join("define.xml");
        std::fs::write(&file, xml).unwrap();
        self.virsh(&["define", file.to_str().unwrap()]);
    }

    /// The document of ownership in a domain's metadata.
    pub(crate) fn metadata(&self, domain: &str) -> String {
        let xml = self.virsh(&["metadata", domain, "https://bigfleet.dev/libvirt-provider/machine/1"]);
        let start = xml.find('>').unwrap() + 1;
        xml[start..xml.rfind("</").unwrap()].to_owned()
    }

    /// Writes that document anew, as an element without prefix.
    pub(crate) fn set_metadata(&self, domain: &str, element: &str) {
        let space = "https://bigfleet.dev/libvirt-provider/machine/1";
        self.virsh(&[
            "metadata", domain, space, "--key", "bigfleet", "--set", element, "--live", "--config",
        ]);
    }

    /// What a script prints in a guest.
    pub(crate) fn run_in_guest(&self, domain: &str, script: &str) -> String {
        self.try_in_guest(domain, script)
            .unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// The same of a guest that may not answer.
    pub(crate) fn try_in_guest(&self, domain: &str, script: &str) -> Result<String, String> {
        let ask = |command: serde_json::Value| -> Result<serde_json::Value, String> {
            let answer = self.try_virsh(&["qemu-agent-command", "--timeout", "20", domain, &command.to_string()])?;
            Ok(serde_json::from_str::<serde_json::Value>(&answer).unwrap()["return"].take())
        };
        let started = ask(serde_json::json!({
            "execute": "guest-exec",
            "arguments": { "path": "/bin/sh", "arg": ["-c", script], "capture-output": true },
        }))?;
        loop {
            let status = ask(serde_json::json!({
                "execute": "guest-exec-status",
                "arguments": { "pid": started["pid"] },
            }))?;
            if status["exited"] == true {
                let output = status["out-data"].as_str().unwrap_or_default();
                let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, output).unwrap();
                return Ok(String::from_utf8(bytes).unwrap().trim().to_owned());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether a guest that answers has such a file.
    pub(crate) fn guest_has(&self, domain: &str, file: &str) -> bool {
        let told = self.try_in_guest(domain, &format!("test -e {file} && echo there"));
        told.is_ok_and(|told| told == "there")
    }

    /// Whether the daemon answers.
    pub(crate) fn answers(&self) -> bool {
        let asked = Blocking::new("virsh").args(["-q", "-c", &self.uri(), "uri"]).output();
        asked.unwrap().status.success()
    }

    /// Loses power.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Boots it again.
    pub(crate) async fn boot(&mut self) {
        self.child = boot(self.dir.path());
        self.ready().await;
    }

    /// Sends a signal to its daemon alone.
    pub(crate) fn signal_daemon(&self, signal: &str) {
        let space = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = space(&self.leader());
        assert!(own.is_some());
        let mut sent = 0;
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry.file_name().into_string().unwrap();
            let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if line
                .split('\0')
                .next()
                .is_some_and(|program| program.ends_with("libvirtd"))
                && space(&pid) == own
            {
                assert!(
                    Blocking::new("kill")
                        .args(["-s", signal, &pid])
                        .status()
                        .unwrap()
                        .success()
                );
                sent += 1;
            }
        }
        assert_eq!(sent, 1, "one daemon");
    }

    /// Starts a daemon that was ended; the old one may hold its file of the process id for a moment longer.
    pub(crate) async fn start_daemon(&self) {
        soon("the daemon starts again", || {
            self.enter().args(["libvirtd", "-d"]).status().unwrap().success()
        })
        .await;
    }

    /// Its first process, by which others get into its namespaces.
    pub(crate) fn leader(&self) -> String {
        let outer = self.child.id().unwrap();
        let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
        children.split_whitespace().next().unwrap().to_owned()
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }
}

fn boot(dir: &Path) -> Child {
    // Of the boot before.
    drop(std::fs::remove_file(dir.join("run/lab-ready")));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/src/lab/host.sh");
    let log = std::fs::File::create(dir.join("lab.log")).unwrap();
    // It goes with us, however we go. The kernel means the thread that starts it: here that of the test.
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(script)
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

fn lines(text: &str) -> Vec<String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Waits for a condition, for a minute or two: the machine may be busy.
pub(crate) async fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let end = tokio::time::Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(tokio::time::Instant::now() < end, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
