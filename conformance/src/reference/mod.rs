//! A small provider that keeps every promise, and can be told to break any one of them.

use std::net::SocketAddr;

/// Its command line.
#[derive(Clone, Debug, clap::Args)]
#[non_exhaustive]
pub struct Flags {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:9000")]
    pub addr: SocketAddr,
}

/// Serves until it is killed.
///
/// # Errors
/// An address that cannot be listened on.
pub async fn serve(flags: Flags) -> Result<SocketAddr, crate::Error> {
    Ok(flags.addr)
}
