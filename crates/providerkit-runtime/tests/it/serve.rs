//! The life of a process, as its callers and its probes see it.

use std::net::TcpListener;

use bigfleet_proto::SERVICE_NAME;
use providerkit_runtime::{
    serve::{Ended, Error},
    settings::Settings,
};
use tokio::net::TcpStream;
use tonic::Code;

use crate::{
    desk::{self, Client, Process, counted, endpoint, eventually, settings, soon},
    probe::{health, http},
};

/// Settings with fixed ports, for a process that is looked at before it says where it serves.
fn fixed(keys: &[(&str, &str)]) -> (Settings, [std::net::SocketAddr; 2]) {
    let free = || TcpListener::bind("127.0.0.1:0").unwrap();
    let [grpc, admin] = [free(), free()].map(|listener| listener.local_addr().unwrap());
    let (one, other) = (grpc.to_string(), admin.to_string());
    let ports = [("listen.addr", one.as_str()), ("admin.addr", other.as_str())];
    let keys: Vec<_> = ports.iter().chain(keys).copied().collect();
    (settings(&keys), [grpc, admin])
}

#[tokio::test]
async fn a_caller_that_comes_while_we_load_waits_and_is_answered() {
    let (settings, [grpc, admin]) = fixed(&[]);
    let mut process = Process::loading(settings);
    eventually("the port takes connections", async || {
        TcpStream::connect(grpc).await.is_ok()
    })
    .await;
    let client = Client::over(endpoint(grpc).connect_lazy());
    let call = tokio::spawn(async move { client.get("m").await });
    eventually("the probes tell that we load", async || {
        TcpStream::connect(admin).await.is_ok()
    })
    .await;
    assert_eq!(http(admin, "/readyz").await, (503, "starting\n".into()));
    assert_eq!(http(admin, "/livez").await.0, 200);
    assert_eq!(health(admin, "").await, Ok("NotServing".into()));
    assert!(!call.is_finished(), "answered before anything was loaded");
    process.go().await;
    assert_eq!(soon("the answer", call).await.unwrap().unwrap().id, "m");
}

#[tokio::test]
async fn probes_tell_that_we_serve_on_both_ports() {
    let process = Process::serving(settings(&[])).await;
    let admin = process.admin.unwrap();
    assert_eq!(http(admin, "/readyz").await, (200, "serving\n".into()));
    assert_eq!(http(admin, "/healthz").await.0, 200);
    assert_eq!(http(admin, "/nowhere").await.0, 404);
    for address in [admin, process.grpc] {
        for service in ["", SERVICE_NAME] {
            assert_eq!(
                health(address, service).await,
                Ok("Serving".into()),
                "{address} {service}"
            );
        }
        assert_eq!(health(address, "other").await, Err(Code::NotFound));
    }
    let (_, text) = http(admin, "/metrics").await;
    assert!(text.contains("test_build_info{"), "{text}");
}

#[tokio::test]
async fn leaving_is_told_before_anything_is_refused() {
    let process = Process::serving(settings(&[("shutdown.delay", "1h")])).await;
    let admin = process.admin.unwrap();
    process.signal().await;
    eventually("not ready", async || {
        http(admin, "/readyz").await == (503, "stopping\n".into())
    })
    .await;
    assert_eq!(health(admin, "").await, Ok("NotServing".into()));
    assert_eq!(process.client().get("m").await.unwrap().id, "m");
    assert_eq!(process.desk.events(), [""; 0]);
}

