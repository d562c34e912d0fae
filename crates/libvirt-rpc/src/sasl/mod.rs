//! Proving who one is by SASL: mechanisms without I/O, the conversation with the daemon in [`authenticate`].
//!
//! What is sent to a peer that nobody has verified (TLS with `no_verify=1`, ssh with `known_hosts_verify=ignore`, any
//! command of `ext`) was a decision. PLAIN is refused there, because it hands the password over. SCRAM is allowed:
//! whoever writes such a URI has chosen to trust the way, and a daemon that is not the real one still learns no
//! password and cannot give the proof that it knows it, so that an impostor alone is found out. What it does learn is
//! enough to try passwords against at leisure, and somebody in between who passes all of it on to the real daemon gets
//! the connection; binding SCRAM to the channel would end that, but libvirt's daemons offer no `-PLUS` mechanism.
//! Refusing SCRAM as well lost, because it would leave no way to log in over a command that is its own protection.

use crate::{
    Connection, Error,
    uri::{self, Transport, Uri},
    wire::{
        remote::auth::{AuthSaslInit, AuthSaslStart, AuthSaslStartArgs, AuthSaslStep, AuthSaslStepArgs},
        xdr::Chars,
    },
};

pub(crate) mod credentials;
mod mechanism;
mod scram;

use self::{credentials::Credentials, mechanism::Mechanism};

/// More rounds than any mechanism here has.
const ROUNDS: usize = 8;

/// Authenticates; `wanted` is the one mechanism the URI allows.
pub(crate) async fn authenticate(connection: &Connection, uri: &Uri, wanted: Option<&str>) -> Result<(), Error> {
    let offered = connection.call::<AuthSaslInit>(&()).await?.mechlist;
    let offered = offered.to_string_lossy();
    let credentials = connection.shared().options.credentials.clone();
    let credentials = match credentials {
        Some(credentials) => Some(credentials),
        None => credentials::find(uri)?,
    };
    let mut mechanism = choose(&offered, wanted, uri, credentials)?;
    let name = mechanism.name();
    let first = mechanism.first()?;
    let args = AuthSaslStartArgs {
        mech: name.into(),
        nil: 0,
        data: Chars(first),
    };
    let reply = refused(name, connection.call::<AuthSaslStart>(&args).await)?;
    let (mut complete, mut data) = (reply.complete != 0, reply.data.0);
    // An answer may both complete the exchange and carry the daemon's own proof, which has to be looked at.
    for _ in 0..ROUNDS {
        let answer = if mechanism.is_done() {
            Vec::new()
        } else {
            mechanism.next(&data)?
        };
        if complete && mechanism.is_done() {
            return Ok(());
        }
        if complete {
            break;
        }
        let args = AuthSaslStepArgs {
            nil: 0,
            data: Chars(answer),
        };
        let reply = refused(name, connection.call::<AuthSaslStep>(&args).await)?;
        (complete, data) = (reply.complete != 0, reply.data.0);
    }
    Err(Error::auth(format!(
        "SASL {name}: the daemon does not follow the mechanism"
    )))
}

/// libvirt says no more than "authentication failed"; by which mechanism is worth knowing.
fn refused<T>(name: &str, reply: Result<T, Error>) -> Result<T, Error> {
    reply.map_err(|error| match error.daemon() {
        Some(daemon) => Error::auth(format!("SASL {name} is refused: {}", daemon.message())),
        None => error,
    })
}

/// The best mechanism that is offered, wanted, safe on this transport and has what it needs.
fn choose(
    offered: &str,
    wanted: Option<&str>,
    uri: &Uri,
    credentials: Option<Credentials>,
) -> Result<Mechanism, Error> {
    // On bare TCP libvirt wants a mechanism that also encrypts, and none here does.
    let carried = match uri.transport() {
        Transport::Tcp => &[][..],
        _ if keeps_passwords(uri)? => &mechanism::NAMES[..],
        _ => &mechanism::NAMES[..3],
    };
    let mut usable = carried.iter().filter(|name| {
        let is = |other: &str| other.eq_ignore_ascii_case(name);
        let has_needs = credentials.is_some() || **name == mechanism::EXTERNAL;
        has_needs && wanted.is_none_or(is) && offered.split([' ', ',']).any(is)
    });
    // EXTERNAL comes first in the list and is only meant where there is no password, or by name.
    let chosen = usable
        .clone()
        .find(|name| **name != mechanism::EXTERNAL)
        .or_else(|| usable.next());
    match chosen {
        Some(name) => Ok(Mechanism::new(name, credentials)),
        None => Err(Error::auth(format!(
            "SASL: the daemon offers {offered}; {} can be used over {}{}{}{}",
            if carried.is_empty() {
                "nothing".to_owned()
            } else {
                carried.join(", ")
            },
            uri.transport(),
            wanted.map_or_else(String::new, |name| format!(", {name} is asked for")),
            if credentials.is_some() {
                ""
            } else {
                ", and there is no user and password; set `authfile` or `Options::credentials`"
            },
            if carried.contains(&mechanism::PLAIN) {
                ""
            } else {
                "; PLAIN is for unix, ssh and tls, both with the daemon verified"
            }
        ))),
    }
}

