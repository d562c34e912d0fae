//! TLS, and who may speak for a shard (contract §1.4, ADR-0048). The harness makes its own authorities.

use std::{fs, path::PathBuf, sync::Arc};

use bigfleet_proto::MachineState as S;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
    version::{TLS12, TLS13},
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};
use tower::service_fn;

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability, Checking, Lane},
    call::{Binding, Shard, free},
    client::Client,
    context::speculative,
    expect::{operation, refused_with},
    launch::{Provider, Start, TlsFiles},
    outcome::{Stop, ensure, ensure_eq},
};

const fn tls(id: &'static str, texts: [&'static str; 3], run: for<'a> fn(&'a Context) -> Checking<'a>) -> Behaviour {
    Behaviour::new(id, Area::Transport, texts, run)
        .lane(Lane::Own)
        .machines(0)
        .needs(Capability::MutualTls)
        .extension()
}

pub(super) const ALL: &[Behaviour] = &[
    tls(
        "X404",
        [
            "With a certificate it serves TLS, and nothing in plain",
            "fencing is no protection from whoever listens",
            "server certificate only: a client that trusts its authority walks a machine to IDLE; TLS 1.2 is refused; a \
             plain client gets no answer",
        ],
        |cx| Box::pin(x404(cx)),
    ),
    tls(
        "X405",
        [
            "With a client authority nobody else gets in",
            "any client that gets in can drain the fleet",
            "no client certificate, and one of another authority: no call is answered",
        ],
        |cx| Box::pin(x405(cx)),
    ),
    tls(
        "X406",
        [
            "A shard speaks for itself and for no other",
            "one shard's key must not open the machines of all",
            "certificate bigfleet://shard/alpha: alpha's Create (1,1) accepted; beta's and unfenced Create, Configure, \
             Drain, Delete -> PERMISSION_DENIED, the record unchanged; then the real beta's (1,1) is accepted",
        ],
        |cx| Box::pin(x406(cx)),
    ),
    tls(
        "X407",
        [
            "A certificate must name exactly one shard",
            "a name that is read in two ways is read in the attacker's",
            "no URI, two shards, another kind of URI, another scheme, an empty shard: PERMISSION_DENIED and SPECULATIVE; \
             one shard beside a URI of another scheme is accepted",
        ],
        |cx| Box::pin(x407(cx)),
    ),
    tls(
        "X408",
        [
            "Half of a TLS configuration is an error at the start",
            "a provider that falls back to plain text is open and does not say so",
            "certificate only, key only, client authority only: the process ends with an error within 20 s and \
             answers no call",
        ],
        |cx| Box::pin(x408(cx)),
    ),
];

struct Leaf {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

/// An authority and its files.
struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

fn broken(error: impl std::fmt::Display) -> Stop {
    Stop::failed("the harness to make certificates", error.to_string())
}

impl Authority {
    fn new(cx: &Context, name: &str) -> Outcome<Self> {
        let folder = cx.scratch.join(name);
        fs::create_dir_all(&folder).map_err(broken)?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().map_err(broken)?;
        let certificate = params.self_signed(&key).map_err(broken)?;
        Ok(Self {
            folder,
            issuer: Issuer::new(params, key),
            certificate,
        })
    }

    fn sign(&self, names: Vec<SanType>) -> Outcome<Leaf> {
        let key = KeyPair::generate().map_err(broken)?;
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        let certificate = params.signed_by(&key, &self.issuer).map_err(broken)?;
        Ok(Leaf { certificate, key })
    }

    fn client(&self, uris: &[&str]) -> Outcome<Leaf> {
        let mut names = Vec::new();
        for uri in uris {
            names.push(SanType::URI((*uri).try_into().map_err(broken)?));
        }
        self.sign(names)
    }

