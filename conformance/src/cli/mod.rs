//! Arguments, and what is done with them.

mod certify;
mod progress;
mod show;

use std::{ffi::OsString, io::Write as _, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, Parser, Subcommand};
use conformance::{Mapping, Options, Source};

/// The run could not happen.
pub(crate) const SETUP_ERROR: u8 = 2;

/// Certifies BigFleet capacity providers over the wire, whatever they are written in.
///
/// Exit code 0: certified. 1: a promise was broken, or something could not be checked. 2: the run could not happen.
#[derive(Debug, Parser)]
#[command(name = "bigfleet-conformance", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Check a provider and write reports
    Run(Box<Run>),
    /// List behaviours
    List(List),
    /// Say what a behaviour is, why it matters and how it is tested
    Explain {
        /// Such as B302, X101 or FullLifecycle
        id: String,
    },
    /// Serve the reference provider: small, in memory, correct, and able to break any one promise
    Reference(conformance::reference::Flags),
    /// Run the behaviours against mutants of the reference, and write the table of what caught them
    Mutants(Mutants),
}

#[derive(Debug, Args)]
struct Run {
    /// Command line of the provider; it is started with the flags of the reference, or those of --mapping
    #[arg(
        long,
        value_name = "COMMAND",
        required_unless_present = "target",
        conflicts_with = "target"
    )]
    provider: Option<String>,
    /// Check a provider that runs; what needs a start or a kill is skipped
    #[arg(long, value_name = "HOST:PORT")]
    target: Option<String>,
    /// What to certify for: core, cloud, spot, bare-metal, fault, durable, scale, extension, soak; all but soak: all
    #[arg(long, value_name = "NAMES", default_value = "core")]
    profile: String,
    /// Ids with * for anything, or areas such as FE; nothing else is run
    #[arg(long, value_name = "PATTERNS")]
    filter: Option<String>,
    /// What made-up arguments come from; a failure is repeated by its seed
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// How many behaviours run side by side
    #[arg(long, value_name = "COUNT", default_value_t = 48)]
    jobs: usize,
    /// How the provider's flags differ, what it does not claim, how failures are injected (TOML)
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// Command line of a provider that fails on demand, for the fault profile and B1006
    #[arg(long, value_name = "COMMAND")]
    fault_provider: Option<String>,
    /// Capabilities or extension behaviours that are not claimed, besides those of the mapping
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    without: Vec<String>,
    /// Name in reports
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Machines of the core lane
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    seed_count: usize,
    /// Machines of the scale lane [env: BFCONF_SCALE_SEED]
    #[arg(long, value_name = "COUNT")]
    scale_seed: Option<usize>,
    /// How long what soaks does so, such as 10s or 2h [env: BFCONF_SOAK]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    soak: Option<Duration>,
    /// Multiply every limit, for machines that are real
    #[arg(long, value_name = "FACTOR")]
    timeout_factor: Option<f64>,
    /// First port of providers that are started, instead of free ones
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Folder for report.json, junit.xml, badge.json, report.html and logs
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Leave out the upstream baseline; the verdict is then about the behaviours alone
    #[arg(long)]
    skip_baseline: bool,
    /// Print failures and the verdict only
    #[arg(long)]
    quiet: bool,
}

#[derive(Debug, Args)]
struct List {
    /// Only of these profiles
    #[arg(long, value_name = "NAMES")]
    profile: Option<String>,
    /// Only these ids or areas
    #[arg(long, value_name = "PATTERNS")]
    filter: Option<String>,
}

#[derive(Debug, Args)]
struct Mutants {
    /// Where the table goes
    #[arg(long, value_name = "FILE", default_value = "docs/conformance-mutants.md")]
    out: PathBuf,
    /// Only mutants whose name contains this; the table keeps what it has of the others
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Mutants at a time
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    jobs: usize,
}

impl Arguments {
    pub(crate) async fn execute(self) -> anyhow::Result<ExitCode> {
        match self.action {
            Action::Run(run) => certify::run(*run).await,
            Action::List(list) => show::list(list.profile.as_deref(), list.filter),
            Action::Explain { id } => show::explain(&id),
            Action::Reference(flags) => {
                let address: SocketAddr = conformance::reference::serve(flags).await?;
                anyhow::bail!("the reference on {address} ended")
            }
            Action::Mutants(mutants) => certify::mutants(mutants).await,
        }
    }
}

