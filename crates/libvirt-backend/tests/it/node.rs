//! What a node itself says and does in its cluster, with the real kubectl, in a root of busybox alone.

use std::{
    path::Path,
    process::{Command, Output},
};

use crate::{
    cluster::{Cluster, NODE, Pod, Ready},
    lab::KUBECTL,
};

const SCRIPT: &str = include_str!("../../src/guest/node.sh");
const RUN: &str = include_str!("../../src/guest/run.sh");
const BUSYBOX: &str = "/bin/busybox";

/// A root file system that a guest might have.
struct Root(tempfile::TempDir);

impl Root {
    fn new(kubectl: &Path) -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for folder in [
            "bin",
            "dev",
            "etc",
            "proc/sys/kernel/random",
            "run",
            "tmp",
            "usr/local/bin",
            "var/lib",
        ] {
            std::fs::create_dir_all(path(folder)).unwrap();
        }
        std::fs::copy(BUSYBOX, path("bin/busybox")).unwrap();
        std::fs::hard_link(kubectl, path("usr/local/bin/kubectl"))
            .or_else(|_| std::fs::copy(kubectl, path("usr/local/bin/kubectl")).map(drop))
            .unwrap();
        for (file, content) in [
            ("dev/null", ""),
            ("proc/mounts", "tmpfs /run tmpfs rw 0 0\n"),
            ("proc/sys/kernel/random/boot_id", "this boot\n"),
        ] {
            std::fs::write(path(file), content).unwrap();
        }
        let installed = Command::new("chroot")
            .arg(root.path())
            .args(["/bin/busybox", "--install", "-s", "/bin"])
            .status()
            .unwrap();
        assert!(installed.success());
        Self(root)
    }

    async fn run(&self, script: &str, arguments: &[&str]) -> Output {
        let mut command = tokio::process::Command::new("chroot");
        command.arg(self.0.path());
        // The environment of the agent's programs.
        command.args(["/bin/busybox", "env", "-i", "PATH=/usr/local/bin:/bin", "HOME=/root"]);
        command.args(["/bin/sh", "-c", script, "node"]).args(arguments);
        command.output().await.unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_asks_and_leaves_its_cluster_with_what_a_kubelet_may() {
    let Some(kubectl) = KUBECTL.or_skip("a_node_asks_and_leaves_its_cluster_with_what_a_kubelet_may") else {
        return;
    };
    let root = Root::new(&kubectl);
    let cluster = Cluster::start(std::net::TcpListener::bind("127.0.0.1:0").unwrap(), Vec::new());
    let ready = async || root.run(SCRIPT, &["ready"]).await;

    let answer = ready().await;
    assert_eq!(answer.status.code(), Some(1));
    assert!(said(&answer).contains("no credentials yet"), "{}", said(&answer));
    let credentials = cluster.credentials();
    assert!(root.run(&credentials, &[]).await.status.success());
    let answer = ready().await;
    assert_eq!(answer.status.code(), Some(1), "{}", said(&answer));
    assert!(
        said(&answer).contains(&format!("\"{NODE}\" not found")),
        "{}",
        said(&answer)
    );
    cluster.state().ready = Ready::After(1);
    let answer = ready().await;
    assert_eq!(answer.status.code(), Some(1));
    let words = format!("node {NODE} is not Ready: False KubeletNotReady: container runtime network not ready");
    assert!(said(&answer).contains(&words), "{}", said(&answer));
    assert_eq!(said(&ready().await), "Ready\n");

    // One that its budget holds is left; the others went, but for those that no drain takes.
    cluster.state().pods = vec![
        Pod::of("bare", None),
        Pod {
            held: true,
            ..Pod::of("held", Some("ReplicaSet"))
        },
        Pod::of("proxy", Some("DaemonSet")),
        Pod {
            mirror: true,
            ..Pod::of("static", Some("Node"))
        },
        Pod::of("web", Some("ReplicaSet")),
    ];
    let answer = root.run(SCRIPT, &["drain", "8"]).await;
    assert_eq!(answer.status.code(), Some(1), "{}", said(&answer));
    assert!(
        said(&answer).contains("not empty after 8 s: default held"),
        "{}",
        said(&answer)
    );
    {
        let state = cluster.state();
        let left: Vec<_> = state.pods.iter().map(|pod| pod.name).collect();
        assert_eq!(left, ["held", "proxy", "static"], "{}", state.asked());
        assert!(state.cordoned, "{}", state.asked());
    }
    let left = root.run("ls /etc/kubernetes /var/lib/kubelet /run", &[]).await;
    assert_eq!(
        said(&left),
        "/etc/kubernetes:\n\n/run:\n\n/var/lib/kubelet:\n",
        "credentials and cache are gone"
    );

    // Nobody holds anything any more.
    assert!(root.run(&credentials, &[]).await.status.success());
    for pod in &mut cluster.state().pods {
        pod.held = false;
    }
    let answer = root.run(SCRIPT, &["drain", "60"]).await;
    assert_eq!(answer.status.code(), Some(0), "{}", said(&answer));
    let state = cluster.state();
    let left: Vec<_> = state.pods.iter().map(|pod| pod.name).collect();
    assert_eq!(left, ["proxy", "static"], "{}", state.asked());
}

/// Field report F59, and what systemd-run would make of a `$`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_is_given_its_words_as_they_are_and_tells_its_end_as_often_as_it_is_asked() {
    let test = "a_hook_is_given_its_words_as_they_are_and_tells_its_end_as_often_as_it_is_asked";
    let Some(kubectl) = KUBECTL.or_skip(test) else {
        return;
    };
    let root = Root::new(&kubectl);
    let run = async |arguments: &[&str]| {
        let answer = root.run(RUN, arguments).await;
        assert!(answer.status.success(), "{arguments:?}: {}", said(&answer));
        said(&answer).trim().to_owned()
    };
    let words = "it's $HOME, \"${count}\" and `date`\n  %n\\";
    let environment = format!("WORDS={words}");
    let hook = "printf '%s|%s' \"$WORDS\" \"$1\"; exit 7";
    assert_eq!(run(&["poll", "a"]).await, "none");
    run(&["start", "a", "1", &environment, "/bin/sh", "-c", hook, "hook", words]).await;
    while run(&["poll", "a"]).await == "running" {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    for _ in 0..2 {
        assert_eq!(run(&["poll", "a"]).await, "code=7");
        assert_eq!(run(&["tail", "a", "4096"]).await, format!("{words}|{words}"));
    }
    assert_eq!(run(&["start", "a", "0", "/bin/false"]).await, "started", "once");
    assert_eq!(run(&["poll", "a"]).await, "code=7");
}
