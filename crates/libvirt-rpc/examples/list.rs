//! The domains of a host, as `virsh list --all` shows them: `list URI`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use libvirt_rpc::{Connection, wire::constant::domain::ConnectListAllDomainsFlags};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    match run().await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "qemu:///system".to_owned());
    let connection = Connection::open(&uri).await?;
    println!("{:>4}  {:<30} State", "Id", "Name");
    for domain in connection.domains(ConnectListAllDomainsFlags::empty()).await? {
        let status = connection.domain_state(&domain).await?;
        let id = if domain.id < 0 {
            "-".to_owned()
        } else {
            domain.id.to_string()
        };
        println!("{id:>4}  {:<30} {:?}", domain.name.to_string(), status.state);
    }
    connection.close().await;
    Ok(())
}
