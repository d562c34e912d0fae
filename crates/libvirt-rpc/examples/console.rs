//! The serial console of a domain on standard input and output: `console URI DOMAIN`. It ends with the input.

use libvirt_rpc::{Connection, wire::constant::domain::DomainConsoleFlags};
use tokio::io::{AsyncWriteExt as _, copy, split, stdin, stdout};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(uri), Some(name)) = (args.next(), args.next()) else {
        return Err("usage: console URI DOMAIN".into());
    };
    let connection = Connection::open(&uri).await?;
    let domain = connection.domain_lookup_by_name(&name).await?;
    let console = connection
        .domain_open_console(&domain, None, DomainConsoleFlags::FORCE)
        .await?;
    let (mut from, mut to) = split(console);
    let (mut input, mut output) = (stdin(), stdout());
    tokio::select! {
        done = copy(&mut input, &mut to) => { done?; }
        done = copy(&mut from, &mut output) => { done?; }
    }
    output.flush().await?;
    Ok(())
}
