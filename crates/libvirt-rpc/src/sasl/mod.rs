//! SASL: choosing a mechanism, and the conversation.

mod scram;

use scram::Scram;

use crate::{
    Connection, Error,
    connection::options::Credentials,
    uri::{self, Transport, Uri},
    wire::{
        remote::auth::{
            AuthSaslInit, AuthSaslStart, AuthSaslStartArgs, AuthSaslStep, AuthSaslStepArgs,
        },
        xdr::Chars,
    },
};

/// What a client says in turn; each mechanism is one.
trait Mechanism: Send {
    /// The first message, if the client speaks first.
    fn first(&mut self) -> Option<Vec<u8>>;
    /// The answer to a message of the server; `None` when there is nothing more to say.
    fn next(&mut self, challenge: &[u8]) -> Result<Option<Vec<u8>>, Error>;
    /// Whether the server has shown all it has to.
    fn is_satisfied(&self) -> bool;
}

/// Best first.
const KNOWN: [&str; 4] = ["SCRAM-SHA-256", "SCRAM-SHA-1", PLAIN, "EXTERNAL"];

/// The password itself, which only a pipe nobody else listens to may carry.
const PLAIN: &str = "PLAIN";

/// Rounds after which no conversation makes sense any more.
const ROUNDS: usize = 16;

/// Authenticates; `wanted` is the one mechanism the URI allows.
pub(crate) async fn authenticate(
    connection: &Connection,
    uri: &Uri,
    wanted: Option<&str>,
    credentials: Option<&Credentials>,
) -> Result<(), Error> {
    let offered = connection
        .call::<AuthSaslInit>(&())
        .await?
        .mechlist
        .to_string();
    let name = choose(
        &offered,
        wanted,
        credentials.is_some(),
        keeps_passwords(uri)?,
    )?;
    let mut mechanism = mechanism(name, credentials)?;
    let first = mechanism.first();
    let args = AuthSaslStartArgs {
        mech: name.into(),
        nil: first.is_none().into(),
        data: Chars(first.unwrap_or_default()),
    };
    let reply = connection.call::<AuthSaslStart>(&args).await?;
    let (mut is_complete, mut challenge) = (reply.complete != 0, reply.data.0);
    for _ in 0..ROUNDS {
        // Even a server that is content may have proven itself in the same message.
        let answer = mechanism.next(&challenge)?;
        if is_complete {
            break;
        }
        let args = AuthSaslStepArgs {
            nil: answer.is_none().into(),
            data: Chars(answer.unwrap_or_default()),
        };
        let reply = connection.call::<AuthSaslStep>(&args).await?;
        (is_complete, challenge) = (reply.complete != 0, reply.data.0);
        if is_complete && !challenge.is_empty() {
            mechanism.next(&challenge)?;
            break;
        }
    }
    if is_complete && mechanism.is_satisfied() {
        return Ok(());
    }
    Err(Error::auth(format!(
        "SASL {name}: the daemon has not proven that it knows the password"
    )))
}

fn choose(
    offered: &str,
    wanted: Option<&str>,
    have_password: bool,
    keeps_passwords: bool,
) -> Result<&'static str, Error> {
    let is_offered = |name: &str| offered.split([' ', ',']).any(|o| o == name);
    let usable = |name: &&&str| {
        (have_password || **name == "EXTERNAL") && (keeps_passwords || **name != PLAIN)
    };
    let fits =
        |name: &&&str| is_offered(name) && wanted.is_none_or(|w| w.eq_ignore_ascii_case(name));
    KNOWN
        .iter()
        .filter(fits)
        .find(usable)
        .copied()
        .ok_or_else(|| {
            let wanted = wanted.map_or_else(String::new, |w| format!(", the URI allows only {w}"));
            let password = if have_password {
                ""
            } else {
                "; no user and password are given (Options::credentials)"
            };
            let clear = if keeps_passwords {
                ""
            } else {
                "; PLAIN is not used where others could read the password: take unix, ssh or tls without `no_verify`"
            };
            Error::auth(format!(
                "SASL: the daemon offers {offered}, this library has {}{wanted}{password}{clear}",
                KNOWN.join(" ")
            ))
        })
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

fn mechanism(name: &str, credentials: Option<&Credentials>) -> Result<Box<dyn Mechanism>, Error> {
    let missing = || {
        Error::auth(format!(
            "SASL {name} needs a user and a password (Options::credentials)"
        ))
    };
    Ok(match name {
        "SCRAM-SHA-256" => Box::new(Scram::sha256(credentials.ok_or_else(missing)?)?),
        "SCRAM-SHA-1" => Box::new(Scram::sha1(credentials.ok_or_else(missing)?)?),
        "PLAIN" => {
            let credentials = credentials.ok_or_else(missing)?;
            Box::new(Once(Some(
                format!("\0{}\0{}", credentials.user, credentials.password).into_bytes(),
            )))
        }
        _ => Box::new(Once(Some(Vec::new()))),
    })
}

/// PLAIN and EXTERNAL: one message.
struct Once(Option<Vec<u8>>);

impl Mechanism for Once {
    fn first(&mut self) -> Option<Vec<u8>> {
        self.0.take()
    }

    fn next(&mut self, _: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    fn is_satisfied(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_that_both_have_is_chosen_and_none_is_explained() {
        let offered = "PLAIN SCRAM-SHA-1 GSSAPI SCRAM-SHA-256";
        assert_eq!(choose(offered, None, true, true).unwrap(), "SCRAM-SHA-256");
        assert_eq!(choose(offered, Some("plain"), true, true).unwrap(), "PLAIN");
        let none = choose("GSSAPI DIGEST-MD5", None, true, true)
            .unwrap_err()
            .to_string();
        assert!(
            none.contains("GSSAPI DIGEST-MD5") && none.contains("SCRAM-SHA-256"),
            "{none}"
        );
        assert!(
            choose(offered, None, false, true)
                .unwrap_err()
                .to_string()
                .contains("credentials")
        );
        assert_eq!(choose("EXTERNAL", None, false, false).unwrap(), "EXTERNAL");
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
        let refused = choose("PLAIN", Some("PLAIN"), true, false).unwrap_err();
        assert!(refused.to_string().contains("no_verify"), "{refused}");
        let offered = "PLAIN SCRAM-SHA-1";
        assert_eq!(choose(offered, None, true, false).unwrap(), "SCRAM-SHA-1");
    }
}
