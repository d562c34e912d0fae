//! What happens around every gRPC call: it is timed and counted, and a panic becomes an answer.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Instant,
};

use bigfleet_proto::SERVICE_NAME;
use http::{Request, Response};
use tonic::{Code, Status, body::Body};
use tower::{Layer, Service};
use tracing::Instrument as _;

use super::connection::Peer;
use crate::telemetry::{names, trace};

/// Wraps a gRPC service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observe;

impl<S> Layer<S> for Observe {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed { inner }
    }
}

/// A gRPC service that is observed.
#[derive(Clone, Debug)]
pub(super) struct Observed<S> {
    inner: S,
}

impl<S> Service<Request<Body>> for Observed<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let call = Call::begin(request.uri().path());
        let span = tracing::debug_span!(
            "grpc",
            otel.name = call.method,
            otel.kind = "server",
            rpc.system = "grpc",
            rpc.method = call.method,
            rpc.grpc.status_code = tracing::field::Empty,
        );
        trace::continue_trace(&span, request.headers());
        identify(&mut request);
        let peer = request.extensions().get::<Peer>();
        let peer = peer.map(|peer| tracing::field::display(peer.address));
        tracing::trace!(method = call.method, peer, "called");
        // The one that was seen to be ready is the one to call.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let recorded = span.clone();
        let answered = async move {
            let answered = catch(async move { inner.call(request).await }).await;
            let response = answered
                .unwrap_or_else(|| Ok(Status::internal("the provider has a bug here; its log tells more").into_http()));
            let response = response?;
            let code = code(&response);
            recorded.record("rpc.grpc.status_code", code as i32);
            call.end(code);
            Ok(response)
        };
        Box::pin(answered.instrument(span))
    }
}

/// Puts what is known of the caller where the service looks for it.
fn identify(request: &mut Request<Body>) {
    let peer = request.extensions().get::<Peer>();
    let Some(Peer { address, caller }) = peer.cloned() else {
        return;
    };
    request.extensions_mut().insert(providerkit::Peer(address));
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
}

/// Answers nothing if the future panics. The state behind it is not suspected: no lock is held across the engine's
/// own code that may panic.
async fn catch<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Some),
        Err(_) => Poll::Ready(None),
    })
    .await
}

/// The code of an answer. One that has none in its headers begins with a message, so it went well.
fn code(response: &Response<Body>) -> Code {
    Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code())
}

/// A call that runs. Dropped before its end, it was cancelled by the caller.
struct Call {
    method: &'static str,
    began: Instant,
    ended: bool,
}

impl Call {
    fn begin(path: &str) -> Self {
        Self {
            method: method(path),
            began: Instant::now(),
            ended: false,
        }
    }

    fn end(mut self, code: Code) {
        self.ended = true;
        self.record(code);
    }

    fn record(&self, code: Code) {
        metrics::counter!(names::GRPC_REQUESTS, "method" => self.method, "code" => name(code)).increment(1);
        metrics::histogram!(names::GRPC_DURATION, "method" => self.method).record(self.began.elapsed());
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.ended {
            self.record(Code::Cancelled);
        }
    }
}

/// The label of a path: one of a fixed set, because paths are the callers' to choose.
fn method(path: &str) -> &'static str {
    let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    match service {
        SERVICE_NAME => names::METHODS
            .into_iter()
            .find(|name| *name == method)
            .unwrap_or("unknown"),
        "grpc.health.v1.Health" => "Health",
        "grpc.reflection.v1.ServerReflection" | "grpc.reflection.v1alpha.ServerReflection" => "Reflection",
        _ => "unknown",
    }
}

/// The code as Go spells it, so that dashboards of the reference work.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_callers_become_few_labels() {
        for (path, label) in [
            ("/bigfleet.v1alpha1.CapacityProvider/Create", "Create"),
            ("/bigfleet.v1alpha1.CapacityProvider/Crate", "unknown"),
            ("/grpc.health.v1.Health/Check", "Health"),
            ("/x/Create", "unknown"),
            ("", "unknown"),
        ] {
            assert_eq!(method(path), label, "{path}");
        }
    }
}
