//! From a URI to an open connection, step by step, so that it is seen which one does not work.

use std::{io, time::Duration};

use libvirt_rpc::{
    Connection, Kind, Options,
    uri::{Transport, Uri},
};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

use super::Check;
use crate::{host::Endpoint, settings::HostSettings, uri_policy};

const SSH: u16 = 22;
const TLS: u16 = 16_514;

pub(super) async fn reach(
    host: &HostSettings,
    patience: Duration,
    tell: &mut (dyn FnMut(Check) + Send),
) -> Option<Connection> {
    let mut remedy = "see whether libvirtd runs there";
    if let Endpoint::Uri(text) = &host.endpoint {
        let uri = match uri_policy::check(text) {
            Ok(uri) => uri,
            Err(problem) => {
                tell(Check::fail("uri", problem).remedy("correct the host's URI in `hosts` or --connect"));
                return None;
            }
        };
        tell(Check::ok("uri", resolved(&uri)));
        if let Some((name, port)) = peer(&uri) {
            let (name, port) = (name.to_owned(), port);
            if !dial(&name, port, patience, tell).await {
                return None;
            }
        } else {
            remedy = "start libvirtd (`systemctl start libvirtd.socket`), or say where its socket is with `?socket=`";
        }
    }
    let options = Options::default()
        .connect_timeout(patience)
        .deadline(patience)
        .keepalive(patience, 2);
    let opened = timeout(patience, host.endpoint.connect_with(options)).await;
    let error = match opened {
        Ok(Ok(connection)) => {
            tell(Check::ok("connection", "libvirtd lets us in"));
            return Some(connection);
        }
        Ok(Err(error)) if error.kind() != Kind::Deadline => error,
        _ => {
            let detail = format!("libvirtd does not answer within {patience:?}, although something listens");
            tell(Check::fail("connection", detail).remedy("restart libvirtd on that host; its machines go on running"));
            return None;
        }
    };
    let check = match error.kind() {
        // Its own words say which key, and what to do.
        Kind::HostKey => Check::fail("host key", error.to_string())
            .remedy("compare the fingerprint on the host itself before you add the key to the URI's `known_hosts`"),
        Kind::Auth => Check::fail("login", chain(&error)).remedy(
            "check user and `keyfile` of the URI, and that the user is in group `libvirt` or polkit lets it in",
        ),
        Kind::Uri => Check::fail("uri", chain(&error)).remedy("correct the host's URI in `hosts` or --connect"),
        Kind::Connect if is_denied(&error) => Check::fail("connection", chain(&error))
            .remedy("add the user of this process to the group of the socket, `libvirt` on most systems"),
        Kind::Daemon => Check::fail("login", chain(&error))
            .remedy("libvirtd answers, but refuses: check polkit and the access driver on that host"),
        _ => Check::fail("connection", chain(&error)).remedy(remedy),
    };
    tell(check);
    None
}

/// Resolves and dials once by itself; whether that works.
async fn dial(name: &str, port: u16, patience: Duration, tell: &mut (dyn FnMut(Check) + Send)) -> bool {
    let addresses =
        match timeout(patience, lookup_host((name, port))).await {
            Ok(Ok(found)) => found.collect::<Vec<_>>(),
            Ok(Err(error)) => {
                let check = Check::fail("name", format!("`{name}` has no address: {error}"));
                tell(check.remedy(
                    "add it to DNS or to /etc/hosts (chart: `pod.hostAliases`), or write its address in the URI",
                ));
                return false;
            }
            Err(_elapsed) => {
                let check = Check::fail("name", format!("`{name}` is not resolved within {patience:?}"));
                tell(check.remedy("check the name servers of this machine"));
                return false;
            }
        };
    let shown: Vec<_> = addresses.iter().map(|address| address.ip().to_string()).collect();
    tell(Check::ok("name", format!("`{name}` is {}", shown.join(", "))));
    let problem = match timeout(patience, TcpStream::connect(&*addresses)).await {
        Ok(Ok(_)) => {
            tell(Check::ok("port", format!("port {port} is open")));
            return true;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_elapsed) => format!("no answer within {patience:?}"),
    };
    let what = if port == SSH {
        "sshd"
    } else {
        "sshd or libvirtd-tls.socket"
    };
    let check = Check::fail("port", format!("port {port} of `{name}` cannot be reached: {problem}"));
    tell(check.remedy(format!("start {what} there, and let this machine through its firewall")));
    false
}

/// Who is dialled over TCP, if anybody is.
fn peer(uri: &Uri) -> Option<(&str, u16)> {
    let usual = match uri.transport() {
        Transport::Ssh | Transport::Libssh | Transport::Libssh2 => SSH,
        Transport::Tls => TLS,
        _ => return None,
    };
    Some((uri.host()?, uri.port().unwrap_or(usual)))
}

/// What a URI comes to (field report F94).
fn resolved(uri: &Uri) -> String {
    let user = uri.user().and_then(|user| user.split(':').next());
    let user = user.map(|user| format!(", user {user}")).unwrap_or_default();
    match peer(uri) {
        Some((host, port)) => format!("{} to {host} port {port}{user}, {}", uri.transport(), uri.path()),
        None => {
            let socket = uri.parameter("socket").unwrap_or("libvirt's usual one");
            format!("{} socket: {socket}, {}", uri.transport(), uri.path())
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let one = error.to_string();
        if !text.contains(&one) {
            text = format!("{text}: {one}");
        }
        source = error.source();
    }
    text
}

fn is_denied(error: &dyn std::error::Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        {
            return true;
        }
        source = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_shown_as_what_it_comes_to() {
        for (uri, shown) in [
            ("qemu://h/system", "tls to h port 16514, /system"),
            ("qemu+ssh://u@h:2222/system", "ssh to h port 2222, user u, /system"),
            ("qemu:///system?socket=/s", "unix socket: /s, /system"),
        ] {
            assert_eq!(resolved(&uri.parse().unwrap()), shown);
        }
    }
}
