//! The command line.
//!
//! Flags carry no meaning of their own: each names a key of the configuration, where its value is judged together
//! with everything else. Those of the Go reference are kept, one dash or two.

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, error::ErrorKind};
use providerkit_runtime::config::{Loaded, Loader};

use crate::config::Config;

/// BigFleet capacity provider for libvirt/QEMU/KVM hosts.
///
/// Every flag sets a key of the configuration; files and variables such as LIBVIRT_PROVIDER__LISTEN__ADDR set the
/// same keys. Flags win over variables, variables over files, later files over earlier ones.
#[derive(Debug, Parser)]
#[command(name = "libvirt-provider", disable_help_subcommand = true, args_override_self = true)]
struct Arguments {
    /// What to do [default: serve]
    #[arg(value_parser = ["serve"], hide_possible_values = true, default_value = "serve", hide_default_value = true)]
    command: String,
    /// Read this TOML or JSON file; may be given several times
    #[arg(long, value_name = "FILE", action = clap::ArgAction::Append)]
    config: Vec<String>,
    /// Set any key, such as fake.delay=2s; may be given several times
    #[arg(long, value_name = "KEY=VALUE", action = clap::ArgAction::Append)]
    set: Vec<String>,
    /// Where to serve gRPC [default: :9000]
    #[arg(long, value_name = "HOST:PORT")]
    addr: Option<String>,
    /// Name of this provider [default: libvirt]
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// File of the durable state; without it everything is forgotten at the end
    #[arg(long, value_name = "FILE")]
    state: Option<String>,
    /// Serve machines of fake hosts
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    use_fake_backend: Option<String>,
    /// How many slots there are where nothing else says so [default: 32]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    seed_count: Option<String>,
    /// PEM file of the server's certificate chain
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// PEM file of the certificate's key
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// PEM file of the authorities of client certificates; makes them mandatory
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<String>,
    /// Where to serve probes and metrics; empty for nowhere [default: :9090]
    #[arg(long, value_name = "HOST:PORT")]
    metrics_addr: Option<String>,
    /// Serve gRPC reflection [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    reflection: Option<String>,
    /// Time limit of every transition
    #[arg(long, value_name = "DURATION")]
    transition_timeout: Option<String>,
    /// Time limit of Create [default: 5m]
    #[arg(long, value_name = "DURATION")]
    create_timeout: Option<String>,
    /// Time limit of Configure [default: 5m]
    #[arg(long, value_name = "DURATION")]
    configure_timeout: Option<String>,
    /// Time limit of Drain [default: 10m]
    #[arg(long, value_name = "DURATION")]
    drain_timeout: Option<String>,
    /// Time limit of Delete [default: 5m]
    #[arg(long, value_name = "DURATION")]
    delete_timeout: Option<String>,
    /// What becomes of transitions that a restart finds under way: resume or fail [default: resume]
    #[arg(long, value_name = "WHAT")]
    on_restart: Option<String>,
    /// What becomes of FAILED slots: cleanup or keep [default: cleanup]
    #[arg(long, value_name = "WHAT")]
    failed_slots: Option<String>,
    /// error, warn, info, debug or trace; for a part of the program part=level [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// auto, text or json [default: auto]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// What machines are made on: libvirt, fake or auto [default: auto]
    #[arg(long, value_name = "WHAT")]
    libvirt_backend: Option<String>,
    /// A libvirt URI for the default zone, or zone=uri,…
    #[arg(long, value_name = "URI")]
    connect: Option<String>,
    /// Zone of hosts that name none [default: local]
    #[arg(long, value_name = "ZONE")]
    default_zone: Option<String>,
    /// Golden image: a volume of the storage pool
    #[arg(long, value_name = "VOLUME")]
    image: Option<String>,
    /// Storage pool of image, disks and seeds [default: default]
    #[arg(long, value_name = "POOL")]
    storage_pool: Option<String>,
    /// Network of the machines: a libvirt network, or bridge:NAME [default: default]
    #[arg(long, value_name = "NETWORK")]
    network: Option<String>,
    /// File of user-data for cloud-init that every machine gets
    #[arg(long, value_name = "FILE")]
    base_user_data: Option<String>,
    /// JSON file of what is for sale
    #[arg(long, value_name = "FILE")]
    offerings: Option<String>,
    /// JSON file of sizes by name
    #[arg(long, value_name = "FILE")]
    instance_types: Option<String>,
    /// Prices an hour, as type=price,…
    #[arg(long, value_name = "PRICES")]
    prices: Option<String>,
    /// Price of a virtual CPU an hour [default: 0.003]
    #[arg(long, value_name = "PRICE")]
    price_per_vcpu_hour: Option<String>,
    /// Price of a GiB of memory an hour [default: 0.0008]
    #[arg(long, value_name = "PRICE")]
    price_per_gib_hour: Option<String>,
    /// How machines are paid for: on-demand, reserved or bare-metal [default: on-demand]
    #[arg(long, value_name = "TYPE")]
    capacity_type: Option<String>,
    /// How often hosts and machines are compared; 0 for never [default: 2m]
    #[arg(long, value_name = "DURATION")]
    reconcile_interval: Option<String>,
}

/// A command line that was understood.
#[derive(Debug)]
pub(crate) struct Invocation {
    files: Vec<String>,
    /// Flag, key, value.
    values: Vec<(String, String, String)>,
}

