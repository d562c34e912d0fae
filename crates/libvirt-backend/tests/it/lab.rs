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

/// The tiny golden image, or why there is none.
fn image() -> Result<PathBuf, String> {
    let path = std::env::var_os("LIBVIRT_PROVIDER_TINY_IMAGE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/golden/tiny.qcow2"),
        PathBuf::from,
    );
    if path.exists() {
        Ok(path)
    } else {
        Err(format!("{} is missing (run `cargo xtask lab image`)", path.display()))
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
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    program
        .map(|program| format!("{program} is missing"))
        .or_else(|| (!root).then(|| "root is missing".to_owned()))
        .or_else(|| image().err())
}

impl Host {
    /// Starts one with the tiny image in its pool, or says loudly why not. In CI a missing package is a failure.
    pub(crate) async fn start(test: &str) -> Option<Self> {
        Self::start_with(test, |_| ()).await
    }

    /// The same, after its folder was prepared.
    pub(crate) async fn start_with(test: &str, prepare: impl FnOnce(&Path)) -> Option<Self> {
        if let Some(missing) = missing() {
            assert!(std::env::var_os("CI").is_none(), "{test}: {missing}");
            eprintln!("SKIPPED {test}: {missing}");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("lab-").tempdir().unwrap();
        let images = dir.path().join("lib/images");
        std::fs::create_dir_all(&images).unwrap();
        std::fs::copy(image().unwrap(), images.join("tiny.qcow2")).unwrap();
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
        let output = Blocking::new("virsh")
            .args(["-q", "-c", &self.uri()])
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "virsh {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        text.trim().to_owned()
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
        names.filter(|name| *name != "tiny.qcow2").map(str::to_owned).collect()
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
        let ask = |command: serde_json::Value| -> serde_json::Value {
            let answer = self.virsh(&["qemu-agent-command", "--timeout", "20", domain, &command.to_string()]);
            serde_json::from_str::<serde_json::Value>(&answer).unwrap()["return"].take()
        };
        let started = ask(serde_json::json!({
            "execute": "guest-exec",
            "arguments": { "path": "/bin/sh", "arg": ["-c", script], "capture-output": true },
        }));
        loop {
            let status = ask(serde_json::json!({
                "execute": "guest-exec-status",
                "arguments": { "pid": started["pid"] },
            }));
            if status["exited"] == true {
                let output = status["out-data"].as_str().unwrap_or_default();
                let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, output).unwrap();
                return String::from_utf8(bytes).unwrap().trim().to_owned();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
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
        let init = self.leader();
        soon("the daemon starts again", || {
            let started = Blocking::new("nsenter")
                .args(["--target", &init, "--mount", "--net", "--pid", "--", "libvirtd", "-d"])
                .status();
            started.unwrap().success()
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
    Command::new(script)
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