    fn write(&self, name: &str, pem: &str) -> Outcome<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, pem).map_err(broken)?;
        Ok(path)
    }

    /// Files of a server for `localhost`.
    fn files(&self, mutual: bool) -> Outcome<TlsFiles> {
        let leaf = self.sign(vec![SanType::DnsName("localhost".try_into().map_err(broken)?)])?;
        Ok(TlsFiles {
            cert: Some(self.write("tls.crt", &leaf.certificate.pem())?),
            key: Some(self.write("tls.key", &leaf.key.serialize_pem())?),
            ca: match mutual {
                true => Some(self.write("ca.crt", &self.certificate.pem())?),
                false => None,
            },
        })
    }

    fn config(&self, leaf: Option<&Leaf>, version: &'static SupportedProtocolVersion) -> Outcome<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).map_err(broken)?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .map_err(broken)?
            .with_root_certificates(roots);
        let mut config = match leaf {
            None => config.with_no_client_auth(),
            Some(leaf) => {
                let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(leaf.key.serialize_der()));
                let chain = vec![leaf.certificate.der().clone()];
                config.with_client_auth_cert(chain, key).map_err(broken)?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    async fn connect(&self, cx: &Context, provider: &Provider, leaf: Option<&Leaf>) -> Outcome<Client> {
        let channel = try_connect(provider, self.config(leaf, &TLS13)?).await;
        let channel = channel.map_err(|error| Stop::failed("a connection through TLS", chain(&error)))?;
        Ok(Client::over(channel, Arc::clone(cx.session())))
    }
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}

async fn try_connect(provider: &Provider, config: ClientConfig) -> Result<Channel, tonic::transport::Error> {
    let (address, connector) = (provider.address, TlsConnector::from(Arc::new(config)));
    let service = service_fn(move |_| {
        let connector = connector.clone();
        async move {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::try_from("localhost").map_err(std::io::Error::other)?;
            connector.connect(name, stream).await.map(TokioIo::new)
        }
    });
    Endpoint::from_static("http://localhost")
        .connect_with_connector(service)
        .await
}

/// In TLS 1.3 a client hears of its refusal only when it reads, so that a connection alone says nothing.
async fn kept_out(cx: &Context, channel: Result<Channel, tonic::transport::Error>, who: &str) -> Outcome {
    if let Ok(channel) = channel {
        let client = Client::over(channel, Arc::clone(cx.session()));
        let answer = client.try_list(Default::default()).await;
        let expected = format!("{who} to be kept out");
        ensure!(answer.is_err(), expected, "its List was answered");
    }
    Ok(())
}

async fn one(client: &Client) -> Outcome<String> {
    let ids = speculative(client, 1).await?;
    ids.into_iter().next().ok_or_else(|| Stop::skipped("no machine"))
}

async fn x404(cx: &Context) -> Outcome {
    let authority = Authority::new(cx, "x404")?;
    let provider = cx.launch(&Start::new("x404").tls(authority.files(false)?)).await?;
    let client = authority.connect(cx, &provider, None).await?;
    client.make_idle(&one(&client).await?).await?;
    let old = try_connect(&provider, authority.config(None, &TLS12)?).await;
    ensure!(old.is_err(), "TLS 1.2 to be refused", "a connection");
    let plain = Endpoint::from_shared(format!("http://{}", provider.address)).map_err(broken)?;
    kept_out(cx, plain.connect().await, "a client without TLS").await
}

async fn x405(cx: &Context) -> Outcome {
    let (authority, stranger) = (Authority::new(cx, "x405")?, Authority::new(cx, "x405-stranger")?);
    let provider = cx.launch(&Start::new("x405").tls(authority.files(true)?)).await?;
    let theirs = stranger.client(&["bigfleet://shard/alpha"])?;
    for (leaf, who) in [
        (None, "a client without certificate"),
        (Some(&theirs), "a client of another authority"),
    ] {
        let channel = try_connect(&provider, authority.config(leaf, &TLS13)?).await;
        kept_out(cx, channel, who).await?;
    }
    let ours = authority.client(&["bigfleet://shard/alpha"])?;
    let client = authority.connect(cx, &provider, Some(&ours)).await?;
    one(&client).await.map(drop)
}

async fn x406(cx: &Context) -> Outcome {
    let authority = Authority::new(cx, "x406")?;
    let provider = cx.launch(&Start::new("x406").tls(authority.files(true)?)).await?;
    let leaf = authority.client(&["bigfleet://shard/alpha"])?;
    let client = authority.connect(cx, &provider, Some(&leaf)).await?;
    let (alpha, beta) = (Shard("alpha".into()), Shard("beta".into()));
    let id = one(&client).await?;
    operation(client.create(&id, &alpha.at(1, 1)).await, "alpha's own Create")?;
    client.reach(&id, S::Idle).await?;
    let id = one(&client).await?;
    let before = client.get(&id).await?;
    let (code, binding) = (Code::PermissionDenied, Binding::to("c"));
    for (token, who) in [(beta.at(9, 9), "beta"), (free(), "nobody")] {
        let what = |call: &str| format!("alpha's {call} for {who}");
        refused_with(&client.create(&id, &token).await, code, &what("Create"))?;
        refused_with(&client.configure(&id, &binding, &token).await, code, &what("Configure"))?;
        refused_with(&client.drain(&id, 0, &token).await, code, &what("Drain"))?;
        refused_with(&client.delete(&id, &token).await, code, &what("Delete"))?;
    }
    ensure_eq!("the record", client.get(&id).await?, before);
    let real = authority.client(&["bigfleet://shard/beta"])?;
    let real = authority.connect(cx, &provider, Some(&real)).await?;
    operation(
        real.create(&id, &beta.at(1, 1)).await,
        "the real beta's Create with (1, 1)",
    )
    .map(drop)
}

async fn x407(cx: &Context) -> Outcome {
    let authority = Authority::new(cx, "x407")?;
    let provider = cx.launch(&Start::new("x407").tls(authority.files(true)?)).await?;
    let alpha = Shard("alpha".into());
    let strange: [&[&str]; 5] = [
        &[],
        &["bigfleet://shard/alpha", "bigfleet://shard/beta"],
        &["bigfleet://provider/alpha"],
        &["spiffe://shard/alpha"],
        &["bigfleet://shard/"],
    ];
    for uris in strange {
        let leaf = authority.client(uris)?;
        let client = authority.connect(cx, &provider, Some(&leaf)).await?;
        let id = one(&client).await?;
        let what = format!("a Create with a certificate of {uris:?}");
        refused_with(
            &client.create(&id, &alpha.at(1, 1)).await,
            Code::PermissionDenied,
            &what,
        )?;
        ensure_eq!("state", client.get(&id).await?.state(), S::Speculative);
    }
    let leaf = authority.client(&["bigfleet://shard/alpha", "https://elsewhere/x"])?;
    let client = authority.connect(cx, &provider, Some(&leaf)).await?;
    let answer = client.create(&one(&client).await?, &alpha.at(1, 1)).await;
    operation(answer, "a Create with one shard beside another URI").map(drop)
}

async fn x408(cx: &Context) -> Outcome {
    let authority = Authority::new(cx, "x408")?;
    let TlsFiles { cert, key, ca } = authority.files(true)?;
    let halves = [
        TlsFiles {
            cert,
            ..TlsFiles::default()
        },
        TlsFiles {
            key,
            ..TlsFiles::default()
        },
        TlsFiles {
            ca,
            ..TlsFiles::default()
        },
    ];
    for (half, what) in halves.into_iter().zip(["certificate", "key", "client authority"]) {
        let provider = cx.spawn(&Start::new("x408").tls(half))?;
        let expected = format!("an error at the start with a {what} alone");
        cx.refuses_to_start(&provider, &expected).await?;
    }
    Ok(())
}
