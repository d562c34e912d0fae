//! A small Kubernetes API server, with one node in it: as much as kubectl asks of one, over TLS with client certificates,
//! and with what a cluster's usual rules let a kubelet do.

mod api;
mod pki;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{
    Router,
    body::Bytes,
    http::{Method, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::api::{Pod, Ready};
use self::{api::State, pki::Pki};
use crate::lab::Host;

/// The node's name: that of its certificate, not its host's.
pub(crate) const NODE: &str = "node-a.rack-1.example";
/// Where the lab's network has its host.
const ADDRESS: &str = "192.168.122.1";

/// A cluster that guests of one host can reach.
pub(crate) struct Cluster {
    state: Arc<Mutex<State>>,
    pki: Pki,
    address: SocketAddr,
    _server: AbortOnDropHandle<()>,
}

impl Cluster {
    /// Begins to serve on a host's own network. Guests get kubectl from it, too.
    pub(crate) fn on(host: &Host, kubectl: Vec<u8>) -> Self {
        Self::start(host.listen(&format!("{ADDRESS}:0")), kubectl)
    }

    pub(crate) fn start(listener: std::net::TcpListener, kubectl: Vec<u8>) -> Self {
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let pki = Pki::new(&address.ip().to_string(), NODE);
        let state = Arc::new(Mutex::new(State::default()));
        let acceptor = TlsAcceptor::from(Arc::new(pki.server()));
        let listener = TcpListener::from_std(listener).unwrap();
        let serve = serve(listener, acceptor, Arc::clone(&state), kubectl.into());
        Self {
            _server: AbortOnDropHandle::new(tokio::spawn(serve)),
            state,
            pki,
            address,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A shell script that gives a node its kubelet's credentials, as kubeadm lays them out.
    pub(crate) fn credentials(&self) -> String {
        let address = self.address;
        let authority = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &self.pki.authority);
        let client = &self.pki.client;
        format!(
            r#"
mkdir -p /etc/kubernetes /var/lib/kubelet/pki
cat >/var/lib/kubelet/pki/kubelet-client-current.pem <<'PEM'
{client}PEM
cat >/etc/kubernetes/kubelet.conf <<'YAML'
apiVersion: v1
kind: Config
clusters: [{{name: lab, cluster: {{server: "https://{address}", certificate-authority-data: {authority}}}}}]
contexts: [{{name: lab, context: {{cluster: lab, user: default-auth}}}}]
current-context: lab
users:
- name: default-auth
  user:
    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
    client-key: /var/lib/kubelet/pki/kubelet-client-current.pem
YAML
"#
        )
    }

    /// A bootstrap blob that makes a guest the cluster's node, as if its image had kubectl and no hooks but this one.
    pub(crate) fn bootstrap(&self) -> String {
        let (address, authority, credentials) = (self.address, &self.pki.authority, self.credentials());
        format!(
            r#"#!/bin/sh
set -eu
rm -f /opt/bigfleet/ready /opt/bigfleet/drain
{credentials}
[ -x /usr/local/bin/kubectl ] || python3 - <<'PY'
import os, shutil, ssl, urllib.request
trust = ssl.create_default_context(cadata="""{authority}""")
with urllib.request.urlopen("https://{address}/kubectl", context=trust) as got, open("/usr/local/bin/kubectl", "wb") as to:
    shutil.copyfileobj(got, to)
os.chmod("/usr/local/bin/kubectl", 0o755)
PY
"#
        )
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<Mutex<State>>, kubectl: Bytes) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, state, kubectl) = (acceptor.clone(), Arc::clone(&state), kubectl.clone());
        tokio::spawn(async move {
            // A client that goes away in the middle is no concern of ours.
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let user = pki::user(stream.get_ref().1);
            let answer = move |method: Method, uri: Uri, body: Bytes| async move {
                respond(&state, &kubectl, user.as_deref(), &method, &uri, &body)
            };
            let service = TowerToHyperService::new(Router::new().fallback(answer));
            drop(
                Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
    }
}

fn respond(
    state: &Mutex<State>,
    kubectl: &Bytes,
    user: Option<&str>,
    method: &Method,
    uri: &Uri,
    body: &[u8],
) -> Response {
    if uri.path() == "/kubectl" {
        return kubectl.clone().into_response();
    }
    let mut state = state.lock().unwrap();
    let answer = match user {
        Some(user) => state.answer(user, method.as_str(), uri, body),
        None => api::Answer::failure(401, "Unauthorized", "no client certificate"),
    };
    state.note(format!(
        "{} {method} {} {}",
        user.unwrap_or("nobody"),
        uri.path(),
        answer.code
    ));
    drop(state);
    let code = StatusCode::from_u16(answer.code).unwrap();
    let mut response = (code, answer.body.to_string()).into_response();
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