/// Reads a command line.
///
/// # Errors
/// What clap prints: a mistake, or the help or version that was asked for.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    version: &'static str,
) -> Result<Invocation, clap::Error> {
    let mut command = Arguments::command().version(version);
    let matches = command.try_get_matches_from_mut(with_two_dashes(arguments, &command.clone()))?;
    let arguments = Arguments::from_arg_matches(&matches)?;
    arguments
        .invocation()
        .map_err(|problem| command.error(ErrorKind::ValueValidation, problem))
}

/// Go takes `-addr` for `--addr`. We have no short flags of more than a letter, so that nothing is lost by it.
fn with_two_dashes(arguments: impl IntoIterator<Item = OsString>, command: &clap::Command) -> Vec<OsString> {
    let is_long = |name: &str| {
        command
            .get_arguments()
            .any(|argument| argument.get_long() == Some(name))
    };
    let double = |argument: OsString| match argument.to_str() {
        Some(text) if !text.starts_with("--") => {
            let name = text.strip_prefix('-').and_then(|flag| flag.split('=').next());
            let known = name.is_some_and(|name| is_long(name) || ["help", "version"].contains(&name));
            if known { format!("-{text}").into() } else { argument }
        }
        _ => argument,
    };
    arguments.into_iter().map(double).collect()
}

impl Arguments {
    fn invocation(self) -> Result<Invocation, String> {
        let mut values = Vec::new();
        let mut set = |flag: &str, keys: &[&str], value: Option<String>| {
            if let Some(value) = value {
                values.extend(
                    keys.iter()
                        .map(|key| (flag.to_owned(), (*key).to_owned(), value.clone())),
                );
            }
        };
        // `--set` first: a flag of its own is the more particular.
        for pair in self.set {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(format!("--set takes KEY=VALUE, not `{pair}`"));
            };
            set(&format!("--set {key}"), &[key], Some(value.to_owned()));
        }
        let truth = |value: Option<String>| value.map(|text| go_bool(&text).map_or(text, str::to_owned));
        set("--addr", &["listen.addr"], self.addr);
        set("--provider", &["provider"], self.provider);
        set("--state", &["state"], self.state);
        set("--use-fake-backend", &["fake.enabled"], truth(self.use_fake_backend));
        set("--seed-count", &["capacity.seed_count"], self.seed_count);
        set("--libvirt-backend", &["backend"], self.libvirt_backend);
        set("--connect", &["connect"], self.connect);
        set("--default-zone", &["default_zone"], self.default_zone);
        set("--image", &["machine.image"], self.image);
        set("--storage-pool", &["machine.pool"], self.storage_pool);
        set("--network", &["machine.networks"], self.network);
        set("--base-user-data", &["machine.user_data"], self.base_user_data);
        set("--offerings", &["capacity.offerings_file"], self.offerings);
        set(
            "--instance-types",
            &["capacity.instance_types_file"],
            self.instance_types,
        );
        set("--prices", &["capacity.prices"], self.prices);
        set(
            "--price-per-vcpu-hour",
            &["capacity.price_per_vcpu_hour"],
            self.price_per_vcpu_hour,
        );
        set(
            "--price-per-gib-hour",
            &["capacity.price_per_gib_hour"],
            self.price_per_gib_hour,
        );
        set("--capacity-type", &["capacity.capacity_type"], self.capacity_type);
        set(
            "--reconcile-interval",
            &["transitions.reconcile_interval"],
            self.reconcile_interval,
        );
        set("--tls-cert", &["listen.tls.cert"], self.tls_cert);
        set("--tls-key", &["listen.tls.key"], self.tls_key);
        set("--tls-ca", &["listen.tls.ca"], self.tls_ca);
        set("--metrics-addr", &["admin.addr"], self.metrics_addr);
        set("--reflection", &["listen.reflection"], truth(self.reflection));
        set("--transition-timeout", &TIMEOUTS, self.transition_timeout);
        let [create, configure, drain, delete] = TIMEOUTS;
        set("--create-timeout", &[create], self.create_timeout);
        set("--configure-timeout", &[configure], self.configure_timeout);
        set("--drain-timeout", &[drain], self.drain_timeout);
        set("--delete-timeout", &[delete], self.delete_timeout);
        set("--on-restart", &["transitions.on_restart"], self.on_restart);
        set("--failed-slots", &["transitions.failed_slots"], self.failed_slots);
        set("--log-level", &["log.level"], self.log_level);
        set("--log-format", &["log.format"], self.log_format);
        Ok(Invocation {
            files: self.config,
            values,
        })
    }
}

const TIMEOUTS: [&str; 4] = [
    "transitions.timeouts.create",
    "transitions.timeouts.configure",
    "transitions.timeouts.drain",
    "transitions.timeouts.delete",
];

/// The spellings of Go's flag package.
fn go_bool(text: &str) -> Option<&'static str> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some("true"),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some("false"),
        _ => None,
    }
}

impl Invocation {
    /// Lays files, environment and flags over the defaults.
    pub(crate) fn load(
        &self,
        prefix: &str,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Loaded<Config> {
        let loader = self.files.iter().fold(Loader::new(), Loader::file);
        let loader = loader.environment(prefix, environment);
        let set = |loader: Loader<Config>, (flag, key, value): &(String, String, String)| loader.flag(flag, key, value);
        self.values.iter().fold(loader, set).load()
    }
}

#[cfg(test)]
mod tests;
