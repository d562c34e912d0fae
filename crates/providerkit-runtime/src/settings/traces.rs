//! Where traces go.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Findings;

/// Where traces go, as configured.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct TracesConfig {
    /// An OTLP receiver that speaks gRPC, such as `http://collector:4317`. When empty, the variable
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` may name it; without either there are no traces.
    pub endpoint: String,
}

/// Where traces go.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Traces {
    /// The receiver, if the configuration names one.
    pub endpoint: Option<String>,
}

impl Traces {
    pub(super) fn parse(config: TracesConfig, findings: &mut Findings) -> Self {
        let endpoint = Some(config.endpoint).filter(|endpoint| !endpoint.is_empty());
        if let Some(endpoint) = &endpoint
            && !is_plain(endpoint)
        {
            let problem = format!(
                "must be `http://host:port`, but is `{endpoint}`; a receiver that wants TLS is reached through a \
                 collector beside this process"
            );
            findings.refuse("traces.endpoint", problem);
        }
        Self { endpoint }
    }
}

fn is_plain(endpoint: &str) -> bool {
    let uri: Result<http::Uri, _> = endpoint.parse();
    uri.is_ok_and(|uri| uri.scheme_str() == Some("http") && uri.host().is_some_and(|host| !host.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_endpoints_are_taken() {
        for good in ["http://collector:4317", "http://127.0.0.1:4317/", "http://[::1]:4317"] {
            assert!(is_plain(good), "{good}");
        }
        for bad in ["collector:4317", "https://collector:4317", "/socket", "http://"] {
            assert!(!is_plain(bad), "{bad}");
        }
    }
}
