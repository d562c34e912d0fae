//! A look at a provider from outside: health, List and Get, so that it works on every provider of the contract.

use std::{collections::BTreeMap, fmt, fs, path::PathBuf, time::Duration};

use bigfleet_proto::{CapacityProviderClient, ListFilter, MachineRef};
use providerkit::store::Record;
use serde::Serialize;
use tonic::{
    Code, Status,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use crate::settings::Address;

/// What the contract allows a List to weigh.
const MESSAGE_LIMIT: usize = 256 << 20;

/// Where a provider is, and how it is spoken to.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its gRPC port; without a host, on this machine.
    pub address: Address,
    /// Transport security; plaintext without.
    pub tls: Option<TargetTls>,
    /// For connecting, and for each call.
    pub limit: Duration,
}

/// How a provider is spoken to over TLS.
#[derive(Clone, Debug)]
pub struct TargetTls {
    /// PEM file with the authorities that may vouch for it.
    pub ca: PathBuf,
    /// PEM files with a certificate of our own and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that its certificate must have, where that is not its host.
    pub name: Option<String>,
}

/// A connection to a provider.
#[derive(Clone, Debug)]
pub struct Client {
    address: String,
    channel: Channel,
    limit: Duration,
}

/// A machine as a provider shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the fields of the contract's message")]
pub struct Shown {
    pub id: String,
    /// Such as `IDLE`.
    pub state: String,
    pub provider: String,
    pub host: String,
    pub instance_type: String,
    pub zone: String,
    /// Such as `ON_DEMAND`.
    pub capacity_type: String,
    pub price_per_hour: f64,
    pub interruption_probability: f64,
    pub resources: BTreeMap<String, String>,
    pub allocatable: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    pub cluster: String,
    pub shard_metadata: BTreeMap<String, String>,
    pub last_error: String,
}

/// What a provider says of its health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It serves.
    Serving,
    /// It starts or stops.
    NotServing,
    /// It has no health service.
    Unknown,
}

/// A provider that could not be asked, or did not answer well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file for TLS cannot be read.
    #[error("TLS file `{}` cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No connection came about.
    #[error("no provider can be reached at {address}{}", why(cause))]
    Unreachable {
        /// Where it should be.
        address: String,
        /// Why; the text says it already.
        cause: Option<tonic::transport::Error>,
    },
    /// The connection was lost, or never was one: TLS may be refused as late as with the first call.
    #[error("the provider at {address} does not speak with us: {}", status.message())]
    Lost {
        /// Where it is.
        address: String,
        /// What became of the call.
        status: Box<Status>,
    },
    /// It answered with an error.
    #[error("{call} was answered with {:?}: {}", status.code(), status.message())]
    Status {
        /// The call.
        call: &'static str,
        /// The answer.
        status: Box<Status>,
    },
}

/// tonic tells the reason only in what lies below.
fn why(cause: &Option<tonic::transport::Error>) -> String {
    let mut source = cause.as_ref().and_then(std::error::Error::source);
    let mut text = String::new();
    while let Some(error) = source {
        let one = error.to_string();
        if !text.contains(&one) {
            text = format!("{text}: {one}");
        }
        source = error.source();
    }
    text
}

