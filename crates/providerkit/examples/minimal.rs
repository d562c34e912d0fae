//! A complete provider: a shelf of four machines. `cargo run -p providerkit --example minimal -- 127.0.0.1:9000`

use std::{net::SocketAddr, sync::Arc, time::Duration};

use providerkit::{
    Backend, Capabilities, CapacityType, ConfigureRequest, CreateRequest, Created, DeleteRequest, DeleteSupport,
    DrainRequest, Engine, Error, HostRef, Known, Options, Profile, Slot, async_trait, store,
};
use tonic::transport::Server;

struct Shelf;

#[async_trait]
impl Backend for Shelf {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default().delete(DeleteSupport::Always)
    }

    async fn describe(&self, _: &[Known]) -> Result<Vec<Slot>, Error> {
        let profile = Profile::new("shelf-4", "shelf-a", CapacityType::OnDemand)
            .price_per_hour(0.1)
            .resource("cpu", "4");
        Ok((0..4)
            .map(|n| Slot::new(format!("shelf-{n}"), profile.clone()))
            .collect())
    }

    async fn create(&self, request: CreateRequest) -> Result<Created, Error> {
        Ok(Created::new(HostRef::new("shelf", request.machine.id.as_str())))
    }

    async fn configure(&self, request: ConfigureRequest) -> Result<(), Error> {
        tracing::info!("{} joins {}", request.machine.id, request.cluster);
        Ok(())
    }

    async fn drain(&self, request: DrainRequest) -> Result<(), Error> {
        tracing::info!("{} leaves within {:?}", request.machine.id, request.grace);
        Ok(())
    }

    async fn delete(&self, _: DeleteRequest) -> Result<(), Error> {
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address: SocketAddr = std::env::args().nth(1).as_deref().unwrap_or("127.0.0.1:9000").parse()?;
    let state = Box::new(store::Sqlite::open("shelf.state")?);
    let engine = Engine::start(Options::new("shelf"), state, Arc::new(Shelf)).await?;
    let stop = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    Server::builder()
        .add_service(providerkit::server(engine.clone()))
        .serve_with_shutdown(address, stop)
        .await?;
    engine.stop(Duration::from_secs(5)).await?;
    Ok(())
}
