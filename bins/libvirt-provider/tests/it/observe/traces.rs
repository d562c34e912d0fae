//! Traces, as a receiver of OTLP gets them from the real binary.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bigfleet_proto::{CapacityProviderClient, CreateRequest};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Request, Response, Status, async_trait,
    transport::{Endpoint, Server},
};

use super::host::{Host, on_hosts};
use crate::harness::{AWAIT, Launch, eventually};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A receiver of OTLP.
#[derive(Clone, Default)]
struct Receiver {
    spans: Arc<Mutex<Vec<Span>>>,
    services: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let attributes = resource.resource.unwrap().attributes;
            self.services.lock().unwrap().extend(text(&attributes, "service.name"));
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.spans.lock().unwrap().extend(spans);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Receiver {
    async fn start() -> (Self, SocketAddr) {
        let receiver = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::builder().add_service(TraceServiceServer::new(receiver.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (receiver, address)
    }

    fn named(&self, name: &str, kind: i32) -> Option<Span> {
        let spans = self.spans.lock().unwrap();
        spans
            .iter()
            .find(|span| span.name == name && span.kind == kind)
            .cloned()
    }

    fn children(&self, parent: &Span) -> Vec<Span> {
        let spans = self.spans.lock().unwrap();
        let children = spans.iter().filter(|span| span.parent_span_id == parent.span_id);
        children.cloned().collect()
    }
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{key} is {other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const INTERNAL: i32 = 1;
const SERVER: i32 = 2;
const CLIENT: i32 = 3;

fn sending_to(launch: Launch, receiver: SocketAddr) -> Launch {
    launch
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{receiver}"))
        .env("OTEL_BSP_SCHEDULE_DELAY", "50")
}

async fn create(address: SocketAddr, id: &str) -> String {
    let mut client = CapacityProviderClient::new(
        Endpoint::from_shared(format!("http://{address}"))
            .unwrap()
            .connect()
            .await
            .unwrap(),
    );
    let mut request = Request::new(CreateRequest {
        machine_id: id.to_owned(),
        ..CreateRequest::default()
    });
    let parent = format!("00-{TRACE}-{PARENT}-01");
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    client.create(request).await.unwrap().into_inner().operation_id
}

#[tokio::test]
async fn a_create_is_seen_from_the_callers_trace_down_to_the_calls_to_libvirt() {
    let host = Host::start().await;
    let (receiver, address) = Receiver::start().await;
    let launch = on_hosts().flag(format!("--connect=rack1={}", host.uri()));
    let provider = sending_to(launch, address).start().await;
    eventually("a slot", AWAIT, async || !provider.fleet().await.is_empty()).await;
    let id = provider.pick_one().await;
    let operation = create(provider.address(), &id).await;
    eventually("the transition's span", AWAIT, async || {
        receiver.named("Create", INTERNAL).is_some()
    })
    .await;

    let call = receiver.named("Create", SERVER).unwrap();
    assert_eq!(
        (hex(&call.trace_id), hex(&call.parent_span_id)),
        (TRACE.into(), PARENT.into())
    );
    assert_eq!(text(&call.attributes, "rpc.grpc.status_code").unwrap(), "0");

    let transition = receiver.named("Create", INTERNAL).unwrap();
    let links: Vec<_> = transition
        .links
        .iter()
        .map(|link| (&link.trace_id, &link.span_id))
        .collect();
    assert_eq!(links, [(&call.trace_id, &call.span_id)]);
    for (key, value) in [
        ("machine_id", &*id),
        ("op_id", &operation),
        ("outcome", "ok"),
        ("attempt", "1"),
    ] {
        assert_eq!(text(&transition.attributes, key).as_deref(), Some(value), "{key}");
    }
    let children = receiver.children(&transition);
    let calls: Vec<_> = children
        .iter()
        .filter_map(|span| text(&span.attributes, "call"))
        .collect();
    for call in ["domain_define_xml_flags", "domain_create_with_flags"] {
        assert!(calls.iter().any(|made| made == call), "{call} is not among {calls:?}");
    }
    assert!(children.iter().any(|span| span.kind == CLIENT), "{children:?}");
    let agent = children.iter().find(|span| span.name == "agent").unwrap();
    assert_eq!(text(&agent.attributes, "phase").as_deref(), Some("ping"));
    assert!(
        !receiver.children(agent).is_empty(),
        "the agent is asked by calls to libvirt"
    );
    assert_eq!(receiver.services.lock().unwrap()[0], "libvirt-provider");
}

#[tokio::test]
async fn the_last_spans_are_sent_when_it_ends_and_the_service_may_be_named() {
    let (receiver, address) = Receiver::start().await;
    let launch = sending_to(Launch::new(), address)
        .env("OTEL_BSP_SCHEDULE_DELAY", "3600000")
        .env("OTEL_SERVICE_NAME", "rack-provider");
    let provider = launch.start().await;
    let id = provider.pick_one().await;
    create(provider.address(), &id).await;
    assert_eq!(receiver.named("Create", SERVER), None);
    provider.terminate().await;
    assert!(receiver.named("Create", SERVER).is_some());
    assert_eq!(receiver.services.lock().unwrap()[0], "rack-provider");
}

#[tokio::test]
async fn the_configuration_may_name_the_receiver_and_the_environment_switch_it_off() {
    let (receiver, address) = Receiver::start().await;
    let launch = Launch::new().flag(format!("--set=traces.endpoint=http://{address}"));
    let provider = launch.clone().env("OTEL_SDK_DISABLED", "true").start().await;
    create(provider.address(), &provider.pick_one().await).await;
    provider.terminate().await;
    assert_eq!(receiver.named("Create", SERVER), None);
    let provider = launch.start().await;
    create(provider.address(), &provider.pick_one().await).await;
    provider.terminate().await;
    assert!(receiver.named("Create", SERVER).is_some());
}
