//! Flags that set the configuration: those of the Go reference, one dash or two, and ours.
//!
//! They carry no meaning of their own: each names keys of the configuration, where its value is judged together with
//! everything else.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use providerkit_runtime::config::{Loaded, Loader};

use crate::config::Config;

/// Before the name of every environment variable, and two underscores.
pub(crate) const ENVIRONMENT_PREFIX: &str = "LIBVIRT_PROVIDER";

/// What these flags stand under in every help.
pub(crate) const CONFIGURATION: &str = "Configuration";

/// One flag.
#[derive(Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    /// What its value is called; none for a switch.
    value: Option<&'static str>,
    pub(crate) keys: &'static [&'static str],
    help: &'static str,
}

const TIMEOUTS: [&str; 4] = [
    "transitions.timeouts.create",
    "transitions.timeouts.configure",
    "transitions.timeouts.drain",
    "transitions.timeouts.delete",
];

/// All of them. A later one wins over an earlier one that sets the same key.
#[rustfmt::skip]
pub(crate) const FLAGS: &[Flag] = &[
    Flag::new("addr", "HOST:PORT", &["listen.addr"], "Where to serve gRPC [default: :9000]"),
    Flag::new("provider", "NAME", &["provider"], "Name of this provider [default: libvirt]"),
    Flag::new("state", "FILE", &["state"], "File of the durable state; without it everything is forgotten at the end"),
    Flag::switch("use-fake-backend", &["fake.enabled"], "Serve machines of fake hosts"),
    Flag::new("seed-count", "COUNT", &["capacity.seed_count"], "How many slots there are where nothing else says so [default: 32]"),
    Flag::new("libvirt-backend", "WHAT", &["backend"], "What machines are made on: libvirt, fake or auto [default: auto]"),
    Flag::new("connect", "URI", &["connect"], "A libvirt URI for the default zone, or zone=uri,…"),
    Flag::new("default-zone", "ZONE", &["default_zone"], "Zone of hosts that name none [default: local]"),
    Flag::new("image", "VOLUME", &["machine.image"], "Golden image: a volume of the storage pool"),
    Flag::new("storage-pool", "POOL", &["machine.pool"], "Storage pool of image, disks and seeds [default: default]"),
    Flag::new("network", "NETWORK", &["machine.networks"], "Network of the machines: a libvirt network, or bridge:NAME [default: default]"),
    Flag::new("base-user-data", "FILE", &["machine.user_data"], "File of user-data that every machine gets"),
    Flag::new("offerings", "FILE", &["capacity.offerings_file"], "JSON file of what is for sale"),
    Flag::new("instance-types", "FILE", &["capacity.instance_types_file"], "JSON file of sizes by name"),
    Flag::new("prices", "PRICES", &["capacity.prices"], "Prices an hour, as type=price,…"),
    Flag::new("price-per-vcpu-hour", "PRICE", &["capacity.price_per_vcpu_hour"], "Price of a virtual CPU an hour [default: 0.003]"),
    Flag::new("price-per-gib-hour", "PRICE", &["capacity.price_per_gib_hour"], "Price of a GiB of memory an hour [default: 0.0008]"),
    Flag::new("capacity-type", "TYPE", &["capacity.capacity_type"], "How machines are paid for: on-demand, reserved or bare-metal [default: on-demand]"),
    Flag::new("reconcile-interval", "DURATION", &["transitions.reconcile_interval"], "How often hosts and machines are compared; 0 for never [default: 2m]"),
    Flag::new("tls-cert", "FILE", &["listen.tls.cert"], "PEM file of the server's certificate chain"),
    Flag::new("tls-key", "FILE", &["listen.tls.key"], "PEM file of the certificate's key"),
    Flag::new("tls-ca", "FILE", &["listen.tls.ca"], "PEM file of the authorities of client certificates; makes them mandatory"),
    Flag::new("metrics-addr", "HOST:PORT", &["admin.addr"], "Where to serve probes and metrics; empty for nowhere [default: :9090]"),
    Flag::switch("reflection", &["listen.reflection"], "Serve gRPC reflection [default: true]"),
    Flag::new("transition-timeout", "DURATION", &TIMEOUTS, "Time limit of every transition"),
    Flag::new("create-timeout", "DURATION", &["transitions.timeouts.create"], "Time limit of Create [default: 5m]"),
    Flag::new("configure-timeout", "DURATION", &["transitions.timeouts.configure"], "Time limit of Configure [default: 5m]"),
    Flag::new("drain-timeout", "DURATION", &["transitions.timeouts.drain"], "Time limit of Drain [default: 10m]"),
    Flag::new("delete-timeout", "DURATION", &["transitions.timeouts.delete"], "Time limit of Delete [default: 5m]"),
    Flag::new("on-restart", "WHAT", &["transitions.on_restart"], "What becomes of transitions that a restart finds under way: resume or fail [default: resume]"),
    Flag::new("failed-slots", "WHAT", &["transitions.failed_slots"], "What becomes of FAILED slots: cleanup or keep [default: cleanup]"),
    Flag::new("log-level", "LEVEL", &["log.level"], "error, warn, info, debug or trace; for a part of the program part=level [default: info]"),
    Flag::new("log-format", "FORMAT", &["log.format"], "auto, text or json [default: auto]"),];

