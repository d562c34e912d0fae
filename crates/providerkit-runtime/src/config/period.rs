//! Durations as people write them.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The schema's name for it.
pub(super) const FORMAT: &str = "go-duration";

/// For those who check without us.
const PATTERN: &str = r"^(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(h|m|s|ms|us|µs|ns))+)$";

/// Longest first, so that a period is shown with as few parts as possible.
const UNITS: [(&str, u64); 7] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];

/// A duration that is written as in Go, because the reference's flags are: numbers with a unit each, such as `2s`,
/// `1h30m` or `1.5h`; units are `h`, `m`, `s`, `ms`, `us` and `ns`. `0` needs no unit. There are no negative ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub Duration);

impl Period {
    /// So many seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl From<Period> for Duration {
    fn from(period: Period) -> Self {
        period.0
    }
}

/// Text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration; write it like `30s` or `1h30m`")]
pub struct InvalidPeriod(String);

impl FromStr for Period {
    type Err = InvalidPeriod;

    fn from_str(text: &str) -> Result<Self, InvalidPeriod> {
        if text == "0" {
            return Ok(Self::default());
        }
        parse(text).ok_or_else(|| InvalidPeriod(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Period> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() || text.is_empty() {
        let number = take(&mut rest, |c| c.is_ascii_digit() || c == '.');
        let unit = take(&mut rest, |c| !c.is_ascii_digit() && c != '.');
        let (_, nanos) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(scale(number, nanos)?)?;
    }
    Some(Period(total))
}

fn take<'a>(rest: &mut &'a str, wanted: impl Fn(char) -> bool) -> &'a str {
    let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
    let (taken, left) = rest.split_at(end);
    *rest = left;
    taken
}

fn scale(number: &str, nanos: u64) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = |text: &str| {
        if text.is_empty() {
            Some(0)
        } else {
            text.parse::<u64>().ok()
        }
    };
    // Nine digits are all a nanosecond leaves room for.
    let fraction = fraction.get(..9).unwrap_or(fraction);
    let divisor = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let parts = u128::from(digits(fraction)?) * u128::from(nanos) / divisor;
    let total = u128::from(digits(whole)?) * u128::from(nanos) + parts;
    u64::try_from(total).ok().map(Duration::from_nanos)
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_nanos();
        if rest == 0 {
            return f.write_str("0s");
        }
        for (name, nanos) in UNITS {
            let count = rest / u128::from(nanos);
            rest %= u128::from(nanos);
            if count > 0 {
                write!(f, "{count}{name}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Period {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Period".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": FORMAT, "pattern": PATTERN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("2s", 2_000_000_000),
            ("300ms", 300_000_000),
            ("1.5h", 5_400_000_000_000),
            ("1h30m", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("7us", 7_000),
            ("7µs", 7_000),
            ("0.123456789123s", 123_456_789),
        ] {
            let period: Period = text.parse().unwrap();
            assert_eq!(period.0.as_nanos(), nanos, "{text}");
        }
    }

    #[test]
    fn what_is_no_period_is_refused_by_name() {
        let many = "9".repeat(40) + "h";
        for text in [
            "",
            "5",
            "s",
            ".s",
            "-1s",
            "1 s",
            "1d",
            "5m3",
            "1..5s",
            "1h1",
            many.as_str(),
        ] {
            let error = text.parse::<Period>().unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn a_period_reads_back_as_it_is_shown() {
        for (text, shown) in [("90m", "1h30m"), ("10m", "10m"), ("0", "0s"), ("1500us", "1ms500us")] {
            let period: Period = text.parse().unwrap();
            assert_eq!(period.to_string(), shown);
            assert_eq!(shown.parse(), Ok(period));
        }
    }
}
