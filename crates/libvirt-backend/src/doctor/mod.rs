//! Whether a host has what machines need: every prerequisite looked at on its own, before the first Create finds out.
//!
//! Nothing here prints, and nothing is changed on a host but by the probe that is asked for. A check says what was seen,
//! and what to do where that is not right; the next ones are still made where they can be.

mod domains;
mod network;
mod platform;
mod reach;
mod storage;
mod survey;
mod write;

use std::{fmt, sync::Arc, time::Duration};

use providerkit_backend::Error;
use serde::Serialize;
use tokio::time::timeout;

pub use self::survey::{Survey, survey};
use crate::{
    failure::Failure,
    host::Lanes,
    settings::{HostSettings, Settings},
};

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it should be.
    Ok,
    /// It was not asked for, or cannot be told.
    Skipped,
    /// Machines can be made, but somebody should look.
    Warn,
    /// Machines cannot be made.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at, such as `pool`; also where the documentation of it is.
    pub name: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// What was seen.
    pub detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Check {
    /// A check, without a remedy.
    #[must_use]
    pub fn new(name: &'static str, outcome: Outcome, detail: impl Into<String>) -> Self {
        Self {
            name,
            outcome,
            detail: detail.into(),
            remedy: None,
        }
    }

    /// As it should be.
    #[must_use]
    pub fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Outcome::Ok, detail)
    }

    /// Somebody should look.
    #[must_use]
    pub fn warn(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Outcome::Warn, detail)
    }

    /// Not as it must be.
    #[must_use]
    pub fn fail(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Outcome::Fail, detail)
    }

    /// Not looked at.
    #[must_use]
    pub fn skipped(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Outcome::Skipped, detail)
    }

    /// Says what to do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// How thoroughly a host is examined.
#[derive(Clone, Copy, Debug)]
pub struct Thoroughness {
    /// Whether to prove the permissions by making and removing a tiny volume and a domain that is never started.
    pub write: bool,
    /// How long one call may take, connecting included. A host takes at most six times as long.
    pub patience: Duration,
}

/// How many times the patience with one call a host may take for all.
const ALL: u32 = 6;

/// Examines a host; each check is told as soon as it is made. Ends in time however the host behaves, and may be dropped
/// at any moment: what the probe made is then left under a name that the next probe removes.
pub async fn examine(
    settings: &Arc<Settings>,
    zone: &str,
    host: &HostSettings,
    how: Thoroughness,
    tell: &mut (dyn FnMut(Check) + Send),
) {
    let mut told = "uri";
    let all = how.patience * ALL;
    let mut remember = |check: Check| {
        told = check.name;
        tell(check);
    };
    let examined = timeout(all, checks(settings, zone, host, how, &mut remember)).await;
    if examined.is_err() {
        let detail = format!("what follows `{told}` was not answered: {all:?} have passed");
        tell(Check::fail("time", detail).remedy("see whether libvirtd or its storage hangs on that host"));
    }
}

async fn checks(
    settings: &Arc<Settings>,
    zone: &str,
    host: &HostSettings,
    how: Thoroughness,
    tell: &mut (dyn FnMut(Check) + Send),
) {
    if host.cordon {
        let check = Check::warn("cordon", "the host takes no new machines; those it has are left alone");
        tell(check.remedy("take `cordon` away in `hosts`, and send the provider SIGHUP"));
    }
    let Some(connection) = reach::reach(host, how.patience, tell).await else {
        return;
    };
    let Some(facts) = platform::look(&connection, settings, tell).await else {
        return;
    };
    let lanes = Lanes {
        control: connection.clone(),
        agent: connection.clone(),
        bulk: connection.clone(),
        facts,
    };
    storage::look(&lanes, settings, tell).await;
    network::look(&lanes, settings, zone, tell).await;
    domains::look(&lanes, settings, zone, tell).await;
    if how.write {
        write::probe(&lanes, settings, tell).await;
    } else {
        let detail = "may this user define domains and make volumes? That takes trying";
        tell(
            Check::skipped("permissions", detail)
                .remedy("--write tries, with a tiny volume and a domain never started"),
        );
        tell(
            Check::skipped("clock", "the host's clock can be told by the time of a new volume only")
                .remedy("--write makes one"),
        );
    }
    connection.close().await;
}

/// A check that failed for a reason the host gave.
fn failed(name: &'static str, failure: Failure) -> Check {
    Check::fail(name, Error::from(failure).report())
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Warn => "warn",
            Self::Fail => "fail",
        })
    }
}
