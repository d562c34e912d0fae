//! ssh, by the `ssh` of the machine: its configuration, jump hosts, agent, keys and known hosts all count.

use tokio::process::Command;

use super::{Proof, Verify, host, proofs, remote::Remote};
use crate::uri::{Error, Uri};

/// The command that reaches the daemon of `uri`.
pub(crate) fn command(uri: &Uri, read_only: bool) -> Result<Command, Error> {
    let mut ssh = Command::new(uri.parameter("command").unwrap_or("ssh"));
    ssh.args(arguments(uri, read_only)?);
    Ok(ssh)
}

fn arguments(uri: &Uri, read_only: bool) -> Result<Vec<String>, Error> {
    let host = host(uri)?;
    let mut out: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| out.extend(words.iter().map(|w| (*w).to_owned()));
    // The port only when it is in the URI: the user's configuration may have another.
    if let Some(port) = uri.port() {
        add(&["-p", &port.to_string()]);
    }
    if let Some(user) = uri.user() {
        add(&["-l", user]);
    }
    let proofs = proofs(uri)?;
    if let Some(key) = uri.parameter("keyfile").filter(|_| proofs != [Proof::Agent]) {
        add(&["-i", key]);
    }
    // There is nobody to ask, so nothing may be asked.
    add(&["-T", "-e", "none", "-o", "BatchMode=yes"]);
    uri.switch("no_tty")?;
    let strict = match Verify::of(uri)? {
        Verify::Strictly => "yes",
        Verify::Learning => "accept-new",
        Verify::Not => "no",
    };
    add(&["-o", &format!("StrictHostKeyChecking={strict}")]);
    if let Some(file) = uri.parameter("known_hosts") {
        add(&["-o", &format!("UserKnownHostsFile={file}")]);
    }
    // ssh tries the agent and the keys it has by itself, unless it is told to leave one of them alone.
    match proofs.as_slice() {
        [Proof::Key] => add(&["-o", "IdentityAgent=none"]),
        [Proof::Agent] => add(&["-o", "IdentityFile=none"]),
        _ => {}
    }
    add(&["--", host, &Remote::of(uri, read_only)?.command()]);
    Ok(out)
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
    fn a_way_to_prove_oneself_that_is_not_named_is_not_tried() {
        let key = line("qemu+ssh://h/system?sshauth=privkey&keyfile=/k");
        assert!(key.contains("-i /k") && key.contains("IdentityAgent=none"), "{key}");
        let agent = line("qemu+ssh://h/system?sshauth=agent&keyfile=/k");
        assert!(
            !agent.contains("-i /k") && agent.contains("IdentityFile=none"),
            "{agent}"
        );
        let both = line("qemu+ssh://h/system?sshauth=agent,privkey");
        assert!(!both.contains("Identity"), "{both}");
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
