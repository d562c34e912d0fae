//! Parts of tests that only another process can do: as another user, among other files.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use libvirt_rpc::Connection;

use crate::{
    libvirtd::{Libvirtd, is_installed},
    support::soon,
};

/// Who owns nothing.
const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];
const MARK: &str = "ELSEWHERE ";

/// What became of the URIs in a process that is started by `how`.
pub(crate) async fn outcomes(how: &[&str], part: &str, uris: &[&str], env: &[(&str, &Path)]) -> Vec<String> {
    let (program, arguments) = how.split_first().unwrap();
    let run = tokio::process::Command::new(program)
        .args(arguments)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "elsewhere::part", "--nocapture"])
        .env("ELSEWHERE_PART", part)
        .env("ELSEWHERE_URIS", uris.join("\n"))
        .envs(env.iter().copied())
        .kill_on_drop(true)
        .output();
    let done = tokio::time::timeout(Duration::from_secs(120), run)
        .await
        .expect("it hangs")
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        done.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let marked = text.lines().filter_map(|line| line.split_once(MARK));
    marked.map(|(_, outcome)| outcome.to_owned()).collect()
}

/// The other process; nothing to do in this one.
#[tokio::test]
async fn part() {
    let Ok(uris) = std::env::var("ELSEWHERE_URIS") else {
        return;
    };
    let part = std::env::var("ELSEWHERE_PART").unwrap();
    for uri in uris.lines() {
        if part == "growth" {
            println!("\n{MARK}{}", crate::rows::growth().await);
            continue;
        }
        let outcome = match soon(Connection::open(uri)).await {
            Ok(c) if part == "define" => define(&c).await,
            Ok(c) => format!("ok {}", c.uri().await.unwrap()),
            Err(error) => format!("{:?}: {error}", error.kind()),
        };
        println!("\n{MARK}{outcome}");
    }
}

async fn define(c: &Connection) -> String {
    let patient = c.with_deadline(Duration::from_secs(100));
    let mut out = Vec::new();
    for name in ["bf-x", "other"] {
        let xml = format!(
            "<domain type='qemu'><name>{name}</name><memory>65536</memory><os><type arch='x86_64'>hvm</type></os></domain>"
        );
        let defined = patient.domain_define(&xml, Default::default()).await;
        out.push(defined.map_or_else(|error| error.to_string(), |domain| domain.name.to_string()));
    }
    let visible: Vec<_> = c
        .domains(Default::default())
        .await
        .unwrap()
        .iter()
        .map(|d| d.name.to_string())
        .collect();
    out.push(visible.join(","));
    out.push(c.networks(Default::default()).await.unwrap().len().to_string());
    out.join(" | ")
}

fn lacks(test: &str, program: &str, package: &str) -> bool {
    let missing = !is_installed(program) && !Path::new("/usr/lib/polkit-1").join(program).exists();
    if missing {
        assert!(
            std::env::var_os("CI").is_none(),
            "{test} needs {program}: install {package}"
        );
        eprintln!("SKIPPED {test}: {program} is missing (install {package})");
    }
    missing
}

#[tokio::test]
async fn modular_and_old_sockets_are_found_and_a_mode_is_kept_to() {
    let Some(daemon) = Libvirtd::start("modular").await else {
        return;
    };
    let leader = daemon.leader();
    let within = ["nsenter", "--mount", "--target", &leader];
    let uris = [
        "qemu:///system",
        "qemu:///system?mode=direct",
        "qemu:///system?mode=legacy",
    ];
    let old = outcomes(&within, "open", &uris, &[]).await;
    assert!(
        old[0] == "ok qemu:///system" && old[2] == "ok qemu:///system",
        "{old:?}"
    );
    assert!(
        old[1].starts_with("Connect") && old[1].contains("virtqemud-sock"),
        "{old:?}"
    );
    let run = daemon.folder().join("run");
    std::fs::rename(run.join("libvirt-sock"), run.join("virtqemud-sock")).unwrap();
    let new = outcomes(&within, "open", &uris, &[]).await;
    assert!(
        new[0] == "ok qemu:///system" && new[1] == "ok qemu:///system",
        "{new:?}"
    );
    assert!(
        new[2].starts_with("Connect") && new[2].contains("libvirt-sock"),
        "{new:?}"
    );
}

