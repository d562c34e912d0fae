//! ssh: in pure Rust (feature `russh`), or by the `ssh` of the machine.
//!
//! With the feature, all three of `+ssh`, `+libssh` and `+libssh2` are spoken by this library, unless
//! [`Options::ssh`](crate::Options::ssh) says [`Ssh::System`] or the URI names a program (`command=`).
//!
//! # In pure Rust
//!
//! - `~/.ssh/config` is **not** read: host, port (22) and user (ours) are what the URI says, and there are no jumps.
//! - The host must be known, in `~/.ssh/known_hosts` or `/etc/ssh/ssh_known_hosts` for `+ssh`, in
//!   `~/.config/libvirt/known_hosts` for the other two, or in the file `known_hosts=` names: by name, pattern or hash,
//!   as `[host]:port` where the port is not 22. `HostKeyError` says what is wrong and what to do.
//!   `known_hosts_verify=auto` learns hosts nobody has a key of; `ignore` (or `no_verify=1`) takes any key but a
//!   revoked one. Certificates of hosts are not supported.
//! - We are who a key proves: `keyfile=`, else those of the agent (`Options::ssh_agent`, else `SSH_AUTH_SOCK`),
//!   else `~/.ssh/id_ed25519`, `id_ecdsa`, `id_rsa`; `sshauth=agent,privkey` orders or restricts them. An encrypted
//!   key needs `Options::passphrase`. Passwords are refused.
//! - On the host `virt-ssh-helper` is tried, then `nc`, then forwarding to the socket; `proxy=`, `netcat=` and
//!   `socket=` narrow that. An error says what each of them said.
//! - All files are read anew for every connection, and all of it is within
//!   [`Options::connect_timeout`](crate::Options::connect_timeout).
//!
//! # By the `ssh` of the machine
//!
//! Its configuration, jump hosts, agent, keys and known hosts all count; it is asked to ask nobody anything.

#[cfg(feature = "russh")]
mod channel;
#[cfg(feature = "russh")]
mod host_key;
#[cfg(feature = "russh")]
mod identity;
#[cfg(feature = "russh")]
mod known_hosts;
mod remote;
#[cfg(feature = "russh")]
mod session;
mod system;

#[cfg(feature = "russh")]
pub use self::host_key::{HostKeyError, HostKeyProblem, Place};
#[cfg(feature = "russh")]
pub(crate) use self::session::open;
pub(crate) use self::system::command;
use crate::uri::{Error, Transport, Uri};

/// Who speaks ssh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ssh {
    /// The `ssh` of the machine, with all it has been configured to do: `~/.ssh/config`, jump hosts, the agent.
    #[cfg_attr(not(feature = "russh"), default)]
    System,
    /// This library itself. It needs nothing on the machine, and does not read `~/.ssh/config`.
    #[cfg(feature = "russh")]
    #[cfg_attr(feature = "russh", default)]
    Builtin,
}

/// How a key that is not known is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verify {
    /// Refused.
    Strictly,
    /// Learnt, unless the host had another.
    Learning,
    /// Whatever comes is taken.
    Not,
}

impl Verify {
    fn of(uri: &Uri) -> Result<Self, Error> {
        let named = match uri.parameter("known_hosts_verify").unwrap_or("normal") {
            "normal" => Self::Strictly,
            "auto" => Self::Learning,
            "ignore" => Self::Not,
            other => return Err(bad("known_hosts_verify", other, "normal, auto or ignore is expected")),
        };
        let verify = if uri.switch("no_verify")? { Self::Not } else { named };
        if verify == Self::Not {
            tracing::warn!(
                host = uri.host(),
                "insecure: the key of a host is not verified (no_verify=1 or known_hosts_verify=ignore)"
            );
        }
        Ok(verify)
    }
}

/// Ways to prove who we are that need nobody at a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    Agent,
    Key,
}

/// The ways the URI allows, in its order; none if it says nothing.
fn proofs(uri: &Uri) -> Result<Vec<Proof>, Error> {
    let proof = |name: &str| match name {
        "agent" => Ok(Proof::Agent),
        "privkey" => Ok(Proof::Key),
        other => Err(bad(
            "sshauth",
            other,
            "only agent and privkey need nobody at a terminal",
        )),
    };
    let list = uri.parameter("sshauth").into_iter();
    list.flat_map(|list| list.split(',')).map(proof).collect()
}

fn host(uri: &Uri) -> Result<&str, Error> {
    uri.host().ok_or(Error::Missing {
        transport: "ssh",
        what: "a host",
    })
}

fn bad(name: &'static str, value: &str, problem: &'static str) -> Error {
    Error::Parameter {
        name,
        value: value.to_owned(),
        problem,
    }
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
            "sshauth",
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
