//! From a URI to an open connection: dial, authenticate, open.

use tokio::process::Command;

use super::{Connection, options::Options};
use crate::{
    Error, transport,
    uri::{self, Transport, Uri},
    wire::{
        remote::{
            auth::{AuthList, AuthPolkit},
            connect::{ConnectOpen, ConnectOpenArgs},
            record::AuthType,
        },
        xdr::Text,
    },
};

/// `VIR_CONNECT_RO`.
const READ_ONLY: u32 = 1;

/// Everything up to the open connection.
pub(super) async fn dial(uri: &Uri, options: Options) -> Result<Connection, Error> {
    check_parameters(uri)?;
    let name = uri.name();
    let connection = match uri.transport() {
        Transport::Unix => {
            let socket = transport::unix::connect(uri, options.read_only).await?;
            Connection::start(socket, options)
        }
        Transport::Tcp => Connection::start(transport::plain(transport::tcp::connect(uri).await?), options),
        #[cfg(feature = "tls")]
        Transport::Tls => Connection::start(transport::plain(transport::tls::connect(uri).await?), options),
        #[cfg(not(feature = "tls"))]
        Transport::Tls => {
            return Err(uri::Error::NotBuilt {
                name: "tls",
                feature: "tls",
            }
            .into());
        }
        Transport::Ext => {
            let command = uri.parameter("command");
            let command = command.ok_or(uri::Error::Missing {
                transport: "ext",
                what: "`command=`",
            })?;
            if uri.host().is_some() || uri.user().is_some() || uri.port().is_some() {
                return Err(uri::Error::Parameter {
                    name: "command",
                    value: command.to_owned(),
                    problem: "it is told no host, user or port; leave them out",
                }
                .into());
            }
            return run(Command::new(command), uri, options).await;
        }
        // A program that is named is to be run.
        #[cfg(feature = "russh")]
        Transport::Ssh | Transport::Libssh | Transport::Libssh2
            if options.ssh == transport::ssh::Ssh::Builtin && uri.parameter("command").is_none() =>
        {
            return transport::ssh::open(uri, &options).await;
        }
        Transport::Ssh | Transport::Libssh | Transport::Libssh2 => {
            return run(transport::ssh::command(uri, options.read_only)?, uri, options).await;
        }
    };
    greet(&connection, uri, &name).await?;
    Ok(connection)
}

impl Connection {
    /// What is said before the first call, where it may be said in vain.
    #[cfg(feature = "russh")]
    pub(crate) async fn greet(&self, uri: &Uri, name: &str) -> Result<(), Error> {
        greet(self, uri, name).await
    }
}

/// Opens over a command, whose complaints explain why it failed.
async fn run(command: Command, uri: &Uri, options: Options) -> Result<Connection, Error> {
    let (process, complaints) = transport::process::start(command)?;
    let connection = Connection::start(transport::plain(process), options);
    match greet(&connection, uri, &uri.name()).await {
        Ok(()) => Ok(connection),
        Err(error) => Err(complaints.explain(error).await),
    }
}

/// Refuses what is for the client but means nothing to the transport; it would be ignored otherwise.
fn check_parameters(uri: &Uri) -> Result<(), uri::Error> {
    let meant: &[&str] = match uri.transport() {
        Transport::Unix => &["socket", "mode"],
        Transport::Tcp => &[],
        // The files are never judged before they are used, so that there is no sanity check to switch off.
        Transport::Tls => &["pkipath", "no_verify", "no_sanity", "tls_allow_cn"],
        Transport::Ext => &["command"],
        ssh => transport::ssh::parameters(ssh),
    };
    // Bare TCP cannot carry SASL.
    let has_sasl = cfg!(feature = "sasl") && uri.transport() != Transport::Tcp;
    for name in uri::CLIENT_PARAMETERS {
        if let Some(value) = uri.parameter(name)
            && !["name", "auth"].contains(&name)
            && !(has_sasl && name == "authfile")
            && !meant.contains(&name)
        {
            let value = value.to_owned();
            let problem = match (name, uri.transport()) {
                // GnuTLS's language for versions and ciphers, of which rustls has only safe ones to begin with.
                ("tls_priority", Transport::Tls) => "it is for GnuTLS; leave it out, here TLS is 1.2 or 1.3 always",
                _ => "it cannot be honoured with this transport",
            };
            return Err(uri::Error::Parameter { name, value, problem });
        }
    }
    Ok(())
}

