//! `config`: what the configuration is, may be, and could look like.

use std::io::{self, Write as _};

use providerkit_runtime::config::{self, Effective, Origin};
use serde_json::{Map, Value as Json, json};

use super::{Exit, Failure, example, print_json, reference};
use crate::{
    cli::{ConfigCommand, Flags},
    config::{Config, Settings},
};

/// Origins stand in this column where values are short enough.
const SOURCES: usize = 48;

pub(super) fn run(what: ConfigCommand) -> Result<Exit, Failure> {
    let mut out = io::stdout().lock();
    match what {
        ConfigCommand::Schema => return print_json(&config::schema::<Config>()),
        ConfigCommand::Example => write!(out, "{}", example::render(&config::keys::<Config>()))?,
        ConfigCommand::Reference => write!(out, "{}", reference::render(&config::keys::<Config>()))?,
        ConfigCommand::Print { sources, json, flags } => {
            drop(out);
            return print(&flags, sources, json);
        }
    }
    Ok(Exit::Success)
}

/// Also what is wrong is shown, as far as it goes; then it is told.
fn print(flags: &Flags, sources: bool, json: bool) -> Result<Exit, Failure> {
    let loaded = flags.load(std::env::vars_os());
    let effective = loaded.effective();
    if json {
        print_json(&as_json(effective, sources))?;
    } else {
        as_toml(&effective, sources)?;
    }
    loaded.finish(Settings::parse).map_err(Failure::usage)?;
    Ok(Exit::Success)
}

fn as_toml(effective: &[Effective], sources: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for Effective { key, value, origin, .. } in effective {
        let line = match value {
            Json::Null => format!("# {key} is not set"),
            value => format!("{key} = {}", inline(value)),
        };
        if sources {
            writeln!(out, "{line:SOURCES$}  # {origin}")?;
        } else {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// A value as TOML has it on one line.
pub(super) fn inline(value: &Json) -> String {
    // A number that TOML has no room for looks the same in JSON.
    toml::Value::try_from(value).map_or_else(|_| value.to_string(), |value| value.to_string())
}

/// As it would be in a file; with sources, each value beside its own.
fn as_json(effective: Vec<Effective>, sources: bool) -> Json {
    let mut root = Json::Object(Map::new());
    for Effective {
        path, value, origin, ..
    } in effective
    {
        let leaf = if sources {
            let (source, name) = match origin {
                Origin::File(path) => ("file", Some(path.display().to_string())),
                Origin::Environment(name) => ("environment", Some(name)),
                Origin::Flag(name) => ("flag", Some(name)),
                _ => ("default", None),
            };
            json!({ "value": value, "source": source, "name": name })
        } else {
            value
        };
        let mut place = &mut root;
        for key in path {
            // invariant: a path goes through tables only.
            if !place.is_object() {
                *place = Json::Object(Map::new());
            }
            let Json::Object(table) = place else { return root };
            place = table.entry(key).or_insert(Json::Null);
        }
        *place = leaf;
    }
    root
}