/// Whether a password that is sent as it is can be read by nobody but the daemon.
fn keeps_passwords(uri: &Uri) -> Result<bool, uri::Error> {
    Ok(match uri.transport() {
        // `remote:` is what a pipe of the caller's own goes by ([`Connection::open_on`]), of which nothing is known.
        Transport::Unix => uri.driver() != "remote" || !uri.path().is_empty(),
        Transport::Tls => !uri.switch("no_verify")?,
        Transport::Ssh | Transport::Libssh | Transport::Libssh2 => {
            !uri.switch("no_verify")? && uri.parameter("known_hosts_verify") != Some("ignore")
        }
        Transport::Tcp | Transport::Ext => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(offered: &str, uri: &str, wanted: Option<&str>) -> Option<&'static str> {
        let credentials = Some(Credentials::new("fred", "123456"));
        let found = choose(offered, wanted, &uri.parse().unwrap(), credentials);
        found.ok().map(|mechanism| mechanism.name())
    }

    #[test]
    fn the_best_mechanism_wins_and_plain_needs_a_private_channel() {
        let all = "PLAIN SCRAM-SHA-1 EXTERNAL SCRAM-SHA-256 GSSAPI";
        let unix = "qemu+unix:///system";
        assert_eq!(chosen(all, unix, None), Some("SCRAM-SHA-256"));
        assert_eq!(chosen(all, unix, Some("plain")), Some("PLAIN"));
        assert_eq!(chosen(all, unix, Some("EXTERNAL")), Some("EXTERNAL"));
        for uri in ["qemu+tls://h/", "qemu+ssh://h/"] {
            assert_eq!(chosen("PLAIN", uri, None), Some("PLAIN"), "{uri}");
        }
        for (offered, uri) in [
            ("PLAIN", "qemu+tls://h/?no_verify=1"),
            ("PLAIN", "qemu+tcp://h/"),
            ("PLAIN", "qemu+ext:///system?command=c"),
            ("PLAIN", "qemu+ssh://h/?no_verify=1"),
            ("PLAIN", "remote:"),
            (all, "qemu+tcp://h/"),
            ("GSSAPI", unix),
        ] {
            assert_eq!(chosen(offered, uri, None), None, "{offered} {uri}");
        }
        let bare = choose(all, None, &unix.parse().unwrap(), None).unwrap();
        assert_eq!(bare.name(), "EXTERNAL");
    }

    #[test]
    fn the_error_names_what_is_offered_and_what_is_missing() {
        let none = choose("GSSAPI", None, &"qemu:///system".parse().unwrap(), None);
        let text = none.err().unwrap().to_string();
        assert!(text.contains("GSSAPI") && text.contains("SCRAM-SHA-256"), "{text}");
        assert!(text.contains("authfile"), "{text}");
    }

    #[test]
    fn a_password_goes_only_where_nobody_else_can_read_it() {
        for (uri, keeps) in [
            ("qemu:///system", true),
            ("qemu+unix:///session?socket=/s", true),
            ("qemu://h/system", true),
            ("qemu+tls://h/system?no_verify=0", true),
            ("qemu+ssh://h/system", true),
            ("qemu+libssh://h/?known_hosts_verify=auto", true),
            ("qemu+tls://h/system?no_verify=1", false),
            ("qemu+ssh://h/system?no_verify=1", false),
            ("qemu+libssh://h/?known_hosts_verify=ignore", false),
            ("qemu+tcp://h/system", false),
            ("qemu+ext:///system?command=/c", false),
            ("remote:", false),
        ] {
            let found = keeps_passwords(&uri.parse().unwrap());
            assert_eq!(found, Ok(keeps), "{uri}");
        }
    }
}
