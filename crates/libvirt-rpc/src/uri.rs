//! Where a daemon is: `driver[+transport]://[user@][host][:port]/path?parameters`.

use std::{fmt, path::PathBuf, str::FromStr};

/// A libvirt connection URI, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    driver: String,
    transport: Transport,
    user: Option<String>,
    host: Option<String>,
    port: Option<u16>,
    path: String,
    parameters: Vec<(String, String)>,
}

/// How the bytes get to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// A UNIX socket on this machine.
    Unix,
    /// TLS over TCP, port 16514.
    Tls,
    /// Bare TCP, port 16509.
    Tcp,
    /// ssh.
    Ssh,
    /// ssh as libvirt's libssh transport spells it.
    Libssh,
    /// ssh as libvirt's libssh2 transport spells it.
    Libssh2,
    /// The standard input and output of any command.
    Ext,
}

/// Why a URI cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It does not have the form of a URI.
    #[error("`{uri}` is no libvirt URI: {problem}")]
    Syntax {
        /// The URI.
        uri: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The transport is none of libvirt's.
    #[error("transport `{name}` is unknown; use unix, tls, tcp, ssh, libssh, libssh2 or ext")]
    Transport {
        /// The transport.
        name: String,
    },
    /// The transport is one this build does not have.
    #[error("transport `{name}` needs feature `{feature}` of libvirt-rpc")]
    NotBuilt {
        /// The transport.
        name: &'static str,
        /// The feature.
        feature: &'static str,
    },
    /// A parameter has a value that means nothing, or a meaning this library cannot give it.
    #[error("parameter `{name}={value}`: {problem}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Something the transport needs is missing.
    #[error("a {transport} URI needs {what}")]
    Missing {
        /// The transport.
        transport: &'static str,
        /// What is missing.
        what: &'static str,
    },
    /// A file the transport needs cannot be used.
    #[error("file `{}`: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// Parameters that speak to the client and never reach the daemon, refused where they mean nothing.
pub(crate) const CLIENT_PARAMETERS: [&str; 19] = [
    "name",
    "socket",
    "mode",
    "auth",
    "authfile",
    "command",
    "netcat",
    "proxy",
    "keyfile",
    "no_tty",
    "no_verify",
    "known_hosts",
    "known_hosts_verify",
    "sshauth",
    "pkipath",
    "tls_priority",
    "no_sanity",
    "tls_allow_cn",
    "argv",
];

impl Uri {
    /// The hypervisor driver: `qemu`, `test`, `lxc`, or `remote` to let the daemon choose.
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// How the bytes get to the daemon.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// The user to log in as.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The machine.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The path, `/system` or `/session` for most drivers.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The last value given for a parameter.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .rev()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// A parameter that switches something; libvirt writes them as integers.
    ///
    /// # Errors
    /// When the value is no integer.
    pub fn switch(&self, name: &'static str) -> Result<bool, Error> {
        match self.parameter(name) {
            None => Ok(false),
            Some(value) => value
                .parse::<i64>()
                .map(|number| number != 0)
                .map_err(|_| Error::Parameter {
                    name,
                    value: value.to_owned(),
                    problem: "0 or 1 is expected",
                }),
        }
    }

    /// Whether the daemon of the user is meant, rather than that of the system.
    #[must_use]
    pub fn is_session(&self) -> bool {
        self.path == "/session"
    }

    /// The URI the daemon is asked to open: what is left when everything that is for the client is gone.
    #[must_use]
    pub fn name(&self) -> String {
        if let Some(name) = self.parameter("name") {
            return name.to_owned();
        }
        if self.driver == "remote" {
            return String::new();
        }
        let mut out = format!("{}://{}", self.driver, self.path);
        let mut before = '?';
        for (key, value) in &self.parameters {
            if !CLIENT_PARAMETERS.contains(&key.as_str()) {
                out.push(before);
                out.push_str(&escape(key));
                out.push('=');
                out.push_str(&escape(value));
                before = '&';
            }
        }
        out
    }
}

impl FromStr for Uri {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |problem| Error::Syntax {
            uri: text.to_owned(),
            problem,
        };
        let (scheme, rest) = text
            .split_once(':')
            .ok_or_else(|| bad("a scheme such as `qemu:` is missing"))?;
        let scheme = scheme.to_ascii_lowercase();
        let (driver, transport) = match scheme.split_once('+') {
            Some((driver, transport)) => (driver, Some(transport)),
            None => (scheme.as_str(), None),
        };
        if driver.is_empty() || !driver.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c)) {
            return Err(bad("the scheme is not a driver's name"));
        }
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.find('/').map_or((rest, ""), |at| rest.split_at(at)),
            None => ("", rest),
        };
        let (user, host_port) = authority
            .rsplit_once('@')
            .map_or((None, authority), |(u, h)| (Some(u), h));
        let (host, port) = host_and_port(host_port).ok_or_else(|| bad("the host or port is malformed"))?;
        let decode = |text: &str| unescape(text).ok_or_else(|| bad("a % is not followed by two digits"));
        let parameters = query
            .split(['&', ';'])
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (key, value) = part.split_once('=').unwrap_or((part, ""));
                Ok((decode(key)?, decode(value)?))
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self {
            driver: driver.to_owned(),
            transport: match transport {
                Some(name) => transport_named(name)?,
                None if host.is_empty() => Transport::Unix,
                None => Transport::Tls,
            },
            user: user.map(decode).transpose()?,
            host: (!host.is_empty()).then(|| decode(host)).transpose()?,
            port,
            path: decode(path)?,
            parameters,
        })
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unix => "unix",
            Self::Tls => "tls",
            Self::Tcp => "tcp",
            Self::Ssh => "ssh",
            Self::Libssh => "libssh",
            Self::Libssh2 => "libssh2",
            Self::Ext => "ext",
        })
    }
}

