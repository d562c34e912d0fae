//! Clients of the admin port.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::desk::{endpoint, soon};

/// Status and body of a path.
pub(crate) async fn http(address: SocketAddr, path: &str) -> (u16, String) {
    soon(path, async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    })
    .await
}

/// What gRPC health says of a service.
pub(crate) async fn health(address: SocketAddr, service: &str) -> Result<String, Code> {
    let mut client = HealthClient::new(endpoint(address).connect_lazy());
    let answer = client
        .check(HealthCheckRequest {
            service: service.into(),
        })
        .await;
    answer
        .map(|answer| format!("{:?}", answer.into_inner().status()))
        .map_err(|status| status.code())
}
