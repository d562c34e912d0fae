//! Addresses to listen on.

use std::{
    fmt, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

/// Where to listen: `host:port`, or `:port` for every interface, as in Go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: Option<String>,
    port: u16,
}

impl Address {
    /// A port on every interface.
    #[must_use]
    pub const fn any(port: u16) -> Self {
        Self { host: None, port }
    }

    /// The host; none for every interface.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// What to try to bind, in this order.
    ///
    /// # Errors
    /// When the host has no address.
    pub async fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        match &self.host {
            // IPv6 first, because it takes IPv4 along; IPv4 alone where the kernel has no IPv6.
            None => Ok(vec![
                (Ipv6Addr::UNSPECIFIED, self.port).into(),
                (Ipv4Addr::UNSPECIFIED, self.port).into(),
            ]),
            Some(host) => Ok(tokio::net::lookup_host((host.as_str(), self.port)).await?.collect()),
        }
    }

    /// Whether both can surely not be bound at once. Port 0 is any free port.
    pub(crate) fn clashes(&self, other: &Self) -> bool {
        self.port != 0 && self == other
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            None => write!(f, ":{}", self.port),
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
        }
    }
}

/// Text that is no address. The message is the rest of a sentence that begins with the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be `host:port` or `:port` (every interface), but is `{0}`")]
pub struct InvalidAddress(String);

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let invalid = || InvalidAddress(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let port = port.parse().map_err(|_| invalid())?;
        if host.is_empty() {
            return Ok(Self::any(port));
        }
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let valid = match bracketed {
            Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
            None => !host.contains([':', '/', '[', ']']) && !host.contains(char::is_whitespace),
        };
        let host = bracketed.unwrap_or(host).to_owned();
        valid.then_some(Self { host: Some(host), port }).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_as_they_were_written() {
        for text in [":9000", "127.0.0.1:0", "[::1]:9000", "localhost:65535"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "9000",
            ":",
            ":65536",
            "::1:9000",
            "[::1]",
            "[x]:1",
            "http://h:1",
            "a b:1",
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.to_string().ends_with(&format!("`{text}`")), "{error}");
        }
    }

    #[tokio::test]
    async fn every_interface_is_tried_with_ipv6_first() {
        let found = Address::any(7).resolve().await.unwrap();
        assert_eq!(found, ["[::]:7".parse().unwrap(), "0.0.0.0:7".parse().unwrap()]);
    }
}
