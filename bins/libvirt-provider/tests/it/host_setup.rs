//! A host set up as docs/host-setup.md says: the polkit rule lets the provider's user do its work, and nothing else.

use std::{
    fs,
    os::unix::{fs as unix, fs::PermissionsExt as _},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use bigfleet_proto::MachineState as S;
use tempfile::TempDir;

use crate::{
    harness::{Binding, Launch, Step, Token, eventually, operation},
    lab::{Host, soon},
};

/// Guests are emulated, on a machine that has other things to do.
const PATIENT: Duration = Duration::from_secs(300);
const UID: u32 = 64_123;

/// Before the daemon starts: a user of the name that the rule has, the rule, polkit and what it needs. All of it is in
/// the host's own mounts.
const BEFORE: &str = r#"#!/bin/bash
set -eu
cp /etc/passwd /run/passwd
echo "bigfleet:x:64123:64123::/nonexistent:/usr/sbin/nologin" >>/run/passwd
mount --bind /run/passwd /etc/passwd
cp /etc/group /run/group
echo "bigfleet:x:64123:" >>/run/group
mount --bind /run/group /etc/group
mkdir -p /run/dbus /run/polkit-1
mount -t tmpfs -o mode=755 tmpfs /etc/polkit-1/rules.d
cp "$dir/libvirtd.conf" /etc/libvirt/libvirtd.conf
install -m 644 "$dir/rules" /etc/polkit-1/rules.d/50-libvirt-provider.rules
dbus-daemon --system --fork
/usr/lib/polkit-1/polkitd --no-debug &
until gdbus call --system --dest org.freedesktop.PolicyKit1 --object-path /org/freedesktop/PolicyKit1/Authority \
    --method org.freedesktop.DBus.Peer.Ping >/dev/null 2>&1; do sleep 0.05; done
"#;

const DAEMON: &str = r#"auth_unix_rw = "polkit"
unix_sock_rw_perms = "0777"
access_drivers = [ "polkit" ]
"#;

fn missing() -> Option<String> {
    let programs = [
        ("/usr/bin/dbus-daemon", "dbus"),
        ("/usr/lib/polkit-1/polkitd", "polkitd"),
        ("/usr/bin/gdbus", "libglib2.0-bin"),
        ("/usr/bin/setpriv", "util-linux"),
    ];
    let lacking = programs.into_iter().find(|(program, _)| !Path::new(program).exists());
    lacking.map(|(program, package)| format!("{program} is missing (install {package})"))
}

/// The words that run a command in the host, as somebody: polkit looks for callers by the number of their process, so that
/// all have to count processes alike.
fn enter(host: &Host, uid: u32) -> Vec<String> {
    let (leader, id) = (host.leader(), uid.to_string());
    let nsenter = ["nsenter", "--mount", "--pid", "--target", &leader];
    let setpriv = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"];
    nsenter.iter().chain(&setpriv).map(|word| (*word).to_owned()).collect()
}

/// What virsh prints, or why it does not.
fn virsh(host: &Host, uid: u32, arguments: &[&str]) -> Result<String, String> {
    let words = enter(host, uid);
    let output = Command::new(&words[0])
        .args(&words[1..])
        .args(["virsh", "-q", "-c", "qemu:///system"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}

/// The first word of each line that root's virsh prints.
fn names(host: &Host, arguments: &[&str]) -> Vec<String> {
    let lines = virsh(host, 0, arguments).unwrap();
    let words = lines.lines().filter_map(|line| line.split_whitespace().next());
    words.map(str::to_owned).collect()
}

fn domains(host: &Host) -> Vec<String> {
    names(host, &["list", "--all", "--name"])
}

const FOREIGN: &str = "<domain type='qemu'><name>payroll</name><memory unit='MiB'>64</memory>\
                       <os><type arch='x86_64'>hvm</type></os></domain>";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_polkit_rule_is_enough_for_a_machines_whole_life_and_for_nothing_else() {
    let test = "the_polkit_rule_is_enough_for_a_machines_whole_life_and_for_nothing_else";
    if let Some(missing) = missing() {
        eprintln!("SKIPPED {test}: {missing}");
        assert!(std::env::var_os("CI").is_none(), "where CI is set, all must run");
        return;
    }
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../images/host/50-libvirt-provider.rules");
    let prepare = |dir: &Path| {
        fs::copy(&rules, dir.join("rules")).unwrap();
        fs::write(dir.join("before"), BEFORE).unwrap();
        fs::set_permissions(dir.join("before"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(dir.join("libvirtd.conf"), DAEMON).unwrap();
    };
    let Some(host) = Host::start_prepared(test, prepare).await else {
        return;
    };
    let directory = TempDir::new().unwrap();
    unix::chown(directory.path(), Some(UID), Some(UID)).unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        unix::chown(&path, Some(UID), Some(UID)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for prepared in [
        &["define", &file("payroll.xml", FOREIGN)][..],
        &["vol-create-as", "default", "payroll.img", "1M"],
        &["pool-define-as", "vault", "dir", "--target", "/var/lib/libvirt/vault"],
        &["pool-build", "vault"],
        &["pool-start", "vault"],
    ] {
        virsh(&host, 0, prepared).unwrap();
    }

    // The whole life of a machine.
    // Where that user may read it.
    let binary = directory.path().join("libvirt-provider");
    fs::copy(env!("CARGO_BIN_EXE_libvirt-provider"), &binary).unwrap();
    let mut words = enter(&host, UID);
    words.push(binary.to_str().unwrap().to_owned());
    let provider = Launch::on(directory.path().join("state.db"))
        .program(words.into_iter().map(Into::into))
        .without_fake()
        .flag("--connect=qemu:///system")
        .flag("--image=tiny.qcow2")
        .flag("--set=machine.accelerator=qemu")
        .flag("--set=budget.pool_reserve_gib=0")
        .flag("--set=capacity.instance_types_file=")
        .env(
            "LIBVIRT_PROVIDER__CAPACITY__OFFERINGS",
            r#"[{"instance_type": "tiny", "zone": "local", "count": 1}]"#,
        )
        .env(
            "LIBVIRT_PROVIDER__CAPACITY__INSTANCE_TYPES",
            r#"{"tiny": {"vcpu": 1, "memory_mib": 128}}"#,
        )
        .start()
        .await;
    eventually("a slot is offered", PATIENT, async || {
        !provider.fleet().await.is_empty()
    })
    .await;
    let id = provider.pick_one().await;
    let binding = Binding::to("blue").blob("#!/bin/sh\n");
    for step in Step::ALL {
        operation(step.call(&provider, &id, &binding, &Token::unfenced()).await);
        provider.reach_within(&id, step.target(), PATIENT).await;
        if step.target() == S::Idle {
            assert!(domains(&host).iter().any(|name| name.starts_with("bf-")));
        }
    }
    assert_eq!(domains(&host), ["payroll"]);
    assert_eq!(names(&host, &["vol-list", "default"]), ["payroll.img", "tiny.qcow2"]);

    // Nobody else's is touched, and of what is not needed nothing can be done.
    assert!(
        virsh(&host, UID, &["domstate", "payroll"]).is_ok(),
        "others are counted"
    );
    for refused in [
        &["start", "payroll"][..],
        &["undefine", "payroll"],
        &["destroy", "payroll"],
        &["autostart", "payroll"],
        &["dumpxml", "--security-info", "payroll"],
        &["vol-delete", "payroll.img", "default"],
        &["vol-delete", "tiny.qcow2", "default"],
        &["vol-create-as", "default", "mine.img", "1M"],
        &["vol-upload", "tiny.qcow2", "/bin/true", "default"],
        &["vol-download", "payroll.img", "/dev/null", "default"],
        &["pool-destroy", "default"],
        &["pool-info", "vault"],
        &["vol-list", "vault"],
        &["net-destroy", "default"],
        &["nodedev-list"],
        &["secret-list"],
    ] {
        let said = virsh(&host, UID, refused);
        // A list of what may not be searched is an error; what may not be seen does not exist.
        let hidden = said
            .as_ref()
            .is_err_and(|said| said.contains("access denied") || said.contains("not found"));
        assert!(hidden, "{refused:?}: {said:?}");
    }
    let intruder = file("intruder.xml", &FOREIGN.replace("payroll", "intruder"));
    let said = virsh(&host, UID, &["define", &intruder]);
    assert!(
        said.as_ref().is_err_and(|said| said.contains("access denied")),
        "{said:?}"
    );
    assert_eq!(domains(&host), ["payroll"]);
}

/// Before the daemon starts: what docs/host-setup.md puts on the host, in an `/etc` of its own, and a name for it.
const BEFORE_TLS: &str = r#"#!/bin/bash
set -eu
cp -a /etc /run/etc
mount --bind /run/etc /etc
mount --bind "$dir/etc" /etc/libvirt
echo "127.0.0.1 host-a" >>/etc/hosts
mkdir -p /etc/pki/CA /etc/pki/libvirt/private
cp "$dir/pki/cacert.pem" /etc/pki/CA/
cp "$dir/pki/servercert.pem" /etc/pki/libvirt/
cp "$dir/pki/serverkey.pem" /etc/pki/libvirt/private/
echo 'tls_allowed_dn_list = ["CN=libvirt-provider"]' >>/etc/libvirt/libvirtd.conf
"#;

/// The steps of the page that make certificates, as one would type them.
fn certificates(folder: &Path) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/host-setup.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks = page.split("```sh\n").skip(1);
    let blocks: Vec<_> = blocks
        .map(|block| block.split_once("\n```").unwrap().0)
        .filter(|block| block.contains("certtool"))
        .collect();
    let [steps] = blocks[..] else { panic!("{blocks:?}") };
    // And, by the same authority, somebody whom the host does not know.
    let other = steps.rsplit("certtool --generate-certificate").next().unwrap();
    let other = other
        .replace("cn = libvirt-provider", "cn = somebody")
        .replace("clientcert", "othercert");
    let output = Command::new("bash")
        .args(["-ec", &format!("{steps}\ncerttool --generate-certificate{other}")])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_steps_for_tls_let_the_provider_in_and_nobody_else() {
    let test = "the_steps_for_tls_let_the_provider_in_and_nobody_else";
    if !Path::new("/usr/bin/certtool").exists() {
        eprintln!("SKIPPED {test}: certtool is missing (install gnutls-bin)");
        assert!(std::env::var_os("CI").is_none(), "where CI is set, all must run");
        return;
    }
    let prepare = |dir: &Path| {
        fs::create_dir(dir.join("pki")).unwrap();
        certificates(&dir.join("pki"));
        fs::write(dir.join("before"), BEFORE_TLS).unwrap();
        fs::set_permissions(dir.join("before"), fs::Permissions::from_mode(0o755)).unwrap();
    };
    let Some(host) = Host::start_prepared(test, prepare).await else {
        return;
    };
    // What `libvirtd-tls.socket` does where systemd is.
    host.signal_daemon("TERM");
    soon("the daemon listens", || {
        let started = host.enter().args(["libvirtd", "-d", "--listen"]).status();
        started.unwrap().success()
    })
    .await;
    let pki = host.dir().join("pki");
    let seen = || {
        let output = host
            .enter()
            .arg(env!("CARGO_BIN_EXE_libvirt-provider"))
            .args(["inspect", "hosts", "-o", "json", "--image=tiny.qcow2"])
            .arg(format!("--connect=qemu+tls://host-a/system?pkipath={}", pki.display()))
            .output()
            .unwrap();
        serde_json::from_slice::<serde_json::Value>(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    };
    let known = seen();
    assert!(known[0]["cpus"].as_u64().is_some_and(|cpus| cpus > 0), "{known}");
    fs::rename(pki.join("othercert.pem"), pki.join("clientcert.pem")).unwrap();
    let stranger = seen();
    let error = stranger[0]["error"].as_str().unwrap();
    assert!(
        error.contains("does not accept this client's certificate"),
        "{stranger}"
    );
}
