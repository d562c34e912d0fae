//! The layers, merged by figment, which remembers for every value where it came from.

use std::path::Path;

use figment::{
    Figment, Metadata, Profile, Provider, Source,
    providers::{Format as _, Json, Serialized, Toml},
    value::{Dict, Map, Tag, Value},
};
use serde::Serialize;

use super::{Finding, Origin, coerce, schema::Node};

const ENVIRONMENT: &str = "environment";
const FLAG: &str = "flag";

/// The merged layers.
#[derive(Debug)]
pub(super) struct Layers(Figment);

/// A value that was given as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextValue {
    pub(super) origin: Origin,
    /// Keys from the root, as the schema spells them where it knows them.
    pub(super) path: Vec<String>,
    pub(super) text: String,
}

impl Layers {
    pub(super) fn of_defaults<T: Serialize>(defaults: &T) -> Self {
        Self(Figment::from(Serialized::from(defaults, Profile::Default)))
    }

    pub(super) fn add_file(&mut self, path: &Path) -> Result<(), Finding> {
        let here = Origin::File(path.to_owned());
        // Read here, because figment takes a file that is missing for one that is empty.
        let text = std::fs::read_to_string(path)
            .map_err(|error| Finding::new(here.clone(), format!("cannot be read: {error}")))?;
        let data = match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Toml::string(&text).data(),
            Some("json") => Json::string(&text).data(),
            _ => {
                let problem = "is neither TOML nor JSON by its name; call it `.toml` or `.json`";
                return Err(Finding::new(here, problem));
            }
        };
        let dict = data
            .map_err(|error| Finding::new(here.clone(), format!("is not valid: {}", error.kind)))?
            .remove(&Profile::Default)
            .unwrap_or_default();
        self.merge(here, dict);
        Ok(())
    }

    pub(super) fn add_text(&mut self, root: Node<'_>, value: TextValue) {
        let TextValue { origin, path, text } = value;
        let leaf = coerce::coerce(root.descend(&path), &text);
        let nested = path
            .into_iter()
            .rev()
            .fold(leaf, |inner, key| Value::from(Dict::from([(key, inner)])));
        if let Value::Dict(_, dict) = nested {
            self.merge(origin, dict);
        }
    }

    pub(super) fn merged(&self) -> Dict {
        // Only a provider can fail, and every one of ours has its data before it is merged.
        let mut profiles = self.0.data().unwrap_or_default();
        profiles.remove(&Profile::Default).unwrap_or_default()
    }

    pub(super) fn origin(&self, tag: Tag) -> Origin {
        let Some(metadata) = self.0.get_metadata(tag) else {
            return Origin::Default;
        };
        match (&*metadata.name, &metadata.source) {
            (ENVIRONMENT, Some(Source::Custom(name))) => Origin::Environment(name.clone()),
            (FLAG, Some(Source::Custom(name))) => Origin::Flag(name.clone()),
            (_, Some(Source::File(path))) => Origin::File(path.clone()),
            _ => Origin::Default,
        }
    }

    fn merge(&mut self, origin: Origin, dict: Dict) {
        let figment = std::mem::take(&mut self.0);
        self.0 = figment.merge(Layer { origin, dict });
    }
}

struct Layer {
    origin: Origin,
    dict: Dict,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        match &self.origin {
            Origin::Default => Metadata::named("defaults"),
            Origin::File(path) => Metadata::from("file", path.as_path()),
            Origin::Environment(name) => Metadata::from(ENVIRONMENT, Source::Custom(name.clone())),
            Origin::Flag(name) => Metadata::from(FLAG, Source::Custom(name.clone())),
        }
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.dict.clone())]))
    }
}
