//! The process: starting, refusing to start, ending, and what else it serves (contract §12.2, issue 2, point 7).

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use bigfleet_proto::SERVICE_NAME;
use tokio_stream::StreamExt as _;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::harness::{AWAIT, Launch, Provider, Random, eventually, fresh_port};

const USAGE: i32 = 64;

async fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .connect()
        .await
        .unwrap()
}

async fn serving(address: SocketAddr) -> bool {
    let mut client = HealthClient::new(channel(address).await);
    let answer = client.check(HealthCheckRequest::default()).await.unwrap().into_inner();
    answer.status() == ServingStatus::Serving
}

/// An HTTP/1.1 GET: the status line and the body.
fn http(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(AWAIT)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: provider\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A provider with its admin port on a known address.
async fn with_admin_port() -> (Provider, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], fresh_port()));
    let provider = Launch::new().metrics(Some(&address.to_string())).start().await;
    (provider, address)
}

#[tokio::test]
async fn health_answers_on_the_main_port() {
    let provider = Launch::new().start().await;
    eventually("health", AWAIT, async || serving(provider.address()).await).await;
}

#[tokio::test]
async fn the_admin_port_answers_probes_metrics_and_health() {
    let (provider, admin) = with_admin_port().await;
    eventually("health", AWAIT, async || serving(admin).await).await;
    provider.idle().await;
    for path in ["/livez", "/readyz", "/healthz", "/metrics"] {
        let answer = http(admin, path);
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    let metrics = http(admin, "/metrics");
    assert!(metrics.contains("# TYPE "), "{metrics}");
    assert!(http(admin, "/nothing").starts_with("HTTP/1.1 404"));
}

/// The services that reflection names.
async fn reflected(provider: &Provider) -> Result<Vec<String>, tonic::Status> {
    let mut client = ServerReflectionClient::new(channel(provider.address()).await);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = client
        .server_reflection_info(tokio_stream::once(request))
        .await?
        .into_inner();
    let answer = answers.next().await.unwrap()?;
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}");
    };
    Ok(list.service.into_iter().map(|service| service.name).collect())
}

#[tokio::test]
async fn reflection_names_the_service_unless_it_is_turned_off() {
    let provider = Launch::new().start().await;
    let names = reflected(&provider).await.unwrap();
    assert!(names.iter().any(|name| name == SERVICE_NAME), "{names:?}");
    let provider = Launch::new().flag("--reflection=false").start().await;
    assert_eq!(
        reflected(&provider).await.unwrap_err().code(),
        tonic::Code::Unimplemented
    );
}

/// A silent fake would pass for capacity.
#[tokio::test]
async fn without_hosts_and_without_the_fake_it_says_what_to_do_and_ends() {
    let exit = Launch::new().without_fake().run().await;
    assert_eq!(exit.code(), Some(USAGE), "{}", exit.output);
    assert!(exit.output.contains("--use-fake-backend"), "{}", exit.output);
}

#[tokio::test]
async fn an_unknown_flag_is_a_usage_error_that_names_it() {
    let exit = Launch::new().flag("--sed-count=3").run().await;
    assert_eq!(exit.code(), Some(USAGE), "{}", exit.output);
    assert!(exit.output.contains("--sed-count"), "{}", exit.output);
}

#[tokio::test]
async fn flags_take_their_value_after_a_space_too() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("state.json");
    let launch = Launch::new().flag("--state").flag(path.display().to_string());
    let provider = launch.start().await;
    provider.idle().await;
    assert!(path.exists());
}

/// Trap 7: several copies run at once, and none is told where to serve metrics.
#[tokio::test]
async fn a_taken_default_metrics_port_is_not_fatal() {
    // Whoever else has it, it is taken now.
    let _taken = TcpListener::bind(("0.0.0.0", 9090));
    let one = Launch::new().metrics(None).start().await;
    let two = Launch::new().metrics(None).start().await;
    one.idle().await;
    two.idle().await;
}

#[tokio::test]
async fn a_taken_metrics_port_that_was_asked_for_is_fatal() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let exit = Launch::new().metrics(Some(&address)).run().await;
    assert!(!exit.status.success(), "{}", exit.output);
    assert!(exit.output.contains(&address), "{}", exit.output);
}

#[tokio::test]
async fn a_taken_port_is_an_error_that_names_it() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap();
    let exit = Launch::new().port(address.port()).run().await;
    assert!(!exit.status.success(), "{}", exit.output);
    assert!(exit.output.contains(&address.to_string()), "{}", exit.output);
}

#[tokio::test]
async fn sigterm_ends_an_idle_provider_in_peace() {
    let provider = Launch::new().start().await;
    provider.idle().await;
    let (exit, _) = provider.terminate().await;
    assert_eq!(exit.code(), Some(0), "{}", exit.output);
}

/// Contract §12.2: a probe is a connection opened and closed without a byte.
#[tokio::test]
async fn connections_without_a_byte_do_no_harm() {
    let provider = Launch::new().start().await;
    for _ in 0..50 {
        drop(TcpStream::connect_timeout(&provider.address(), Duration::from_secs(1)).unwrap());
    }
    provider.idle().await;
}

/// Whatever somebody's scanner sends.
#[tokio::test]
async fn noise_does_no_harm() {
    let provider = Launch::new().start().await;
    let mut random = Random::new(8);
    for prelude in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        for _ in 0..10 {
            let mut stream = TcpStream::connect(provider.address()).unwrap();
            let noise = [prelude, &random.bytes(4096)].concat();
            // It may well hang up on us.
            stream.write_all(&noise).ok();
        }
    }
    provider.idle().await;
}
