//! SASL: choosing a mechanism, and the conversation.

mod scram;

use scram::Scram;

use crate::{
    Connection, Error,
    connection::options::Credentials,
    wire::{
        remote::auth::{AuthSaslInit, AuthSaslStart, AuthSaslStartArgs, AuthSaslStep, AuthSaslStepArgs},
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

/// Best first. PLAIN is the password itself, which only a pipe nobody listens to may carry.
const KNOWN: [&str; 4] = ["SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN", "EXTERNAL"];

/// Rounds after which no conversation makes sense any more.
const ROUNDS: usize = 16;

/// Authenticates; `wanted` is the one mechanism the URI allows.
pub(crate) async fn authenticate(
    connection: &Connection,
    wanted: Option<&str>,
    credentials: Option<&Credentials>,
) -> Result<(), Error> {
    let offered = connection.call::<AuthSaslInit>(&()).await?.mechlist.to_string();
    let name = choose(&offered, wanted, credentials.is_some())?;
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

fn choose(offered: &str, wanted: Option<&str>, have_password: bool) -> Result<&'static str, Error> {
    let is_offered = |name: &str| offered.split([' ', ',']).any(|o| o == name);
    let usable = |name: &&&str| have_password || **name == "EXTERNAL";
    let fits = |name: &&&str| is_offered(name) && wanted.is_none_or(|w| w.eq_ignore_ascii_case(name));
    KNOWN.iter().filter(fits).find(usable).copied().ok_or_else(|| {
        let wanted = wanted.map_or_else(String::new, |w| format!(", the URI allows only {w}"));
        let password = if have_password {
            ""
        } else {
            "; no user and password are given (Options::credentials)"
        };
        Error::auth(format!(
            "SASL: the daemon offers {offered}, this library has {}{wanted}{password}",
            KNOWN.join(" ")
        ))
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
        assert_eq!(choose(offered, None, true).unwrap(), "SCRAM-SHA-256");
        assert_eq!(choose(offered, Some("plain"), true).unwrap(), "PLAIN");
        let none = choose("GSSAPI DIGEST-MD5", None, true).unwrap_err().to_string();
        assert!(
            none.contains("GSSAPI DIGEST-MD5") && none.contains("SCRAM-SHA-256"),
            "{none}"
        );
        assert!(
            choose(offered, None, false)
                .unwrap_err()
                .to_string()
                .contains("credentials")
        );
        assert_eq!(choose("EXTERNAL", None, false).unwrap(), "EXTERNAL");
    }
}
