//! Layers, types and mistakes of a configuration. The traps are those measured with figment alone
//! (operators.md §3.1).

use std::{collections::BTreeMap, fs, path::PathBuf};

use providerkit_runtime::config::{Error, Holds, Loader, Origin, Period};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

#[derive(Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
struct Config {
    listen: Listen,
    zone_id: String,
    tags: Vec<String>,
    ports: Vec<u16>,
    host: BTreeMap<String, Host>,
    hold: Period,
    ratio: f64,
    shape: Shape,
    secret: Option<String>,
    #[serde(flatten)]
    shared: Shared,
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
struct Listen {
    addr: String,
    port: u16,
    reflection: bool,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            addr: ":9000".into(),
            port: 9000,
            reflection: true,
        }
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
struct Host {
    uri: String,
    #[serde(default)]
    weight: i32,
}

#[derive(Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
struct Shared {
    state: Option<PathBuf>,
}

/// A choice.
#[derive(Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    /// All around.
    #[default]
    Round,
    /// With corners.
    Square,
}

struct Sources {
    dir: TempDir,
    loader: Loader<Config>,
}

impl Sources {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            loader: Loader::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(mut self, name: &str, text: &str) -> Self {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        self.loader = self.loader.file(path);
        self
    }

    fn env(mut self, variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        self.loader = self.loader.environment("LP", variables);
        self
    }

    fn flag(mut self, flag: &str, key: &str, text: &str) -> Self {
        self.loader = self.loader.flag(flag, key, text);
        self
    }

    fn config(self) -> Config {
        self.result().unwrap()
    }

    fn result(self) -> Result<Config, Error> {
        self.loader.load().finish(|config, _| config)
    }

    /// The mistakes, with the temporary directory taken out of them.
    fn problems(self) -> Vec<String> {
        let dir = format!("{}/", self.dir.path().display());
        let error = self.result().unwrap_err();
        error
            .findings()
            .iter()
            .map(|finding| finding.to_string().replace(&dir, ""))
            .collect()
    }
}

