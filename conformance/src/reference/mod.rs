//! A small provider that keeps every promise of the contract, and can be told to break any one of them.
//!
//! It is what the harness is tested with: correct, it must pass everything; as a [`Mutant`] it must be caught. Its
//! machines are only simulated, and its file is written whole at every change, so that it is a provider for thousands of
//! machines or for a loss of power only in the sense that the contract can be read in it.

mod engine;
mod fence;
mod listing;
mod mutants;
mod serve;
mod service;
mod work;
mod world;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

pub use mutants::{MUTANTS, Mutant, Place, find};
pub use serve::serve;

/// Its command line: the flags of the reference implementation (contract §12.2), and which promise to break.
#[derive(Clone, Debug, clap::Args)]
#[non_exhaustive]
pub struct Flags {
    /// Where to listen
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9000")]
    pub addr: SocketAddr,
    /// Its name; `fault` has 8 machines more, whose Create fails
    #[arg(long, value_name = "NAME", default_value = "reference")]
    pub provider: String,
    /// Taken for the sake of those who pass it; there is nothing else here
    #[arg(long)]
    pub use_fake_backend: bool,
    /// How many machines
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    pub seed_count: usize,
    /// The state file; without it everything is forgotten
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// The limit of every transition
    #[arg(long, value_name = "SECONDS", default_value = "30s", value_parser = seconds)]
    pub transition_timeout: Duration,
    /// How long every transition takes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 30)]
    pub delay_ms: u64,
    /// PEM file of the server's certificate
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file of its key
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// PEM file of the authority of client certificates
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// The promise to break
    #[arg(long, value_name = "NAME", value_parser = known)]
    pub mutant: Option<String>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.strip_suffix('s')
        .and_then(|number| number.parse().ok())
        .map(Duration::from_secs)
        .ok_or_else(|| format!("`{text}` is no time; write seconds such as 2s"))
}

fn known(name: &str) -> Result<String, String> {
    match find(name) {
        Some(mutant) => Ok(mutant.name.into()),
        None => Err(format!("there is no mutant `{name}`")),
    }
}

/// Which promise is broken.
#[derive(Clone, Debug, Default)]
struct Rules(Option<String>);

impl Rules {
    fn breaks(&self, name: &str) -> bool {
        self.0.as_deref() == Some(name)
    }

    fn mutant(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A mutant that no line asks for breaks nothing.
    #[test]
    fn every_mutant_is_asked_for_somewhere_and_every_name_is_a_mutant() {
        let sources = [
            include_str!("engine.rs"),
            include_str!("fence.rs"),
            include_str!("listing.rs"),
            include_str!("serve.rs"),
            include_str!("service.rs"),
            include_str!("work.rs"),
            include_str!("world.rs"),
        ];
        let mut names = BTreeSet::new();
        for mutant in MUTANTS {
            let quoted = format!("\"{}\"", mutant.name);
            assert!(sources.iter().any(|source| source.contains(&quoted)), "{quoted}");
            assert!(names.insert(mutant.name), "{} twice", mutant.name);
        }
        for source in sources {
            for rest in source.split("breaks(\"").skip(1) {
                let name = rest.split('"').next().unwrap();
                assert!(names.contains(name), "`{name}` is no mutant");
            }
        }
    }
}
