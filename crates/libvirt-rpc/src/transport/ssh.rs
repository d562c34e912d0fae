//! ssh, by the `ssh` of the machine: its configuration, jump hosts, agent, keys and known hosts all count.

use tokio::process::Command;

use crate::uri::{Error, Transport, Uri};

/// The command that reaches the daemon of `uri`.
pub(crate) fn command(uri: &Uri, read_only: bool) -> Result<Command, Error> {
    let mut ssh = Command::new(uri.parameter("command").unwrap_or("ssh"));
    ssh.args(arguments(uri, read_only)?);
    Ok(ssh)
}

fn arguments(uri: &Uri, read_only: bool) -> Result<Vec<String>, Error> {
    let host = uri.host().ok_or(Error::Missing {
        transport: "ssh",
        what: "a host",
    })?;
    let mut out: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| out.extend(words.iter().map(|w| (*w).to_owned()));
    // The port only when it is in the URI: the user's configuration may have another.
    if let Some(port) = uri.port() {
        add(&["-p", &port.to_string()]);
    }
    if let Some(user) = uri.user() {
        add(&["-l", user]);
    }
    if let Some(key) = uri.parameter("keyfile") {
        add(&["-i", key]);
    }
    // There is nobody to ask, so nothing may be asked.
    add(&["-T", "-e", "none", "-o", "BatchMode=yes"]);
    uri.switch("no_tty")?;
    let verify = if uri.switch("no_verify")? {
        "ignore"
    } else {
        uri.parameter("known_hosts_verify").unwrap_or("normal")
    };
    let strict = match verify {
        "normal" => "yes",
        "auto" => "accept-new",
        "ignore" => "no",
        other => {
            return Err(bad("known_hosts_verify", other, "normal, auto or ignore is expected"));
        }
    };
    add(&["-o", &format!("StrictHostKeyChecking={strict}")]);
    if let Some(file) = uri.parameter("known_hosts") {
        add(&["-o", &format!("UserKnownHostsFile={file}")]);
    }
    for method in uri.parameter("sshauth").into_iter().flat_map(|list| list.split(',')) {
        if !["agent", "privkey"].contains(&method) {
            return Err(bad(
                "sshauth",
                method,
                "only agent and privkey need nobody at a terminal",
            ));
        }
    }
    add(&["--", host, &remote(uri, read_only)?]);
    Ok(out)
}

/// What runs on the other machine.
fn remote(uri: &Uri, read_only: bool) -> Result<String, Error> {
    let chosen = uri.parameter("socket").is_some() || uri.parameter("netcat").is_some();
    let proxy = uri.parameter("proxy").unwrap_or(if chosen { "netcat" } else { "auto" });
    let helper = format!(
        "virt-ssh-helper {}{}",
        if read_only { "-r " } else { "" },
        quoted(&uri.name())
    );
    let netcat = quoted(uri.parameter("netcat").unwrap_or("nc"));
    let socket = socket(uri, read_only)?;
    // Some netcats stay when their input ends, unless told not to, and others do not know how they are told.
    let proxied = format!(
        "if {netcat} -q 2>&1 | grep 'requires an argument' >/dev/null 2>&1; then Q=-q0; else Q=; fi; exec {netcat} $Q -U {socket}"
    );
    let script = match proxy {
        "native" => format!("exec {helper}"),
        "netcat" => proxied,
        "auto" => format!("if command -v virt-ssh-helper >/dev/null 2>&1; then exec {helper}; fi; {proxied}"),
        other => return Err(bad("proxy", other, "auto, netcat or native is expected")),
    };
    Ok(format!("sh -c {}", quoted(&script)))
}

fn socket(uri: &Uri, read_only: bool) -> Result<String, Error> {
    if let Some(socket) = uri.parameter("socket") {
        return Ok(quoted(socket));
    }
    let name = match (
        uri.parameter("mode").unwrap_or("auto"),
        super::unix::modular(uri.driver()),
    ) {
        ("auto" | "legacy", _) => "libvirt",
        ("direct", Some(daemon)) => daemon,
        (other, _) => return Err(bad("mode", other, "auto, legacy or direct is expected")),
    };
    Ok(if uri.is_session() {
        format!("\"${{XDG_RUNTIME_DIR:-/run/user/$(id -u)}}/libvirt/{name}-sock\"")
    } else {
        format!("/var/run/libvirt/{name}-sock{}", if read_only { "-ro" } else { "" })
    })
}

fn bad(name: &'static str, value: &str, problem: &'static str) -> Error {
    Error::Parameter {
        name,
        value: value.to_owned(),
        problem,
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Parameters that mean something to ssh.
pub(crate) fn parameters(transport: Transport) -> &'static [&'static str] {
    match transport {
        Transport::Ssh => &[
            "socket",
            "mode",
            "command",
            "netcat",
            "proxy",
            "keyfile",
            "no_tty",
            "no_verify",
            "known_hosts",
            "known_hosts_verify",
        ],
        _ => &[
            "socket",
            "mode",
            "netcat",
            "proxy",
            "keyfile",
            "no_verify",
            "known_hosts",
            "known_hosts_verify",
            "sshauth",
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(uri: &str) -> String {
        arguments(&uri.parse().unwrap(), false).unwrap().join(" ")
    }

    #[test]
    fn what_the_uri_leaves_open_is_left_to_the_users_configuration() {
        let bare = line("qemu+ssh://host/system");
        assert!(
            bare.starts_with("-T -e none -o BatchMode=yes -o StrictHostKeyChecking=yes -- host sh -c"),
            "{bare}"
        );
        let full = line("qemu+ssh://me@host:2222/system?keyfile=/k&no_verify=1");
        assert!(
            full.starts_with("-p 2222 -l me -i /k -T") && full.contains("StrictHostKeyChecking=no"),
            "{full}"
        );
    }

    #[test]
    fn the_helper_is_tried_first_unless_the_uri_says_otherwise() {
        assert!(line("qemu+ssh://h/system").contains("virt-ssh-helper"));
        assert!(!line("qemu+ssh://h/system?socket=/s").contains("virt-ssh-helper"));
        assert!(!line("qemu+ssh://h/system?proxy=native").contains(" -U "));
        assert!(line("qemu+ssh://h/session").contains("XDG_RUNTIME_DIR"));
    }

    #[test]
    fn nothing_in_a_uri_becomes_shell() {
        let evil = line("qemu+ssh://h/system?socket=/x';reboot;'");
        assert!(!evil.contains("x';reboot"), "{evil}");
        assert_eq!(quoted("a'b"), r"'a'\''b'");
    }

    #[test]
    fn what_needs_a_terminal_is_refused() {
        for uri in [
            "qemu+libssh://h/?sshauth=password",
            "qemu+ssh://h/?proxy=magic",
            "qemu+ssh:///system",
        ] {
            assert!(arguments(&uri.parse().unwrap(), false).is_err(), "{uri}");
        }
    }
}
