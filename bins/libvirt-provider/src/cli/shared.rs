//! What several commands take.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use providerkit_runtime::{
    client::{Target, TargetTls},
    config::Period,
    settings::{Address, InvalidAddress},
};

/// A running provider, this one or any other of the contract.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArguments {
    /// Where the provider serves gRPC
    #[arg(long, value_name = "HOST:PORT", default_value = ":9000")]
    addr: String,
    /// PEM file of the authorities that vouch for the provider; makes it TLS
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// PEM file of a client certificate
    #[arg(long, value_name = "FILE", requires = "tls_ca", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file of the client certificate's key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Name that the provider's certificate must have, where that is not its host
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    tls_name: Option<String>,
    /// How long the provider may take for one answer
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    timeout: Period,
}

impl TargetArguments {
    pub(crate) fn parse(&self) -> anyhow::Result<Target> {
        let address = self.addr.parse::<Address>();
        let address = address.map_err(|error: InvalidAddress| anyhow::anyhow!("--addr {error}"))?;
        let tls = self.tls_ca.clone().map(|ca| TargetTls {
            ca,
            identity: self.tls_cert.clone().zip(self.tls_key.clone()),
            name: self.tls_name.clone(),
        });
        Ok(Target {
            address,
            tls,
            limit: self.timeout.into(),
        })
    }
}

/// A provider, or the file it keeps.
#[derive(Clone, Debug, Args)]
pub(crate) struct Source {
    #[command(flatten)]
    pub(crate) target: TargetArguments,
    /// Read this state file instead of asking a provider; it may run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["addr", "tls_ca"])]
    pub(crate) state: Option<PathBuf>,
}

/// The file that a provider keeps.
#[derive(Clone, Debug, Args)]
pub(crate) struct StateArguments {
    /// The state file; its provider may run
    #[arg(long, value_name = "FILE")]
    pub(crate) state: PathBuf,
}

/// How to show it.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Look {
    /// How to show it
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: Output,
    /// Leave out the names of the columns
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// Show it again and again
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// How to show something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// What matters most
    Table,
    /// All columns
    Wide,
    /// All there is, for programs
    Json,
}

/// How to say what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Report {
    /// For people
    Text,
    /// For programs
    Json,
}