/// What is said before the first call. The daemon is asked to open once only: a second time would close its driver.
pub(super) async fn greet(connection: &Connection, uri: &Uri, name: &str) -> Result<(), Error> {
    authenticate(connection, uri).await?;
    let flags = if connection.shared().options.read_only {
        READ_ONLY
    } else {
        0
    };
    let args = ConnectOpenArgs {
        name: Some(Text::from(name)),
        flags,
    };
    connection.call::<ConnectOpen>(&args).await
}

async fn authenticate(connection: &Connection, uri: &Uri) -> Result<(), Error> {
    // Never left out: for root on a socket with polkit it is this very call that lets us in.
    let offered = match connection.call::<AuthList>(&()).await {
        Ok(list) => list.types,
        Err(error) if error.is_unsupported() => Vec::new(),
        Err(error) => return Err(error),
    };
    let wanted = match uri.parameter("auth") {
        None => None,
        Some("polkit") => Some(AuthType::POLKIT),
        Some(sasl) if sasl == "sasl" || sasl.starts_with("sasl.") => Some(AuthType::SASL),
        Some(other) => {
            return Err(uri::Error::Parameter {
                name: "auth",
                value: other.to_owned(),
                problem: "sasl, sasl.MECHANISM or polkit is expected",
            }
            .into());
        }
    };
    let chosen = match wanted {
        Some(wanted) => offered.iter().find(|t| **t == wanted).copied(),
        None if offered.is_empty() || offered.contains(&AuthType::NONE) => return Ok(()),
        None => offered
            .iter()
            .find(|t| [AuthType::POLKIT, AuthType::SASL].contains(t))
            .copied(),
    };
    match chosen {
        Some(AuthType::POLKIT) => match connection.call::<AuthPolkit>(&()).await?.complete {
            0 => Err(Error::auth("polkit has not let this client in")),
            _ => Ok(()),
        },
        #[cfg(feature = "sasl")]
        Some(AuthType::SASL) if uri.transport() == Transport::Tcp => Err(Error::auth(
            "over bare TCP the daemon wants SASL with encryption, which this library does not have; use tls",
        )),
        #[cfg(feature = "sasl")]
        Some(AuthType::SASL) => {
            let mechanism = uri.parameter("auth").and_then(|auth| auth.strip_prefix("sasl."));
            Box::pin(crate::sasl::authenticate(connection, uri, mechanism)).await
        }
        #[cfg(not(feature = "sasl"))]
        Some(AuthType::SASL) => Err(Error::auth(
            "the daemon wants SASL; enable feature `sasl` of libvirt-rpc",
        )),
        _ => Err(Error::auth(format!(
            "the daemon offers {offered:?} as authentication, none of which was asked for or is known"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_honoured_or_refused() {
        let check = |uri: &str| check_parameters(&uri.parse().unwrap());
        assert_eq!(check("qemu+ssh://h/system?keyfile=/k&name=qemu:///session"), Ok(()));
        assert_eq!(
            check("qemu+tls://h/system?pkipath=/p&no_verify=1&no_sanity=1&tls_allow_cn=1"),
            Ok(())
        );
        #[cfg(feature = "sasl")]
        assert_eq!(check("qemu:///system?authfile=/f"), Ok(()));
        assert_eq!(check("qemu:///system?foo=1"), Ok(()), "it is the driver's");
        for uri in [
            "qemu:///system?keyfile=/k",
            "qemu://h/system?tls_priority=NORMAL",
            "qemu+tcp://h/?no_verify=1",
            "qemu+tcp://h/?tls_allow_cn=1",
            "qemu+tcp://h/?authfile=/f",
            "qemu+ext:///system?command=/c&argv=x",
            "qemu:///system?pkipath=/p",
        ] {
            assert!(check(uri).is_err(), "{uri}");
        }
    }
}