#[test]
fn later_layers_win_key_by_key() {
    let sources = Sources::new()
        .file("a.toml", "zone_id = 'a'\n[listen]\nport = 1\naddr = 'a'")
        .file("b.json", r#"{"listen": {"port": 2}, "tags": ["b"], "hold": "5m"}"#)
        .env(&[("LP__LISTEN__PORT", "3"), ("LP__TAGS", "env")])
        .flag("--port", "listen.port", "4");
    let config = sources.config();
    assert_eq!(
        config.listen,
        Listen {
            addr: "a".into(),
            port: 4,
            reflection: true
        }
    );
    assert_eq!(config.tags, ["env"]);
    assert_eq!((config.zone_id.as_str(), config.hold), ("a", Period::seconds(300)));
}

#[test]
fn every_value_knows_where_it_came_from() {
    let sources = Sources::new()
        .file("a.toml", "zone_id = 'a'\n[host.Rack1]\nuri = 'x'")
        .env(&[("LP__LISTEN__PORT", "3")])
        .flag("--tags", "tags", "x");
    let (file, loaded) = (sources.path("a.toml"), sources.loader.load());
    assert_eq!(loaded.origin("zone_id"), Origin::File(file.clone()));
    assert_eq!(loaded.origin("host.Rack1.uri"), Origin::File(file));
    assert_eq!(
        loaded.origin("listen.port"),
        Origin::Environment("LP__LISTEN__PORT".into())
    );
    assert_eq!(loaded.origin("tags"), Origin::Flag("--tags".into()));
    assert_eq!(loaded.origin("listen.addr"), Origin::Default);
}

#[test]
fn a_wrong_type_names_file_and_key_without_a_profile() {
    let problems = Sources::new().file("a.toml", "[listen]\nport = 'abc'").problems();
    assert_eq!(
        problems,
        ["a.toml: `listen.port` must be a whole number from 0 to 65535, but is the text `abc`"]
    );
}

#[test]
fn an_unknown_key_comes_with_the_one_that_was_meant() {
    let problems = Sources::new()
        .file("a.toml", "zone_di = 'x'\n[listen]\nprot = 1\nxyzzy = 2")
        .env(&[("LP__LISTEN__REFLECTOIN", "true")])
        .problems();
    assert_eq!(
        problems,
        [
            "a.toml: `listen.prot` is not a known key; did you mean `listen.port`?",
            "environment variable LP__LISTEN__REFLECTOIN: `listen.reflectoin` is not a known key; did you mean \
             `listen.reflection`?",
            "a.toml: `listen.xyzzy` is not a known key; known here: addr, port, reflection",
            "a.toml: `zone_di` is not a known key; did you mean `zone_id`?",
        ]
    );
}

#[test]
fn all_mistakes_of_all_layers_are_reported_at_once() {
    let missing = Sources::new();
    let path = missing.path("none.toml");
    let mut sources = missing
        .file("broken.toml", "zone_id = [")
        .file("a.yaml", "zone_id: x")
        .file("b.json", r#"{"ratio": "much", "host": {"r": {"wieght": 1}}}"#)
        .env(&[
            ("LP__HOLD", "soon"),
            ("LP__PORTS", "1,70000"),
            ("LP__ZONE_ID_FILE", "/none"),
        ])
        .flag("--shape", "shape", "sqare");
    sources.loader = sources.loader.file(path);
    let problems = sources.problems();
    let expected = [
        "broken.toml: is not valid: ",
        "a.yaml: is neither TOML nor JSON by its name",
        "environment variable LP__ZONE_ID_FILE: the file `/none` cannot be read: No such file",
        "none.toml: cannot be read: No such file",
        "environment variable LP__HOLD: `hold` must be a duration such as `30s` or `1h30m`, but is the text `soon`",
        "b.json: `host.r.uri` is missing",
        "b.json: `host.r.wieght` is not a known key; did you mean `host.r.weight`?",
        "environment variable LP__PORTS: `ports[1]` must be a whole number from 0 to 65535, but is the number 70000",
        "b.json: `ratio` must be a number, but is the text `much`",
        "flag --shape: `shape` must be one of `round`, `square`, but is the text `sqare`",
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for expected in expected {
        assert!(
            problems.iter().any(|problem| problem.starts_with(expected)),
            "{expected}: {problems:#?}"
        );
    }
}

#[test]
fn what_a_schema_cannot_find_is_reported_with_the_rest() {
    let sources = Sources::new()
        .file("a.toml", "tags = 3")
        .flag("--addr", "listen.addr", "nowhere");
    let error = sources.loader.load().finish(|config, findings| {
        assert_eq!(config.tags, [""; 0]);
        findings.refuse("listen.addr", "is no address");
    });
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("the configuration has 2 mistakes\n"), "{error}");
    assert!(
        error.contains("a.toml: `tags` must be a list, but is the number 3"),
        "{error}"
    );
    assert!(
        error.ends_with("\n  flag --addr: `listen.addr` is no address"),
        "{error}"
    );
}

#[test]
fn text_from_the_environment_takes_the_type_of_its_key() {
    let config = Sources::new()
        .env(&[
            ("LP__ZONE_ID", "007"),
            ("LP__TAGS", "1, two ,"),
            ("LP__PORTS", "[1, 2]"),
            ("LP__LISTEN__ADDR", "qemu+tls://h/system?a=b&c=d"),
            ("LP__LISTEN__REFLECTION", "false"),
            ("LP__RATIO", "2"),
            ("LP__SHAPE", "square"),
            ("LP__STATE", "/x"),
        ])
        .config();
    assert_eq!(config.zone_id, "007");
    assert_eq!(config.tags, ["1", "two"]);
    assert_eq!(config.ports, [1, 2]);
    assert_eq!(config.listen.addr, "qemu+tls://h/system?a=b&c=d");
    assert!(!config.listen.reflection);
    assert_eq!((config.ratio, config.shape), (2.0, Shape::Square));
    assert_eq!(config.shared.state, Some("/x".into()));
}

#[test]
fn keys_of_maps_keep_their_case_in_the_environment() {
    let config = Sources::new()
        .env(&[("LP__HOST__RackB__URI", "x"), ("LP__HOST__RackB__WEIGHT", "-3")])
        .config();
    assert_eq!(
        config.host["RackB"],
        Host {
            uri: "x".into(),
            weight: -3
        }
    );
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let config = Sources::new()
        .env(&[("LP__LISTEN__PORT", ""), ("LP__ZONE_ID", "")])
        .config();
    assert_eq!(config, Config::default());
}

#[test]
fn variables_that_kubernetes_makes_of_a_service_are_not_ours() {
    let config = Sources::new()
        .env(&[
            ("LP_PORT", "tcp://10.0.0.1:9000"),
            ("LP_SERVICE_HOST", "10.0.0.1"),
            ("LPX__A", "1"),
        ])
        .config();
    assert_eq!(config, Config::default());
}

#[test]
fn a_variable_may_name_a_file_that_holds_the_value() {
    let sources = Sources::new();
    let file = sources.path("secret");
    fs::write(&file, "hush\n").unwrap();
    let file = file.to_str().unwrap().to_owned();
    let both = [("LP__SECRET", "a"), ("LP__SECRET_FILE", file.as_str())];
    assert_eq!(
        Sources::new().env(&both).problems(),
        [
            "environment variable LP__SECRET_FILE: sets the same key as environment variable LP__SECRET; keep one of them"
        ]
    );
    assert_eq!(sources.env(&both[1..]).config().secret.as_deref(), Some("hush"));
}

#[test]
fn null_counts_as_unset() {
    let config = Sources::new()
        .file("a.json", r#"{"listen": {"port": null}, "secret": null}"#)
        .config();
    assert_eq!(config, Config::default());
}

#[test]
fn numbers_are_not_bent_into_shape() {
    let problems = Sources::new()
        .file(
            "a.json",
            r#"{"listen": {"port": 9000.5}, "ports": [-1], "zone_id": 7, "hold": 5}"#,
        )
        .problems();
    assert_eq!(
        problems,
        [
            "a.json: `hold` must be a duration such as `30s` or `1h30m`, but is the number 5",
            "a.json: `listen.port` must be a whole number from 0 to 65535, but is the number 9000.5",
            "a.json: `ports[0]` must be a whole number from 0 to 65535, but is the number -1",
            "a.json: `zone_id` must be text, but is the number 7",
        ]
    );
}

/// For charts and editors, which have nothing but the document: a flattened table is one with its parent.
#[test]
fn the_schema_is_closed_where_names_are_fixed_and_has_the_defaults_of_the_whole() {
    let schema = providerkit_runtime::config::schema::<Config>();
    let properties = &schema["properties"];
    for table in [
        &schema,
        &properties["listen"],
        &properties["host"]["additionalProperties"],
    ] {
        assert_eq!(table["additionalProperties"], false, "{table:#}");
    }
    assert_eq!(properties["listen"]["properties"]["port"]["default"], 9000);
    assert!(properties["state"]["default"].is_null() && properties["state"]["type"].is_array());
    assert!(properties["listen"].get("default").is_none());
    assert!(!schema.to_string().contains("$ref"), "{schema:#}");
}

#[test]
fn every_key_is_described_with_what_it_holds() {
    let keys = providerkit_runtime::config::keys::<Config>();
    let key = |path: &str| {
        keys.iter()
            .find(|key| key.path == path)
            .unwrap_or_else(|| panic!("{path}: {keys:#?}"))
    };
    for (path, kind, variable) in [
        ("zone_id", "text", Some("LP__ZONE_ID")),
        ("tags", "list of text", Some("LP__TAGS")),
        ("ports", "list of whole number from 0 to 65535", Some("LP__PORTS")),
        ("hold", "duration", Some("LP__HOLD")),
        ("listen.reflection", "boolean", Some("LP__LISTEN__REFLECTION")),
        ("host.<name>.uri", "text", None),
    ] {
        assert_eq!(key(path).holds, Holds::Value(kind.into()), "{path}");
        assert_eq!(key(path).variable("LP").as_deref(), variable);
    }
    assert_eq!(
        (&key("listen").holds, &key("host").holds),
        (&Holds::Table, &Holds::Named)
    );
    let shapes = &key("shape").choices;
    assert_eq!(shapes[1], ("square".to_owned(), "With corners.".to_owned()));
    let place = |path: &str| keys.iter().position(|key| key.path == path);
    assert!(
        place("zone_id") < place("host") && place("host.<name>.weight") < place("listen"),
        "{keys:#?}"
    );
}

#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
struct Login {
    #[schemars(extend("writeOnly" = true))]
    password: String,
    uris: Vec<String>,
}

#[test]
fn what_holds_is_shown_with_its_origin_but_no_secret_is() {
    let loader = Loader::<Login>::new().flag("--password", "password", "hush");
    let loaded = loader.flag("--uris", "uris", "a://u:hush@h/x,b://h").load();
    let shown = loaded.effective();
    let [password, uris] = &shown[..] else {
        panic!("{shown:?}")
    };
    assert_eq!(
        (&password.value, &password.origin),
        (&"<redacted>".into(), &Origin::Flag("--password".into()))
    );
    assert_eq!(uris.value, serde_json::json!(["a://u:<redacted>@h/x", "b://h"]));
    assert_eq!((uris.key.as_str(), &uris.path[..]), ("uris", &["uris".to_owned()][..]));
}
