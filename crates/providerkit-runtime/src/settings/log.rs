//! What is logged, and how.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::config::Findings;

/// What is logged, and how, as configured.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct LogConfig {
    /// How lines look.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug` or `trace`, and for parts of the program `part=level`, separated by commas.
    pub level: String,
    /// Whether every change that BigFleet was granted is logged, as one JSON object of target `audit`, whatever the level.
    pub audit: bool,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            format: LogFormat::Auto,
            level: "info".into(),
            audit: true,
        }
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// What is logged, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Log {
    /// How lines look.
    pub format: LogFormat,
    /// Whether every change that was granted is logged.
    pub audit: bool,
    filter: String,
}

impl Log {
    pub(super) fn parse(config: LogConfig, findings: &mut Findings) -> Self {
        if let Err(error) = filter(&config.level) {
            let problem = format!("must be a level such as `info`, or `info,h2=warn`: {error}");
            findings.refuse("log.level", problem);
        }
        Self {
            format: config.format,
            audit: config.audit,
            filter: config.level,
        }
    }

    /// The filter; it was seen to be valid.
    pub(crate) fn filter(&self) -> EnvFilter {
        filter(&self.filter).unwrap_or_default()
    }
}

fn filter(text: &str) -> Result<EnvFilter, String> {
    let words = text.split(',').map(str::trim);
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    // A single word would otherwise be taken for a part of the program, and `inof` would silence everything.
    let is_level = |word: &str| word.contains(['=', '[']) || word.parse::<LevelFilter>().is_ok();
    if let Some(word) = words.iter().find(|word| !is_level(word)) {
        return Err(format!("`{word}` is no level"));
    }
    let directives = words.join(",");
    EnvFilter::builder()
        .parse(directives)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_parts_are_understood_and_typing_errors_are_not() {
        for text in [
            "info",
            "WARN",
            "off",
            "info,h2=warn",
            "info, providerkit::engine=trace",
            "",
        ] {
            assert!(filter(text).is_ok(), "{text}");
        }
        for text in ["inof", "info,h2=wran", "h2"] {
            assert!(filter(text).is_err(), "{text}");
        }
    }
}
