//! What a run is asked for.

use std::{path::PathBuf, time::Duration};

use crate::{
    behaviour::{Behaviour, Lane, Profile},
    error::Error,
    mapping::Mapping,
};

/// Where the provider comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// `HOST:PORT` of one that runs. What needs a start or a kill is skipped, and so leaves the verdict open.
    Target(String),
    /// The command line to start it with; flags are added to it.
    Command(String),
}

/// What a run is asked for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The provider.
    pub source: Source,
    /// Its name in reports.
    pub name: String,
    /// What to certify it for.
    pub profiles: Vec<Profile>,
    /// Ids, with `*` for anything, or areas' two letters, parted by commas: nothing else is run.
    pub filter: Option<String>,
    /// Nothing of other lanes is run.
    pub lanes: Option<Vec<Lane>>,
    /// Whether the upstream baseline is left out.
    pub skip_baseline: bool,
    /// What all made-up arguments come from.
    pub seed: u64,
    /// How many behaviours run side by side.
    pub jobs: usize,
    /// How many machines the provider of the core lane is started with.
    pub seed_count: usize,
    /// How many that of the scale lane.
    pub scale_seed: usize,
    /// How long what soaks does so.
    pub soak: Duration,
    /// The first port of providers that are started; free ones where there is none.
    pub port: Option<u16>,
    /// Where logs go; a folder that is removed afterwards where there is none.
    pub logs: Option<PathBuf>,
    /// How it is started and what it does not claim.
    pub mapping: Mapping,
    /// Written into the command that runs a behaviour alone.
    pub rerun: String,
}

impl Options {
    /// The core profile, with the reference's sizes (contract §12).
    #[must_use]
    pub fn new(source: Source) -> Self {
        let name = match &source {
            Source::Target(address) => address.clone(),
            Source::Command(command) => program(command),
        };
        Self {
            source,
            name,
            profiles: vec![Profile::Core],
            filter: None,
            lanes: None,
            skip_baseline: false,
            seed: 1,
            jobs: 48,
            seed_count: 256,
            scale_seed: 8000,
            soak: Duration::from_secs(10),
            port: None,
            logs: None,
            mapping: Mapping::default(),
            rerun: "bigfleet-conformance run".into(),
        }
    }

    /// Names of profiles, parted by commas; `all` stands for all but soak.
    ///
    /// # Errors
    /// A name that is no profile.
    pub fn profiles(mut self, names: &str) -> Result<Self, Error> {
        self.profiles.clear();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if name == "all" {
                let all = Profile::ALL.iter().filter(|profile| **profile != Profile::Soak);
                self.profiles.extend(all);
                continue;
            }
            let known = || {
                let names: Vec<_> = Profile::ALL.iter().map(|profile| profile.name()).collect();
                Error::new(format!(
                    "`{name}` is no profile; choose from {} or all",
                    names.join(", ")
                ))
            };
            self.profiles.push(Profile::parse(name).ok_or_else(known)?);
        }
        self.profiles.sort();
        self.profiles.dedup();
        if self.profiles.is_empty() {
            return Err(Error::new("no profile was named"));
        }
        Ok(self)
    }

    pub(crate) fn factor(&self) -> f64 {
        self.mapping.timeout_factor.unwrap_or(1.0)
    }

    /// Whether a chosen profile needs it.
    pub(crate) fn requires(&self, behaviour: &Behaviour) -> bool {
        if behaviour.is_baseline() {
            return !self.skip_baseline;
        }
        behaviour.profiles.iter().any(|profile| self.profiles.contains(profile))
    }

    /// Whether it is run.
    #[must_use]
    pub fn selects(&self, behaviour: &Behaviour) -> bool {
        self.requires(behaviour) && self.lets_through(behaviour)
    }

    pub(crate) fn lets_through(&self, behaviour: &Behaviour) -> bool {
        if self
            .lanes
            .as_ref()
            .is_some_and(|lanes| !lanes.contains(&behaviour.lane))
        {
            return false;
        }
        let Some(filter) = &self.filter else {
            return true;
        };
        filter
            .split(',')
            .map(str::trim)
            .any(|pattern| pattern == behaviour.area.code() || fits(pattern, behaviour.id))
    }
}

fn program(command: &str) -> String {
    let first = command.split_whitespace().next().unwrap_or(command);
    let name = std::path::Path::new(first).file_name();
    name.map_or_else(|| first.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Whether a name fits a pattern in which `*` stands for anything.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    if !pattern.contains('*') {
        return rest.is_empty();
    }
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_take_stars() {
        for (pattern, name, expected) in [
            ("B302", "B302", true),
            ("B30", "B302", false),
            ("B30*", "B302", true),
            ("*Fencing*", "TestConformance_FencingReadsUnaffected", true),
            ("*Fencing", "TestConformance_FencingReadsUnaffected", false),
            ("T*Fencing*ed", "TestConformance_FencingReadsUnaffected", true),
            ("*", "X101", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn profiles_are_read_and_mistakes_named() {
        let options = Options::new(Source::Target("h:1".into()));
        let profiles = options.clone().profiles("cloud, core").unwrap().profiles;
        assert_eq!(profiles, [Profile::Core, Profile::Cloud]);
        let all = options.clone().profiles("all").unwrap().profiles;
        assert!(all.contains(&Profile::Scale) && !all.contains(&Profile::Soak));
        assert!(
            options
                .clone()
                .profiles("cloudy")
                .unwrap_err()
                .to_string()
                .contains("cloudy")
        );
        assert!(options.profiles(" ,").is_err());
    }
}