impl Error {
    /// Whether nobody answered, as opposed to badly.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Lost { .. })
    }

    /// Whether asking again later may help.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        let codes = [Code::Unavailable, Code::DeadlineExceeded, Code::ResourceExhausted];
        matches!(self, Self::Status { status, .. } if codes.contains(&status.code()))
    }
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When a file cannot be read, or nobody answers in time.
    pub async fn connect(target: &Target) -> Result<Self, Error> {
        let (host, port) = (target.address.host().unwrap_or("localhost"), target.address.port());
        let address = format!(
            "{}:{port}",
            if host.contains(':') {
                format!("[{host}]")
            } else {
                host.into()
            }
        );
        let unreachable = |cause| Error::Unreachable {
            address: address.clone(),
            cause,
        };
        let scheme = if target.tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"));
        let mut endpoint = endpoint
            .map_err(|error| unreachable(Some(error)))?
            .connect_timeout(target.limit)
            .timeout(target.limit);
        if let Some(tls) = &target.tls {
            let config = tls.config()?;
            endpoint = endpoint.tls_config(config).map_err(|error| unreachable(Some(error)))?;
        }
        // Whoever accepts and then says nothing must not hold us up.
        let channel = match tokio::time::timeout(target.limit, endpoint.connect()).await {
            Ok(connected) => connected.map_err(|error| unreachable(Some(error)))?,
            Err(_elapsed) => return Err(unreachable(None)),
        };
        Ok(Self {
            address,
            channel,
            limit: target.limit,
        })
    }

    /// Whether it says that it serves.
    ///
    /// # Errors
    /// When it does not answer, or with an error.
    pub async fn health(&self) -> Result<Health, Error> {
        let mut client = HealthClient::new(self.channel.clone());
        match self.call("health", client.check(HealthCheckRequest::default())).await {
            Ok(answer) if answer.status() == ServingStatus::Serving => Ok(Health::Serving),
            Ok(_) => Ok(Health::NotServing),
            Err(Error::Status { status, .. }) if status.code() == Code::Unimplemented => Ok(Health::Unknown),
            Err(error) => Err(error),
        }
    }

    /// All its machines, in its order.
    ///
    /// # Errors
    /// When it does not answer, or with an error.
    pub async fn list(&self) -> Result<Vec<Shown>, Error> {
        let listed = self.call("List", self.provider().list(ListFilter::default())).await?;
        Ok(listed.machines.into_iter().map(Shown::from).collect())
    }

    /// One machine; nothing if it knows none of this id.
    ///
    /// # Errors
    /// When it does not answer, or with an error.
    pub async fn get(&self, id: &str) -> Result<Option<Shown>, Error> {
        match self
            .call("Get", self.provider().get(MachineRef { id: id.into() }))
            .await
        {
            Ok(machine) => Ok(Some(machine.into())),
            Err(Error::Status { status, .. }) if status.code() == Code::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn provider(&self) -> CapacityProviderClient<Channel> {
        CapacityProviderClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_LIMIT)
    }

    async fn call<T>(
        &self,
        call: &'static str,
        answer: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<T, Error> {
        let address = self.address.clone();
        let Ok(answered) = tokio::time::timeout(self.limit, answer).await else {
            // Whoever accepts a connection and says nothing is no provider.
            let status = Status::deadline_exceeded(format!("no answer within {:?}", self.limit));
            let status = Box::new(status);
            return Err(Error::Lost { address, status });
        };
        match answered {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => {
                // What came over the wire has no cause on this side of it.
                let is_answer = std::error::Error::source(&status).is_none();
                let status = Box::new(status);
                Err(if is_answer {
                    Error::Status { call, status }
                } else {
                    Error::Lost { address, status }
                })
            }
        }
    }
}

impl TargetTls {
    fn config(&self) -> Result<ClientTlsConfig, Error> {
        let read = |path: &PathBuf| {
            let path = path.clone();
            fs::read(&path).map_err(|source| Error::File { path, source })
        };
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(&self.ca)?));
        if let Some((certificate, key)) = &self.identity {
            config = config.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        if let Some(name) = &self.name {
            config = config.domain_name(name);
        }
        Ok(config)
    }
}

impl From<bigfleet_proto::Machine> for Shown {
    fn from(machine: bigfleet_proto::Machine) -> Self {
        let host = machine.host.clone().unwrap_or_default();
        let resources = |of: Option<bigfleet_proto::Resources>| of.unwrap_or_default().resources.into_iter().collect();
        Self {
            state: short(machine.state().as_str_name(), "MACHINE_STATE_"),
            capacity_type: short(machine.capacity_type().as_str_name(), "CAPACITY_TYPE_"),
            id: machine.id,
            provider: host.provider,
            host: host.r#ref,
            instance_type: machine.instance_type,
            zone: machine.zone,
            price_per_hour: machine.price_per_hour,
            interruption_probability: machine.interruption_probability,
            resources: resources(machine.resources),
            allocatable: resources(machine.allocatable),
            labels: machine.labels.into_iter().collect(),
            cluster: machine.cluster,
            shard_metadata: machine.shard_metadata.into_iter().collect(),
            last_error: machine.last_error,
        }
    }
}

/// As a List of its provider would show it.
impl From<&Record> for Shown {
    fn from(record: &Record) -> Self {
        providerkit::message(&record.machine).into()
    }
}

fn short(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_owned()
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serving => "serving",
            Self::NotServing => "not serving",
            Self::Unknown => "without a health service",
        })
    }
}