#[tokio::test]
async fn everything_ends_in_order_and_the_ports_are_free_again() {
    let process = Process::serving(settings(&[])).await;
    let (desk, grpc, admin) = (process.desk.clone(), process.grpc, process.admin.unwrap());
    let client = process.client();
    client.get("m").await.unwrap();
    process.signal().await;
    assert_eq!(process.end().await.unwrap(), Ended::Orderly);
    assert_eq!(desk.events(), ["refuse", "stop"]);
    for address in [grpc, admin] {
        TcpListener::bind(address).unwrap();
    }
    assert_eq!(client.get("m").await.unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn a_call_under_way_is_answered_although_we_leave() {
    let process = Process::serving(settings(&[("shutdown.grace", "1h")])).await;
    let (desk, client) = (process.desk.clone(), process.client());
    let call = tokio::spawn(async move { client.get("wait").await });
    soon(
        "the call is under way",
        desk.waiting.subscribe().wait_for(|count| *count == 1),
    )
    .await
    .unwrap();
    process.signal().await;
    eventually("we leave", async || desk.events() == ["refuse", "stop"]).await;
    assert!(!process.ended.is_finished());
    desk.release.add_permits(1);
    assert_eq!(soon("the answer", call).await.unwrap().unwrap().id, "wait");
    assert_eq!(process.end().await.unwrap(), Ended::Orderly);
}

#[tokio::test]
async fn a_call_that_never_ends_does_not_keep_us_beyond_the_grace() {
    let process = Process::serving(settings(&[("shutdown.grace", "50ms")])).await;
    let (desk, client) = (process.desk.clone(), process.client());
    let _call = tokio::spawn(async move { client.get("wait").await });
    soon(
        "the call is under way",
        desk.waiting.subscribe().wait_for(|count| *count == 1),
    )
    .await
    .unwrap();
    process.signal().await;
    assert_eq!(process.end().await.unwrap(), Ended::Orderly);
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let process = Process::serving(settings(&[("shutdown.delay", "1h")])).await;
    process.signal().await;
    process.signal().await;
    assert_eq!(process.end().await.unwrap(), Ended::AtOnce);
}

#[tokio::test]
async fn a_signal_while_loading_ends_before_anything_is_served() {
    let process = Process::loading(settings(&[]));
    process.signal().await;
    let desk = process.desk.clone();
    assert_eq!(process.end().await.unwrap(), Ended::Orderly);
    assert_eq!(desk.events(), [""; 0]);
}

#[tokio::test]
async fn a_panic_is_an_internal_error_of_its_call_alone_and_is_counted() {
    let process = Process::serving(settings(&[])).await;
    let client = process.client();
    let before = counted("test_panics_total", "");
    assert_eq!(client.get("panic").await.unwrap_err().code(), Code::Internal);
    assert_eq!(client.get("m").await.unwrap().id, "m");
    assert!(counted("test_panics_total", "") > before);
}

#[tokio::test]
async fn calls_are_counted_by_method_and_code_in_gos_spelling() {
    let process = Process::serving(settings(&[])).await;
    let fenced = r#"method="Get",code="FailedPrecondition""#;
    let before = counted("test_grpc_requests_total", fenced);
    assert_eq!(
        process.client().get("fenced").await.unwrap_err().code(),
        Code::FailedPrecondition
    );
    assert_eq!(counted("test_grpc_requests_total", fenced), before + 1);
}

#[tokio::test]
async fn a_call_that_its_caller_gives_up_is_counted_as_canceled() {
    let process = Process::serving(settings(&[])).await;
    let canceled = r#"method="Get",code="Canceled""#;
    let before = counted("test_grpc_requests_total", canceled);
    let client = process.client();
    let call = tokio::spawn(async move { client.get("wait").await });
    let mut waiting = process.desk.waiting.subscribe();
    soon("the call is under way", waiting.wait_for(|count| *count == 1))
        .await
        .unwrap();
    call.abort();
    eventually("it is counted", async || {
        counted("test_grpc_requests_total", canceled) > before
    })
    .await;
}

/// A shard has one connection and many workers; none may wait for another's answer.
#[tokio::test]
async fn a_thousand_calls_run_at_once_on_one_connection() {
    let process = Process::serving(settings(&[])).await;
    let client = process.client();
    client.get("m").await.unwrap();
    let calls: Vec<_> = (0..1000)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.get("wait").await })
        })
        .collect();
    let mut waiting = process.desk.waiting.subscribe();
    soon("all calls are under way", waiting.wait_for(|count| *count == 1000))
        .await
        .unwrap();
    process.desk.release.add_permits(1000);
    for call in calls {
        assert!(soon("an answer", call).await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn without_caller_certificates_nobody_is_named() {
    let process = Process::serving(settings(&[])).await;
    assert_eq!(process.client().caller().await, "None");
}

#[tokio::test]
async fn a_taken_grpc_port_is_an_error_that_names_it_and_the_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = Process::loading(settings(&[("listen.addr", &address)]))
        .end()
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&address) && text.contains("`listen.addr`"), "{text}");
    assert!(!error.is_configuration());
}

#[tokio::test]
async fn a_taken_admin_port_matters_only_when_it_was_asked_for() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut wanted = settings(&[("admin.addr", &address)]);
    let error = Process::loading(wanted.clone()).end().await.unwrap_err();
    assert!(matches!(error, Error::Bind { what: "admin", .. }), "{error:?}");
    wanted.admin.as_mut().unwrap().required = false;
    let process = Process::serving(wanted).await;
    assert_eq!(process.admin, None);
    assert_eq!(process.client().get("m").await.unwrap().id, "m");
}

#[tokio::test]
async fn a_start_that_fails_is_told_as_it_is() {
    let (signals, from_signals) = providerkit_runtime::serve::Signals::by_hand();
    let start = async { Err::<desk::Desk, _>("the state is damaged") };
    let ended = providerkit_runtime::serve::serve(&settings(&[]), None, from_signals, start).await;
    assert_eq!(ended.unwrap_err().to_string(), "the state is damaged");
    drop(signals);
}
