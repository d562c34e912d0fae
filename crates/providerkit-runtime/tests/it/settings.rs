//! From what people write to what the process works with.

use std::{path::PathBuf, time::Duration};

use providerkit_runtime::{
    config::{Error, Loader},
    settings::{Config, Settings},
};

fn parse(flags: &[(&str, &str)]) -> Result<Settings, Error> {
    flags
        .iter()
        .fold(Loader::<Config>::new(), |loader, (key, text)| {
            loader.flag(&format!("--{key}"), key, text)
        })
        .load()
        .finish(Settings::parse)
}

fn problems(flags: &[(&str, &str)]) -> Vec<String> {
    parse(flags)
        .unwrap_err()
        .findings()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn the_defaults_are_those_of_the_reference() {
    let settings = parse(&[]).unwrap();
    assert_eq!(settings.listen.address.to_string(), ":9000");
    assert!(settings.listen.reflection && settings.listen.tls.is_none() && settings.state.is_none());
    let admin = settings.admin.unwrap();
    assert_eq!((admin.address.to_string().as_str(), admin.required), (":9090", false));
    assert_eq!(settings.transitions.create, Duration::from_secs(300));
    assert_eq!(settings.transitions.drain, Duration::from_secs(600));
    assert_eq!(settings.transitions.failed_hold, Duration::from_secs(600));
}

#[test]
fn the_defaults_survive_their_own_schema() {
    let defaults = serde_json::to_string(&Config::default()).unwrap();
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    std::fs::write(file.path(), defaults).unwrap();
    let loaded = Loader::<Config>::new().file(file.path()).load();
    assert_eq!(loaded.finish(|config, _| config).unwrap(), Config::default());
}

#[test]
fn half_of_a_tls_configuration_is_refused() {
    assert_eq!(
        problems(&[("listen.tls.cert", "c.pem")]),
        ["flag --listen.tls.cert: `listen.tls.cert` is given without its key; add `listen.tls.key`"]
    );
    assert_eq!(
        problems(&[("listen.tls.key", "k.pem"), ("listen.tls.ca", "ca.pem")]),
        ["flag --listen.tls.key: `listen.tls.key` is given without its certificate; add `listen.tls.cert`"]
    );
    let alone = problems(&[("listen.tls.ca", "ca.pem"), ("listen.tls.cert", "")]);
    assert!(
        alone[0].contains("add `listen.tls.cert` and `listen.tls.key`"),
        "{alone:?}"
    );
    let whole = parse(&[("listen.tls.cert", "c"), ("listen.tls.key", "k")]).unwrap();
    assert_eq!(whole.listen.tls.unwrap().key, PathBuf::from("k"));
}

#[test]
fn a_named_admin_address_is_required_and_an_empty_one_is_none() {
    assert!(parse(&[("admin.addr", ":9090")]).unwrap().admin.unwrap().required);
    assert!(parse(&[("admin.addr", "")]).unwrap().admin.is_none());
}

#[test]
fn mistakes_of_every_section_are_told_together() {
    let problems = problems(&[
        ("listen.addr", "nine"),
        ("admin.addr", ":x"),
        ("provider", ""),
        ("log.level", "loud"),
        ("transitions.timeouts.create", "0s"),
        ("transitions.on_restart", "retry"),
        ("transitions.ghost_marks", "0"),
    ]);
    let keys: Vec<_> = problems
        .iter()
        .map(|problem| problem.split('`').nth(1).unwrap())
        .collect();
    assert_eq!(
        keys,
        [
            "transitions.ghost_marks",
            "transitions.on_restart",
            "provider",
            "listen.addr",
            "admin.addr",
            "transitions.timeouts.create",
            "log.level",
        ],
        "{problems:#?}"
    );
}

#[test]
fn one_port_cannot_serve_both() {
    let problems = problems(&[("listen.addr", ":9090")]);
    assert_eq!(problems, ["`admin.addr` is the address of the gRPC port too, `:9090`"]);
}