impl Flag {
    const fn new(name: &'static str, value: &'static str, keys: &'static [&'static str], help: &'static str) -> Self {
        let value = Some(value);
        Self {
            name,
            value,
            keys,
            help,
        }
    }

    const fn switch(name: &'static str, keys: &'static [&'static str], help: &'static str) -> Self {
        let value = None;
        Self {
            name,
            value,
            keys,
            help,
        }
    }

    fn argument(&self) -> Arg {
        let argument = Arg::new(self.name).long(self.name).help(self.help);
        match self.value {
            Some(value) => argument.value_name(value).allow_negative_numbers(value == "COUNT"),
            None => argument
                .value_name("BOOL")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
        }
    }
}

/// What a command line says about the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    files: Vec<String>,
    /// Flag, key, value.
    values: Vec<(String, String, String)>,
}

impl Flags {
    /// Lays files, environment and flags over the defaults.
    pub(crate) fn load(&self, environment: impl IntoIterator<Item = (OsString, OsString)>) -> Loaded<Config> {
        let loader = self.files.iter().fold(Loader::new(), Loader::file);
        let loader = loader.environment(ENVIRONMENT_PREFIX, environment);
        let set = |loader: Loader<Config>, (flag, key, value): &(String, String, String)| loader.flag(flag, key, value);
        self.values.iter().fold(loader, set).load()
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let several = |name, value, help| {
            let argument = Arg::new(name).long(name).value_name(value).help(help);
            argument.action(ArgAction::Append)
        };
        command
            .next_help_heading(CONFIGURATION)
            .arg(several(
                "config",
                "FILE",
                "Read this TOML or JSON file; may be given several times",
            ))
            .arg(several(
                "set",
                "KEY=VALUE",
                "Set any key, such as fake.delay=2s; may be given several times",
            ))
            .args(FLAGS.iter().map(Flag::argument))
            .next_help_heading(None)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let several = |name| matches.get_many::<String>(name).into_iter().flatten();
        let mut values = Vec::new();
        // `--set` first: a flag of its own is the more particular.
        for pair in several("set") {
            let Some((key, value)) = pair.split_once('=') else {
                let problem = format!("--set takes KEY=VALUE, not `{pair}`\n");
                return Err(clap::Error::raw(clap::error::ErrorKind::ValueValidation, problem));
            };
            values.push((format!("--set {key}"), key.to_owned(), value.to_owned()));
        }
        for flag in FLAGS {
            let Some(value) = matches.get_one::<String>(flag.name) else {
                continue;
            };
            let value = match flag.value {
                None => go_bool(value).unwrap_or(value),
                Some(_) => value,
            };
            let set = |key: &&str| (format!("--{}", flag.name), (*key).to_owned(), value.to_owned());
            values.extend(flag.keys.iter().map(set));
        }
        Ok(Self {
            files: several("config").cloned().collect(),
            values,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The spellings of Go's flag package.
fn go_bool(text: &str) -> Option<&'static str> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some("true"),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some("false"),
        _ => None,
    }
}
