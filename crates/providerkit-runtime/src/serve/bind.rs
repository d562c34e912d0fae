//! Listening sockets.

use std::{io, net::SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

use crate::settings::Address;

/// Callers that may wait while we start, or while the acceptor is behind.
const BACKLOG: u32 = 1024;

/// Binds the first address of those it stands for that can be bound. From then on callers wait to be accepted; none
/// is refused. Answers where it is, too: port 0 is for the system to choose.
pub(super) async fn bind(address: &Address) -> io::Result<(TcpListener, SocketAddr)> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for candidate in address.resolve().await? {
        match listen(candidate) {
            Ok(listener) => {
                let local = listener.local_addr()?;
                return Ok((listener, local));
            }
            Err(error) => {
                let taken = error.kind() == io::ErrorKind::AddrInUse;
                last = error;
                // Half of an address that somebody else has is not what was asked for.
                if taken {
                    break;
                }
            }
        }
    }
    Err(last)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A successor binds at once, although connections of its killed predecessor linger.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_told() {
        let (_first, taken) = bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let error = bind(&taken.to_string().parse().unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn every_interface_includes_ipv4() {
        let (listener, local) = bind(&Address::any(0)).await.unwrap();
        let (client, server) = tokio::join!(
            tokio::net::TcpStream::connect(("127.0.0.1", local.port())),
            listener.accept()
        );
        assert!(client.is_ok() && server.is_ok());
    }
}
