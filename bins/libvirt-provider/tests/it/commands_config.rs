//! `config`, `check` and `version`: commands that touch nothing but files.

use std::{fs, path::Path};

use serde_json::Value;

use crate::harness::Run;

#[test]
fn the_reference_of_the_configuration_is_what_the_program_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let told = Run::of(&["config", "reference"]).ok();
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &told).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == told,
        "docs/configuration.md is behind; run this test with UPDATE=1"
    );
}

#[test]
fn the_example_is_a_configuration_that_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("example.toml");
    fs::write(&path, Run::of(&["config", "example"]).ok()).unwrap();
    let with = Run::of(&["config", "print", "--use-fake-backend"])
        .flag("--config", &path)
        .ok();
    assert_eq!(with, Run::of(&["config", "print", "--use-fake-backend"]).ok());
}

#[test]
fn what_is_printed_can_be_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts.toml");
    fs::write(
        &hosts,
        "[[hosts]]\nuri = 'qemu+ssh://u:hush@a/system'\n[capacity.instance_types.'big.one']\nvcpu = 4\nmemory_mib = 9\n",
    )
    .unwrap();
    let print = |config: &Path| {
        let run = Run::of(&["config", "print", "--image=i", "--price-per-vcpu-hour=1e-3"]);
        run.flag("--config", config).ok()
    };
    let first = print(&hosts);
    for line in [
        "machine.image = \"i\"\n",
        "capacity.instance_types.\"big.one\".memory_mib = 9\n",
        "capacity.price_per_vcpu_hour = 0.001\n",
    ] {
        assert!(first.contains(line), "{line}: {first}");
    }
    assert!(!first.contains("hush") && first.contains("u:<redacted>@a"), "{first}");
    let again = dir.path().join("again.toml");
    fs::write(&again, &first).unwrap();
    assert_eq!(print(&again), first);
}

#[test]
fn every_value_is_shown_with_its_origin() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("p.json");
    fs::write(&file, r#"{"listen": {"addr": ":7"}, "provider": "file"}"#).unwrap();
    let run = || {
        Run::of(&["config", "print", "--sources", "--use-fake-backend"])
            .flag("--config", &file)
            .env("LIBVIRT_PROVIDER__PROVIDER", "variable")
    };
    let text = run().ok();
    for (line, origin) in [
        ("listen.addr = \":7\" ", file.to_str().unwrap()),
        (
            "provider = \"variable\" ",
            "environment variable LIBVIRT_PROVIDER__PROVIDER",
        ),
        ("fake.enabled = true ", "flag --use-fake-backend"),
        ("admin.addr = \":9090\" ", "default"),
    ] {
        let found = text
            .lines()
            .find(|found| found.starts_with(line))
            .unwrap_or_else(|| panic!("{line}: {text}"));
        assert!(found.ends_with(&format!("# {origin}")), "{found}");
    }
    let json: Value = serde_json::from_str(&run().arg("--json").ok()).unwrap();
    assert_eq!(
        json["listen"]["addr"],
        serde_json::json!({"value": ":7", "source": "file", "name": file})
    );
    assert_eq!(json["admin"]["addr"]["source"], "default");
}

/// As the chart needs it: a typing error in values must not pass.
#[test]
fn the_schema_is_closed_and_has_the_defaults_of_this_program() {
    let schema: Value = serde_json::from_str(&Run::of(&["config", "schema"]).ok()).unwrap();
    let mut tables = 0;
    let mut open = vec![("".to_owned(), &schema)];
    while let Some((at, place)) = open.pop() {
        assert!(place.get("$ref").is_none(), "{at}");
        let Some(properties) = place["properties"].as_object() else {
            continue;
        };
        tables += 1;
        assert_eq!(place["additionalProperties"], false, "{at}");
        for (key, property) in properties {
            let at = format!("{at}.{key}");
            assert!(!property["description"].as_str().unwrap_or_default().is_empty(), "{at}");
            let is_table = property.get("properties").is_some();
            assert!(
                is_table || property.get("default").is_some() || at.contains("instance_types"),
                "{at}: {property}"
            );
            open.extend(
                [property, &property["items"], &property["additionalProperties"]].map(|place| (at.clone(), place)),
            );
        }
    }
    assert!(tables > 10, "{tables}");
    let properties = &schema["properties"];
    assert_eq!(properties["provider"]["default"], "libvirt");
    assert_eq!(properties["shutdown"]["properties"]["grace"]["default"], "10s");
}

#[test]
fn a_check_says_what_would_be_served() {
    let run = Run::of(&[
        "check",
        "--connect=rack1=qemu:///system",
        "--image=golden",
        "--seed-count=3",
    ]);
    let text = run.ok();
    for line in [
        "zone      rack1: rack1\n",
        "slots     2 of kvm.small in zone rack1\n",
        "image     golden in pool default\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let fake = Run::of(&["--check-config", "--use-fake-backend", "--seed-count=7"]).ok();
    assert!(fake.contains("7 slots on fake hosts"), "{fake}");
}

#[test]
fn a_check_tells_every_mistake_and_where_it_was_made() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("p.toml");
    fs::write(&file, "[listen]\nadr = ':1'\n[transitions]\non_restart = 'never'\n").unwrap();
    let end = Run::of(&["check", "--connect=qemu+tcp://h/system", "--seed-count=-1"])
        .flag("--config", &file)
        .end();
    assert_eq!((end.code, end.out.as_str()), (64, ""));
    let file = file.display();
    for line in [
        format!("{file}: `listen.adr` is not a known key; did you mean `listen.addr`?"),
        format!("{file}: `transitions.on_restart` must be one of `resume`, `fail`, but is the text `never`"),
        "flag --seed-count: `capacity.seed_count` must be a whole number".to_owned(),
        "flag --connect: `connect` of zone `local` cannot be used: plaintext".to_owned(),
        "`machine.image` must name".to_owned(),
    ] {
        assert!(end.err.contains(&line), "{line}: {}", end.err);
    }
    let printed = Run::of(&["config", "print", "--seed-count=-1"]).end();
    assert_eq!(printed.code, 64);
    assert!(printed.out.contains("capacity.seed_count = 32"), "{}", printed.out);
}

#[test]
fn the_version_is_told_to_people_and_programs() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        Run::of(&["version"])
            .ok()
            .starts_with(&format!("libvirt-provider {version}\nrevision"))
    );
    let json: Value = serde_json::from_str(&Run::of(&["version", "--json"]).ok()).unwrap();
    assert_eq!(json["version"], version);
    assert!(json["target"].as_str().unwrap().contains("linux"), "{json}");
    assert!(json["rustc"].as_str().unwrap().starts_with("1."), "{json}");
}

/// As in `libvirt-provider config schema | head -1`.
#[test]
fn a_reader_that_has_read_enough_is_no_error() {
    for command in [
        &["config", "schema"][..],
        &["config", "reference"],
        &["config", "example"],
        &["version"],
    ] {
        let end = Run::of(command).into_closed_pipe();
        assert_eq!((end.code, end.err.as_str()), (0, ""), "{command:?}");
    }
}
