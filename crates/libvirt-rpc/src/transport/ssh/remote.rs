//! What is run on the other machine.

use super::bad;
use crate::uri::{Error, Uri};

/// How the other machine is to reach the daemon.
#[derive(Debug)]
pub(super) struct Remote {
    /// `virt-ssh-helper`, unless the URI says otherwise.
    pub(super) helper: Option<String>,
    /// `nc`, unless the URI says otherwise.
    pub(super) netcat: Option<String>,
    /// The sockets it could be, where that can be known from here and the URI does not say how to reach them.
    #[cfg_attr(
        not(feature = "russh"),
        allow(dead_code, reason = "the machine's ssh does not forward")
    )]
    pub(super) sockets: Vec<String>,
}

impl Remote {
    pub(super) fn of(uri: &Uri, read_only: bool) -> Result<Self, Error> {
        let chosen = uri.parameter("socket").is_some() || uri.parameter("netcat").is_some();
        let (helper, netcat) = match uri.parameter("proxy") {
            None => (!chosen, true),
            Some("auto") => (true, true),
            Some("native") => (true, false),
            Some("netcat") => (false, true),
            Some(other) => return Err(bad("proxy", other, "auto, netcat or native is expected")),
        };
        let sockets = sockets(uri, read_only)?;
        Ok(Self {
            helper: helper.then(|| self::helper(uri, read_only)),
            netcat: netcat.then(|| self::netcat(uri, &sockets)),
            sockets: match uri.parameter("proxy") {
                None | Some("auto") => sockets.into_iter().filter_map(Socket::known).collect(),
                _ => Vec::new(),
            },
        })
    }

    /// One command that tries the one and else the other.
    pub(super) fn command(&self) -> String {
        let script = match (&self.helper, &self.netcat) {
            (Some(helper), Some(netcat)) => {
                format!("if command -v virt-ssh-helper >/dev/null 2>&1; then {helper}; fi; {netcat}")
            }
            (one, other) => one.iter().chain(other).map(String::as_str).collect(),
        };
        in_shell(&script)
    }
}

/// A command for whatever shell the user has there.
pub(super) fn in_shell(script: &str) -> String {
    format!("sh -c {}", quoted(script))
}

fn helper(uri: &Uri, read_only: bool) -> String {
    let flag = if read_only { "-r " } else { "" };
    format!("exec virt-ssh-helper {flag}{}", quoted(&uri.name()))
}

/// Some netcats stay when their input ends, unless told not to, and others do not know how they are told.
fn netcat(uri: &Uri, sockets: &[Socket]) -> String {
    let netcat = quoted(uri.parameter("netcat").unwrap_or("nc"));
    let choose: Vec<_> = sockets.iter().map(|socket| format!("S={}", socket.word())).collect();
    // The first that is there, else the last, of which netcat will say what is the matter.
    let choose = choose.join("; [ -S \"$S\" ] || ");
    format!(
        "{choose}; if {netcat} -q 2>&1 | grep 'requires an argument' >/dev/null 2>&1; then Q=-q0; else Q=; fi; \
         exec {netcat} $Q -U \"$S\""
    )
}

#[derive(Debug)]
enum Socket {
    /// A path.
    At(String),
    /// The name of a socket of a user's own daemon.
    Session(&'static str),
}

impl Socket {
    fn word(&self) -> String {
        match self {
            Self::At(path) => quoted(path),
            Self::Session(name) => format!("\"${{XDG_RUNTIME_DIR:-/run/user/$(id -u)}}/libvirt/{name}-sock\""),
        }
    }

    fn known(self) -> Option<String> {
        match self {
            Self::At(path) => Some(path),
            Self::Session(_) => None,
        }
    }
}

fn sockets(uri: &Uri, read_only: bool) -> Result<Vec<Socket>, Error> {
    if let Some(socket) = uri.parameter("socket") {
        return Ok(vec![Socket::At(socket.to_owned())]);
    }
    let modular = crate::transport::unix::modular(uri.driver());
    let names = match (uri.parameter("mode").unwrap_or("auto"), modular) {
        ("auto", Some(daemon)) => vec![daemon, "libvirt"],
        ("auto" | "legacy", _) => vec!["libvirt"],
        ("direct", Some(daemon)) => vec![daemon],
        (other, _) => return Err(bad("mode", other, "auto, legacy or direct is expected")),
    };
    let suffix = if read_only { "-ro" } else { "" };
    let socket = |name: &'static str| {
        if uri.is_session() {
            Socket::Session(name)
        } else {
            Socket::At(format!("/var/run/libvirt/{name}-sock{suffix}"))
        }
    };
    Ok(names.into_iter().map(socket).collect())
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(uri: &str) -> String {
        Remote::of(&uri.parse().unwrap(), false).unwrap().command()
    }

    #[test]
    fn the_helper_is_tried_first_unless_the_uri_says_otherwise() {
        assert!(line("qemu+ssh://h/system").contains("virt-ssh-helper"));
        assert!(!line("qemu+ssh://h/system?socket=/s").contains("virt-ssh-helper"));
        assert!(!line("qemu+ssh://h/system?proxy=native").contains(" -U "));
        assert!(line("qemu+ssh://h/session").contains("XDG_RUNTIME_DIR"));
        assert!(line("qemu+ssh://h/system").contains("virtqemud-sock"));
        assert!(!line("qemu+ssh://h/system?mode=legacy").contains("virtqemud-sock"));
    }

    #[test]
    fn nothing_in_a_uri_becomes_shell() {
        let evil = line("qemu+ssh://h/system?socket=/x';reboot;'");
        assert!(!evil.contains("x';reboot"), "{evil}");
        assert_eq!(quoted("a'b"), r"'a'\''b'");
    }

    #[test]
    fn what_is_said_to_be_the_way_is_the_only_one() {
        let remote = |uri: &str| Remote::of(&uri.parse().unwrap(), false).unwrap();
        assert!(remote("qemu+ssh://h/system?proxy=netcat&socket=/s").sockets.is_empty());
        assert_eq!(remote("qemu+ssh://h/system?socket=/s").sockets, ["/s"]);
        assert!(
            remote("qemu+ssh://h/session").sockets.is_empty(),
            "nobody here knows where"
        );
        assert!(remote("qemu+ssh://h/system?proxy=native").netcat.is_none());
    }
}
