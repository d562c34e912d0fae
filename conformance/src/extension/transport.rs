//! What else a provider serves, and whom it bears (contract §1.4, §12.2).

use std::io::Write as _;

use bigfleet_proto::SERVICE_NAME;
use tokio_stream::StreamExt as _;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability, Lane},
    client::channel,
    context::speculative,
    launch::Start,
    outcome::{Stop, ensure},
    walk::{AWAIT, Patience},
};

const AREA: Area = Area::Transport;

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "X401",
        AREA,
        [
            "gRPC health says SERVING",
            "an orchestrator that cannot ask restarts what is well",
            "grpc.health.v1 Check of the empty name on the same port: SERVING within 15 s",
        ],
        |cx| Box::pin(x401(cx)),
    )
    .machines(0)
    .needs(Capability::Health)
    .extension(),
    Behaviour::new(
        "X402",
        AREA,
        [
            "Server reflection names the service",
            "whoever looks into a fault at night has grpcurl and nothing else",
            "ListServices of reflection v1 names bigfleet.v1alpha1.CapacityProvider",
        ],
        |cx| Box::pin(x402(cx)),
    )
    .machines(0)
    .needs(Capability::Reflection)
    .extension(),
    Behaviour::new(
        "X403",
        AREA,
        [
            "Connections without a byte, and noise, do no harm",
            "probes and scanners reach every port sooner or later",
            "50 connections opened and closed without a byte, 30 with 4 KiB of noise after various beginnings; then a \
             machine walks to IDLE",
        ],
        |cx| Box::pin(x403(cx)),
    )
    .lane(Lane::Own)
    .machines(0)
    .extension(),
];

async fn x401(cx: &Context) -> Outcome {
    let channel = channel(&cx.address).map_err(|error| Stop::failed("an address", error.to_string()))?;
    let mut client = HealthClient::new(channel);
    let patience = Patience::new("SERVING", cx.session().limit(AWAIT));
    loop {
        let answer = client.check(HealthCheckRequest::default()).await;
        let seen = match answer.map(|answer| answer.into_inner().status()) {
            Ok(ServingStatus::Serving) => return Ok(()),
            Ok(status) => format!("{status:?}"),
            Err(status) => format!("{:?}: {}", status.code(), status.message()),
        };
        patience.more(seen).await?;
    }
}

async fn x402(cx: &Context) -> Outcome {
    let channel = channel(&cx.address).map_err(|error| Stop::failed("an address", error.to_string()))?;
    let mut client = ServerReflectionClient::new(channel);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answer = client.server_reflection_info(tokio_stream::once(request)).await;
    let mut answers = crate::expect::success(answer, "reflection")?.into_inner();
    let answer = match answers.next().await {
        Some(answer) => crate::expect::success(answer, "reflection")?,
        None => return Err(Stop::failed("an answer of reflection", "none")),
    };
    let names: Vec<String> = match answer.message_response {
        Some(MessageResponse::ListServicesResponse(list)) => {
            list.service.into_iter().map(|service| service.name).collect()
        }
        other => return Err(Stop::failed("a list of services", format!("{other:?}"))),
    };
    let named = names.iter().any(|name| name == SERVICE_NAME);
    ensure!(
        named,
        format!("{SERVICE_NAME} among the services"),
        format!("{names:?}")
    );
    Ok(())
}

async fn x403(cx: &Context) -> Outcome {
    let provider = cx.launch(&Start::new("x403")).await?;
    let connect = || {
        std::net::TcpStream::connect(provider.address)
            .map_err(|error| Stop::failed("a connection", format!("{error}; {}", provider.tail())))
    };
    for _ in 0..50 {
        drop(connect()?);
    }
    let mut random = cx.random();
    for prelude in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        for _ in 0..10 {
            let noise = [prelude, &random.bytes(4096)].concat();
            // It may well hang up on us.
            connect()?.write_all(&noise).ok();
        }
    }
    let client = cx.client_of(&provider)?;
    for id in speculative(&client, 1).await? {
        client.make_idle(&id).await?;
    }
    Ok(())
}