fn transport_named(name: &str) -> Result<Transport, Error> {
    Ok(match name {
        "unix" => Transport::Unix,
        "tls" => Transport::Tls,
        "tcp" => Transport::Tcp,
        "ssh" => Transport::Ssh,
        "libssh" => Transport::Libssh,
        "libssh2" => Transport::Libssh2,
        "ext" => Transport::Ext,
        other => {
            return Err(Error::Transport { name: other.to_owned() });
        }
    })
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
fn host_and_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (
                host,
                if after.is_empty() {
                    None
                } else {
                    Some(after.strip_prefix(':')?)
                },
            )
        }
        None => text
            .split_once(':')
            .map_or((text, None), |(host, port)| (host, Some(port))),
    };
    match port {
        None | Some("") => Some((host, None)),
        Some(port) => port.parse().ok().map(|port| (host, Some(port))),
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            out.push(u8::try_from(digit()? << 4 | digit()?).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~/:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn the_name_is_what_is_not_for_the_client() {
        for (text, name) in [
            ("qemu:///system", "qemu:///system"),
            ("qemu+unix:///system?socket=/x", "qemu:///system"),
            ("qemu+ssh://u@h:2222/session?keyfile=k&foo=1", "qemu:///session?foo=1"),
            ("test+unix:///default", "test:///default"),
            ("test+unix:///tmp/a%20b.xml?socket=/s", "test:///tmp/a b.xml"),
            ("remote://h/", ""),
            ("qemu+tls://h/system?name=lxc:///", "lxc:///"),
            ("QEMU+TCP://h/system", "qemu:///system"),
        ] {
            assert_eq!(uri(text).name(), name, "{text}");
        }
    }

    #[test]
    fn the_transport_follows_from_the_host() {
        assert_eq!(uri("qemu:///system").transport(), Transport::Unix);
        assert_eq!(uri("qemu://h/system").transport(), Transport::Tls);
        let all = uri("qemu+ssh://me@[fe80::1]:22/system?no_verify=1&no_verify=0");
        assert_eq!(
            (all.user(), all.host(), all.port()),
            (Some("me"), Some("fe80::1"), Some(22))
        );
        assert_eq!(all.switch("no_verify"), Ok(false));
        assert!(uri("qemu:///session").is_session());
    }

    #[test]
    fn what_cannot_be_understood_is_refused() {
        for text in [
            "",
            "qemu",
            "://x",
            "qemu+carrier://h/",
            "qemu://h:port/",
            "qemu://[::1/",
            "qemu:///a?b=%zz",
        ] {
            assert!(text.parse::<Uri>().is_err(), "{text}");
        }
        assert!(uri("qemu+ssh://h/?no_tty=yes").switch("no_tty").is_err());
    }
}
