//! Bare TCP. Nothing is encrypted; libvirt wants SASL with encryption on it, which this library refuses by name.

use tokio::net::TcpStream;

use crate::{Error, uri::Uri};

const PORT: u16 = 16509;

/// Connects to the host of `uri`, on `port` when the URI names none.
pub(crate) async fn dial(uri: &Uri, port: u16) -> Result<TcpStream, Error> {
    let host = uri.host().unwrap_or("localhost");
    let port = uri.port().unwrap_or(port);
    let peer = format!("{host}:{port}");
    let stream = TcpStream::connect((host, port))
        .await
        .map_err(|e| Error::connect(&peer, e))?;
    // Calls are small and wait for their answer; Nagle would only add to that.
    stream.set_nodelay(true).map_err(|e| Error::connect(&peer, e))?;
    Ok(stream)
}

/// Connects to the host of `uri` without encryption.
pub(crate) async fn connect(uri: &Uri) -> Result<TcpStream, Error> {
    dial(uri, PORT).await
}
