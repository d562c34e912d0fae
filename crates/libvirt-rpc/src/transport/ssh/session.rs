//! ssh in pure Rust: who the host is, who we are, and the first way to the daemon that works.

use std::{borrow::Cow, sync::Arc};

use russh::{
    Preferred,
    client::{self, Handle, Handler},
    keys::PublicKeyOrCertificate,
};

use super::{
    channel::{LastWords, pipe},
    host, identity,
    known_hosts::KnownHost,
    remote::{Remote, in_shell},
};
use crate::{
    Connection, Error, Kind,
    connection::options::Options,
    transport::{plain, tcp},
    uri::{self, Uri},
};

const PORT: u16 = 22;

struct Client {
    known: KnownHost,
}

impl Handler for Client {
    type Error = Error;

    async fn check_server_key(&mut self, offered: &PublicKeyOrCertificate) -> Result<bool, Error> {
        match offered {
            PublicKeyOrCertificate::PublicKey { key, .. } => {
                self.known.check(key).map_err(Error::untrusted)?;
                Ok(true)
            }
            // Never asked for.
            PublicKeyOrCertificate::Certificate(_) => Ok(false),
        }
    }
}

impl From<russh::Error> for Error {
    fn from(error: russh::Error) -> Self {
        Self::connect("the host over ssh", std::io::Error::other(error))
    }
}

/// The error of a session that was never one, by the host.
fn at_host(error: Error, host: &str) -> Error {
    match error.kind() {
        Kind::Connect => Error::connect(format!("`{host}` over ssh"), std::io::Error::other(error)),
        _ => error,
    }
}

/// Ends with the last of its channels, which all hold it.
type Session = Arc<Handle<Client>>;

/// Opens a connection to the daemon of `uri`.
pub(crate) async fn open(uri: &Uri, options: &Options) -> Result<Connection, Error> {
    let host = host(uri)?;
    uri.switch("no_tty")?;
    let remote = Remote::of(uri, options.read_only)?;
    let user = match uri.user() {
        Some(user) => user.to_owned(),
        None => own_name()?,
    };
    let known = KnownHost::read(uri, host)?;
    let session = Arc::new(log_in(uri, host, known, &user, options).await?);

    let mut tried = Vec::new();
    let scripts = [("virt-ssh-helper", &remote.helper), ("nc", &remote.netcat)];
    for (name, script) in scripts {
        let Some(script) = script else { continue };
        match exec(&session, &in_shell(script), uri, options).await {
            Ok(connection) => return Ok(connection),
            Err(Attempt::Final(error)) => return Err(error),
            Err(Attempt::Failed(why)) => tried.push(format!("{name}: {why}")),
        }
    }
    for socket in &remote.sockets {
        match forward(&session, socket, uri, options).await {
            Ok(connection) => return Ok(connection),
            Err(Attempt::Final(error)) => return Err(error),
            Err(Attempt::Failed(why)) => tried.push(format!("forwarding to {socket}: {why}")),
        }
    }
    let peer = format!("libvirt on `{host}` over ssh; tried {}", tried.join("; "));
    Err(Error::connect(peer, std::io::ErrorKind::NotConnected.into()))
}

/// The user we are, who is also the one to log in as.
fn own_name() -> Result<String, uri::Error> {
    let named = ["USER", "LOGNAME"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok());
    let named = named.into_iter().find(|name| !name.is_empty());
    let root = || rustix::process::getuid().is_root().then(|| "root".to_owned());
    named.or_else(root).ok_or(uri::Error::Missing {
        transport: "ssh",
        what: "a user (`user@host`), since USER is not set",
    })
}

async fn log_in(
    uri: &Uri,
    host: &str,
    known: KnownHost,
    user: &str,
    options: &Options,
) -> Result<Handle<Client>, Error> {
    let socket = tcp::dial(uri, PORT).await?;
    let preferred = Preferred {
        key: Cow::Owned(known.preferred(&Preferred::DEFAULT.key)),
        ..Preferred::DEFAULT
    };
    let config = client::Config {
        preferred,
        nodelay: true,
        ..client::Config::default()
    };
    let opened = client::connect_stream(Arc::new(config), socket, Client { known }).await;
    let mut session = opened.map_err(|error| at_host(error, host))?;
    identity::log_in(&mut session, user, uri, options).await?;
    Ok(session)
}

/// Why a way to the daemon is none.
enum Attempt {
    /// Another may be.
    Failed(String),
    /// The daemon was reached and did not let us in.
    Final(Error),
}

async fn exec(session: &Session, command: &str, uri: &Uri, options: &Options) -> Result<Connection, Attempt> {
    let opened = session.channel_open_session().await;
    let channel = opened.map_err(|error| Attempt::Failed(error.to_string()))?;
    let started = channel.exec(false, command).await;
    started.map_err(|error| Attempt::Failed(error.to_string()))?;
    let (pipe, words) = pipe(channel, Arc::clone(session));
    greet(Connection::start(plain(pipe), options.clone()), words, uri).await
}

async fn forward(session: &Session, socket: &str, uri: &Uri, options: &Options) -> Result<Connection, Attempt> {
    let opened = session.channel_open_direct_streamlocal(socket).await;
    // Servers say the same of a socket that is not there and of forwarding that is forbidden.
    let hint = "the socket is not there, or the server has AllowStreamLocalForwarding off";
    let channel = opened.map_err(|error| Attempt::Failed(format!("{error}; {hint}")))?;
    let (pipe, words) = pipe(channel, Arc::clone(session));
    greet(Connection::start(plain(pipe), options.clone()), words, uri).await
}

async fn greet(connection: Connection, words: LastWords, uri: &Uri) -> Result<Connection, Attempt> {
    match connection.greet(uri, &uri.name()).await {
        Ok(()) => Ok(connection),
        Err(error) if error.kind() == Kind::Disconnected => {
            let said = words.hear().await;
            let why = if said.is_empty() { error.to_string() } else { said };
            Err(Attempt::Failed(why))
        }
        Err(error) => Err(Attempt::Final(error)),
    }
}
