//! From a URI to an open connection: dial, authenticate, open.

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
    let connection = match uri.transport() {
        Transport::Unix => {
            let socket = transport::unix::connect(uri, options.read_only).await?;
            Connection::start(transport::unix::Unix::from(socket), options)
        }
        Transport::Tcp => Connection::start(
            transport::plain(transport::tcp::connect(uri).await?),
            options,
        ),
        Transport::Tls => {
            return Err(uri::Error::NotBuilt {
                name: "tls",
                feature: "tls",
            }
            .into());
        }
        Transport::Ssh | Transport::Libssh | Transport::Libssh2 | Transport::Ext => {
            return Err(uri::Error::NotBuilt {
                name: "ssh",
                feature: "ssh",
            }
            .into());
        }
    };
    greet(&connection, uri, &uri.name()).await?;
    Ok(connection)
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
        Some(AuthType::POLKIT) => connection.call::<AuthPolkit>(&()).await.map(drop),
        Some(AuthType::SASL) => Err(Error::auth(
            "the daemon wants SASL, which this build does not have",
        )),
        _ => Err(Error::auth(format!(
            "the daemon offers {offered:?} as authentication, none of which was asked for or is known"
        ))),
    }
}