impl Run {
    fn options(&self) -> anyhow::Result<Options> {
        let source = match (&self.provider, &self.target) {
            (Some(command), _) => Source::Command(command.clone()),
            (None, Some(target)) => Source::Target(target.clone()),
            (None, None) => anyhow::bail!("name a provider with --provider or --target"),
        };
        let mut options = Options::new(source).profiles(&self.profile)?;
        if let Some(path) = &self.mapping {
            options.mapping = Mapping::read(path)?;
        }
        if let Some(command) = &self.fault_provider {
            options.mapping.fault.command = Some(command.clone());
        }
        if let Some(name) = &self.name {
            options.name.clone_from(name);
        }
        if let Some(factor) = self.timeout_factor {
            options.mapping.timeout_factor = Some(factor);
        }
        options.mapping.claims.without.extend(self.without.iter().cloned());
        options.mapping.check()?;
        options.filter.clone_from(&self.filter);
        options.seed = self.seed;
        options.jobs = self.jobs;
        options.seed_count = self.seed_count;
        options.scale_seed = match self.scale_seed {
            Some(count) => count,
            None => environment("BFCONF_SCALE_SEED", |text| text.parse().ok())?.unwrap_or(options.scale_seed),
        };
        options.soak = match self.soak {
            Some(soak) => soak,
            None => environment("BFCONF_SOAK", |text| duration(text).ok())?.unwrap_or(options.soak),
        };
        options.port = self.port;
        options.skip_baseline = self.skip_baseline;
        options.logs = self.out.as_ref().map(|out| out.join("logs"));
        options.rerun = self.rerun();
        Ok(options)
    }

    /// This command line without what says which behaviours are run.
    fn rerun(&self) -> String {
        let mut words = vec!["bigfleet-conformance".to_owned(), "run".to_owned()];
        let mut add = |flag: &str, value: Option<String>| {
            if let Some(value) = value {
                words.extend([flag.to_owned(), value]);
            }
        };
        add("--provider", self.provider.clone());
        add("--target", self.target.clone());
        add(
            "--mapping",
            self.mapping.as_ref().map(|path| path.display().to_string()),
        );
        add("--fault-provider", self.fault_provider.clone());
        let factor = self.timeout_factor.map(|factor| factor.to_string());
        add("--timeout-factor", factor);
        add("--scale-seed", self.scale_seed.map(|count| count.to_string()));
        add("--soak", self.soak.map(|soak| format!("{}ms", soak.as_millis())));
        shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
    }
}

fn environment<T>(name: &str, read: impl Fn(&str) -> Option<T>) -> anyhow::Result<Option<T>> {
    match std::env::var(name) {
        Err(_) => Ok(None),
        Ok(text) => match read(&text) {
            Some(value) => Ok(Some(value)),
            None => anyhow::bail!("variable {name} is `{text}`, which cannot be read"),
        },
    }
}

/// `10s`, `500ms`, `5m`, `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    units
        .iter()
        .find_map(|(unit, factor)| {
            let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
            Duration::try_from_secs_f64(number * factor).ok()
        })
        .ok_or_else(|| format!("`{text}` is no time; write 500ms, 10s, 5m or 2h"))
}

/// The runner of old took `-provider` for `--provider`, and had no subcommands.
pub(crate) fn with_old_spellings(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    const OLD: [&str; 7] = [
        "provider",
        "target",
        "profile",
        "seed-count",
        "port",
        "out",
        "skip-baseline",
    ];
    let mut words: Vec<OsString> = arguments.into_iter().collect();
    for word in words.iter_mut().skip(1) {
        let Some(text) = word.to_str() else { continue };
        let name = text.strip_prefix('-').and_then(|flag| flag.split('=').next());
        if name.is_some_and(|name| OLD.contains(&name)) {
            *word = format!("-{text}").into();
        }
    }
    let first = words.get(1).and_then(|word| word.to_str());
    let flag_first = first.is_some_and(|word| word.starts_with("--") && !["--help", "--version"].contains(&word));
    if flag_first {
        words.insert(1, "run".into());
    }
    words
}

pub(crate) fn complain(error: &anyhow::Error) {
    // There is nowhere left to say that saying it failed.
    writeln!(std::io::stderr(), "error: {error:#}").ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Run {
        let words = with_old_spellings(line.split_whitespace().map(OsString::from));
        match Arguments::try_parse_from(words).unwrap().action {
            Action::Run(run) => *run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_flags_of_the_old_runner_are_accepted() {
        let run = parse("x -provider ./p -profile core,cloud -seed-count=99 -port 9099 -out /tmp/o -skip-baseline");
        assert_eq!(run.provider.as_deref(), Some("./p"));
        assert_eq!((run.seed_count, run.port, run.skip_baseline), (99, Some(9099), true));
        let options = run.options().unwrap();
        assert_eq!(options.profiles.len(), 2);
        let run = parse("x run -target=127.0.0.1:9000");
        assert_eq!(run.target.as_deref(), Some("127.0.0.1:9000"));
    }

    #[test]
    fn a_provider_or_a_target_but_not_both() {
        for line in ["x run", "x run --provider a --target b"] {
            assert!(Arguments::try_parse_from(line.split_whitespace()).is_err(), "{line}");
        }
    }

    #[test]
    fn the_rerun_line_keeps_what_matters() {
        let run = parse("x --provider p --timeout-factor 2 --profile durable --seed 9");
        assert_eq!(run.rerun(), "bigfleet-conformance run --provider p --timeout-factor 2");
    }

    #[test]
    fn durations_are_read() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert!(duration("2").is_err() && duration("-1s").is_err());
    }
}
