//! Layered configuration: defaults, then each file in order, then the environment, then flags.
//!
//! Works for any type that has a default, serde and a JSON schema. The schema is what makes layers agree: it gives
//! text from the environment its type, finds the key that was meant, and lets every mistake be reported at once with
//! the place it came from.
//!
//! ```
//! use std::path::Path;
//!
//! use providerkit_runtime::config::{Loader, Origin};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Default, Deserialize, JsonSchema, Serialize)]
//! #[serde(default)]
//! struct Config {
//!     zone: String,
//!     slots: u16,
//! }
//!
//! let loaded = Loader::<Config>::new()
//!     .environment("LAB", [("LAB__ZONE".into(), "007".into())])
//!     .flag("--slots", "slots", "3")
//!     .load();
//! assert_eq!(loaded.origin("zone"), Origin::Environment("LAB__ZONE".into()));
//! let config = loaded.finish(|config, _| config)?;
//! assert_eq!((config.zone.as_str(), config.slots), ("007", 3));
//! # Ok::<(), providerkit_runtime::config::Error>(())
//! ```

mod check;
mod coerce;
mod document;
mod effective;
mod environment;
mod finding;
mod layer;
mod period;
mod reference;
mod schema;

use std::{ffi::OsString, marker::PhantomData, path::Path};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value as Json;

pub use self::{
    effective::Effective,
    finding::{Error, Finding, Findings, Origin},
    period::{InvalidPeriod, Period},
    reference::{Holds, Key},
};
use self::{layer::Layers, schema::Node};

/// Collects layers; the later one wins.
#[derive(Debug)]
pub struct Loader<T> {
    schema: Json,
    layers: Layers,
    findings: Vec<Finding>,
    config: PhantomData<fn() -> T>,
}

impl<T: Default + Serialize + DeserializeOwned + JsonSchema> Loader<T> {
    /// Begins with the defaults of `T`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            schema: document::schema::<T>(),
            layers: Layers::of_defaults(&T::default()),
            findings: Vec::new(),
            config: PhantomData,
        }
    }

    /// Adds a file that somebody named: TOML or JSON, by its extension. Not being there is a mistake.
    #[must_use]
    pub fn file(mut self, path: impl AsRef<Path>) -> Self {
        if let Err(finding) = self.layers.add_file(path.as_ref()) {
            self.findings.push(finding);
        }
        self
    }

    /// Adds the environment variables that begin with the prefix and two underscores, such as
    /// `LIBVIRT_PROVIDER__LISTEN__ADDR` for `listen.addr`.
    ///
    /// The second underscore tells them from the variables Kubernetes makes of a Service of the same name. An empty
    /// variable counts as unset; `…_FILE` names a file that holds the value.
    #[must_use]
    pub fn environment(mut self, prefix: &str, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let root = Node::root(&self.schema);
        let (values, mut findings) = environment::read(root, prefix, variables);
        for value in values {
            self.layers.add_text(root, value);
        }
        self.findings.append(&mut findings);
        self
    }

    /// Adds a value from the command line for a key such as `listen.addr`.
    #[must_use]
    pub fn flag(mut self, flag: &str, key: &str, text: &str) -> Self {
        self.layers.add_text(
            Node::root(&self.schema),
            layer::TextValue {
                origin: Origin::Flag(flag.to_owned()),
                path: key.split('.').map(str::to_owned).collect(),
                text: text.to_owned(),
            },
        );
        self
    }

    /// Puts the layers together. What is wrong is left out and remembered, so that the rest can be judged too.
    #[must_use]
    pub fn load(mut self) -> Loaded<T> {
        let checked = check::check(Node::root(&self.schema), &self.layers);
        self.findings.extend(checked.findings);
        let config = serde_json::from_value(checked.config).unwrap_or_else(|error| {
            self.findings.push(Finding::general(error.to_string()));
            T::default()
        });
        Loaded {
            schema: self.schema,
            config,
            findings: Findings::new(self.findings, checked.origins),
        }
    }
}

impl<T: Default + Serialize + DeserializeOwned + JsonSchema> Default for Loader<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A configuration that fits its schema, and what had to be left out for that.
#[derive(Debug)]
pub struct Loaded<T> {
    schema: Json,
    config: T,
    findings: Findings,
}

impl<T> Loaded<T> {
    /// Where the value of a key such as `listen.addr` came from.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        self.findings.origin(key)
    }

    /// The configuration, as far as it fits.
    #[must_use]
    pub const fn config(&self) -> &T {
        &self.config
    }

    /// Turns the configuration into what the program works with, adding what a schema cannot find. Whatever the
    /// closure makes is only handed out if nothing was found.
    ///
    /// # Errors
    /// Everything that was found, here and while loading.
    pub fn finish<S>(mut self, parse: impl FnOnce(T, &mut Findings) -> S) -> Result<S, Error> {
        let parsed = parse(self.config, &mut self.findings);
        self.findings.into_result().map(|()| parsed)
    }
}

/// The keys, such as `listen.addr`, whose values differ between two configurations. Lists are compared as a whole.
#[must_use]
pub fn changed<T: Serialize>(before: &T, after: &T) -> Vec<String> {
    let mut keys = Vec::new();
    match (serde_json::to_value(before), serde_json::to_value(after)) {
        (Ok(before), Ok(after)) => compare("", &before, &after, &mut keys),
        // A configuration is made of what JSON can hold.
        (Err(error), _) | (_, Err(error)) => tracing::warn!(%error, "two configurations cannot be compared"),
    }
    keys
}

fn compare(at: &str, before: &Json, after: &Json, keys: &mut Vec<String>) {
    if before == after {
        return;
    }
    let (Json::Object(before), Json::Object(after)) = (before, after) else {
        return keys.push(at.to_owned());
    };
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        let absent = &Json::Null;
        let (before, after) = (before.get(name).unwrap_or(absent), after.get(name).unwrap_or(absent));
        compare(&check::join(at, name), before, after, keys);
    }
}

impl<T: Serialize> Loaded<T> {
    /// Every key with its value and where that came from, the defaults included; fit to be shown.
    #[must_use]
    pub fn effective(&self) -> Vec<Effective> {
        let config = serde_json::to_value(&self.config).unwrap_or_default();
        effective::effective(&self.schema, config, &self.findings)
    }
}

/// The JSON schema of a configuration, for editors and charts: in one piece, and closed but for tables of free names.
#[must_use]
pub fn schema<T: Default + Serialize + JsonSchema>() -> Json {
    document::schema::<T>()
}

/// Every key of a configuration, for documentation: values before tables, each table before its keys.
#[must_use]
pub fn keys<T: Default + Serialize + JsonSchema>() -> Vec<Key> {
    reference::keys(&document::schema::<T>())
}
