//! What happens to the domains of a host, until it goes away: `events URI`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use libvirt_rpc::{
    Connection,
    event::{Interruption, domain::Lifecycle},
    wire::constant::domain::{ConnectListAllDomainsFlags, DomainEventType},
};

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
    // In this order nothing is missed: what happens during the listing waits in `events`.
    let mut events = connection.subscribe::<Lifecycle>(None).await?;
    let there = connection.domains(ConnectListAllDomainsFlags::empty()).await?.len();
    println!("{there} domains; waiting for events");
    loop {
        match events.next().await {
            Ok(event) => {
                println!(
                    "{}: {:?}, detail {}",
                    event.msg.dom.name,
                    DomainEventType(event.msg.event),
                    event.msg.detail
                );
            }
            Err(Interruption::Lagged(missed)) => println!("missed {missed} events; list again"),
            Err(error) => return Err(error.into()),
        }
    }
}
