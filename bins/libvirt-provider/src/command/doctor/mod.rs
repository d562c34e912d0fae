//! `doctor`: every prerequisite, looked at. Sections of checks, one a line as soon as it is made; what to do where one
//! failed; a verdict. The hosts are examined all at once, and each ends in time whatever it does.

mod local;
mod print;

use std::{sync::Arc, time::Duration};

use anyhow::anyhow;
use libvirt_backend::{
    doctor::{self, Check, Outcome, Thoroughness},
    settings::{HostSettings, Settings as Libvirt},
};
use providerkit_runtime::config::Error;
use serde::Serialize;
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    time::Instant,
};

use self::print::Printer;
use super::{Exit, Failure, in_runtime};
use crate::{
    cli::{Doctor, Report},
    config::{Settings, Substrate},
};

/// Between two tries of `--wait`.
const PAUSE: Duration = Duration::from_secs(1);

/// Checks that belong together.
#[derive(Debug, Serialize)]
struct Section {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    checks: Vec<Check>,
}

/// All that was found.
#[derive(Debug, Serialize)]
struct Found {
    verdict: Outcome,
    sections: Vec<Section>,
}

pub(super) fn run(arguments: &Doctor) -> Result<Exit, Failure> {
    let mut printer = Printer::new(arguments.output == Report::Text);
    let mut sections = Vec::new();
    let settings = configuration(arguments, &mut printer, &mut sections)?;
    let Some(settings) = settings else {
        printer.verdict(sections)?;
        return Ok(Exit::Usage);
    };
    let mut local = |name: &str, checks: Vec<Check>| -> Result<(), Failure> {
        printer.title(name)?;
        checks.iter().try_for_each(|check| printer.check(check))?;
        sections.push(Section {
            name: name.to_owned(),
            zone: None,
            host: None,
            checks,
        });
        Ok(())
    };
    local("state", local::state(settings.runtime.state.as_deref()))?;
    local("TLS", local::tls(settings.runtime.listen.tls.as_ref()))?;
    match settings.substrate {
        Substrate::Fake(_) => {
            let check = Check::skipped(
                "hosts",
                "the hosts are fake and within the provider, so there is none to look at",
            );
            local("hosts", vec![check])?;
        }
        Substrate::Libvirt(libvirt) => in_runtime(hosts(Arc::new(*libvirt), arguments, &mut printer, &mut sections))?,
    }
    let verdict = printer.verdict(sections)?;
    Ok(match verdict {
        Outcome::Fail => Exit::Unavailable,
        _ => Exit::Success,
    })
}

/// The settings, unless there are mistakes.
fn configuration(
    arguments: &Doctor,
    printer: &mut Printer,
    sections: &mut Vec<Section>,
) -> Result<Option<Settings>, Failure> {
    const NAME: &str = "configuration";
    let loaded = arguments.flags.load(std::env::vars_os());
    let (checks, settings) = match loaded.finish(Settings::parse) {
        Ok(settings) => (vec![Check::ok(NAME, "it is right")], Some(settings)),
        Err(error) => (mistakes(&error), None),
    };
    if let Some(Substrate::Libvirt(libvirt)) = settings.as_ref().map(|settings| &settings.substrate)
        && let Some(zone) = arguments
            .zone
            .iter()
            .find(|zone| !libvirt.zones.contains_key(zone.as_str()))
    {
        let zones: Vec<_> = libvirt.zones.keys().map(|zone| format!("`{zone}`")).collect();
        let zones = zones.join(", ");
        return Err(Failure::usage(anyhow!("there is no zone `{zone}`; there are {zones}")));
    }
    printer.title(NAME)?;
    checks.iter().try_for_each(|check| printer.check(check))?;
    sections.push(Section {
        name: NAME.to_owned(),
        zone: None,
        host: None,
        checks,
    });
    Ok(settings)
}

fn mistakes(error: &Error) -> Vec<Check> {
    let findings = error.findings().iter();
    findings
        .map(|finding| Check::fail("configuration", finding.to_string()))
        .collect()
}

async fn hosts(
    settings: Arc<Libvirt>,
    arguments: &Doctor,
    printer: &mut Printer,
    sections: &mut Vec<Section>,
) -> Result<(), Failure> {
    let how = Thoroughness {
        write: arguments.write,
        patience: arguments.timeout.into(),
    };
    let until = Instant::now() + Duration::from(arguments.wait);
    let mut examined = Vec::new();
    for (zone, hosts) in &settings.zones {
        if !arguments.zone.is_empty() && !arguments.zone.iter().any(|wanted| **wanted == **zone) {
            continue;
        }
        for host in hosts {
            let checks = begin(Arc::clone(&settings), Arc::clone(zone), host.clone(), how, until);
            examined.push((Arc::clone(zone), Arc::clone(&host.name), checks));
        }
    }
    // All are under way; they are told one after the other, each as far as it has come.
    for (zone, host, mut told) in examined {
        let name = format!("host {host} in zone {zone}");
        printer.title(&name)?;
        let mut checks = Vec::new();
        while let Some(check) = told.recv().await {
            printer.check(&check)?;
            checks.push(check);
        }
        sections.push(Section {
            name,
            zone: Some(zone.to_string()),
            host: Some(host.to_string()),
            checks,
        });
    }
    Ok(())
}

/// Examines a host in a task of its own: at once as far as it goes, or with time to wait, again until nothing fails.
fn begin(
    settings: Arc<Libvirt>,
    zone: Arc<str>,
    host: HostSettings,
    how: Thoroughness,
    until: Instant,
) -> UnboundedReceiver<Check> {
    let (teller, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        // Who does not listen any more has ended the process.
        let mut tell = |check| drop(teller.send(check));
        while Instant::now() < until {
            let mut checks = Vec::new();
            doctor::examine(&settings, &zone, &host, how, &mut |check| checks.push(check)).await;
            if checks.iter().all(|check| check.outcome != Outcome::Fail) || Instant::now() >= until {
                checks.into_iter().for_each(tell);
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
        doctor::examine(&settings, &zone, &host, how, &mut tell).await;
    });
    told
}