/// Row 22: go-libvirt#51, #73.
#[tokio::test]
async fn row_22_the_daemon_of_a_user_is_the_one_a_session_means() {
    if lacks("session", "libvirtd", "libvirt-daemon-system") || lacks("session", "setpriv", "util-linux") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let owned = Command::new("chown").arg("65534:65534").arg(home.path()).status();
    if !owned.unwrap().success() {
        assert!(std::env::var_os("CI").is_none(), "run as root");
        eprintln!("SKIPPED session: only root can become somebody else");
        return;
    }
    let env = [("HOME", home.path()), ("XDG_RUNTIME_DIR", home.path())];
    let mut daemon = tokio::process::Command::new("setpriv")
        .args(NOBODY)
        .arg("libvirtd")
        .envs(env)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let socket = home.path().join("libvirt/libvirt-sock");
    soon(async {
        while tokio::net::UnixStream::connect(&socket).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let how = [&["setpriv"][..], &NOBODY].concat();
    let uris = ["qemu:///session", "test:///default", "qemu:///session?mode=direct"];
    let found = outcomes(&how, "open", &uris, &env).await;
    assert_eq!(found[..2], ["ok qemu:///session", "ok test:///default"]);
    assert!(
        found[2].starts_with("Connect") && found[2].contains("libvirt/virtqemud-sock"),
        "{found:?}"
    );
    let homeless = outcomes(
        &[&["env", "-u", "XDG_RUNTIME_DIR"][..], &how].concat(),
        "open",
        &uris[..1],
        &[],
    )
    .await;
    assert!(homeless[0].contains("XDG_RUNTIME_DIR"), "{homeless:?}");
    daemon.kill().await.unwrap();
}

const RULES: &str = r#"
polkit.addRule(function(action, subject) {
    if (subject.user != "nobody") return polkit.Result.NOT_HANDLED;
    if (action.id == "org.libvirt.unix.manage") return polkit.Result.YES;
    if (action.id.indexOf("org.libvirt.api.connect.") == 0) return polkit.Result.YES;
    if (action.id.indexOf("org.libvirt.api.domain.") == 0)
        return action.lookup("domain_name").indexOf("bf-") == 0 ? polkit.Result.YES : polkit.Result.NO;
    return polkit.Result.NO;
});
"#;

/// polkit looks for who calls by the number of the process, so that all have to count processes alike.
const POLKIT: &str = r#"
mkdir -p /run/dbus /run/polkit-1
mount -t tmpfs tmpfs /etc/polkit-1/rules.d
printf '%s' "$rules" >/etc/polkit-1/rules.d/10-test.rules
chmod 755 /etc/polkit-1/rules.d
dbus-daemon --system --fork
/usr/lib/polkit-1/polkitd --no-debug &
while ! gdbus call --system --dest org.freedesktop.PolicyKit1 --object-path /org/freedesktop/PolicyKit1/Authority \
    --method org.freedesktop.DBus.Peer.Ping >/dev/null 2>&1; do sleep 0.05; done
"#;

#[tokio::test]
async fn polkit_lets_a_user_do_what_its_rules_say_and_no_more() {
    let needs = [
        ("dbus-daemon", "dbus"),
        ("polkitd", "polkitd"),
        ("gdbus", "libglib2.0-bin"),
        ("setpriv", "util-linux"),
    ];
    if needs
        .into_iter()
        .any(|(program, package)| lacks("polkit", program, package))
    {
        return;
    }
    let config = "auth_unix_rw = \"polkit\"\nunix_sock_rw_perms = \"0777\"\naccess_drivers = [ \"polkit\" ]\n";
    let before = format!("rules='{}'\n{POLKIT}", RULES.replace('\'', r"'\''"));
    let nowhere = Path::new("/nonexistent");
    let Some(daemon) = Libvirtd::start_after("polkit", config, false, nowhere, &before).await else {
        return;
    };
    let leader = daemon.leader();
    let enter = ["nsenter", "--mount", "--pid", "--net", "--target", &leader, "setpriv"];
    let how = [&enter[..], &NOBODY].concat();
    let done = outcomes(&how, "define", &["qemu:///system"], &[]).await;
    assert!(done[0].starts_with("bf-x | "), "{done:?}");
    assert!(
        done[0].contains("access denied") && done[0].ends_with("| bf-x | 0"),
        "{done:?}"
    );
    // A user without rules is not let in at all.
    let other = [&enter[..], &["--reuid=4321", "--regid=4321", "--clear-groups"]].concat();
    let refused = outcomes(&other, "open", &["qemu:///system"], &[]).await;
    assert!(!refused[0].starts_with("ok"), "{refused:?}");
}
