//! What can be looked at on this machine: the state file and the certificate.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use libvirt_backend::doctor::Check;
use providerkit::store::Sqlite;
use providerkit_runtime::{
    settings::TlsFiles,
    tls::{self, Certificate},
};
use rustix::fs::{Access, access};

use crate::table::age;

/// When a certificate should have been renewed.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

pub(super) fn state(path: Option<&Path>) -> Vec<Check> {
    let Some(path) = path else {
        let check = Check::warn(
            "state",
            "there is no state file: everything is forgotten when the process ends",
        );
        return vec![check.remedy("name one with --state or `state`, on a disk that outlives the process")];
    };
    let shown = path.display();
    let found = match Sqlite::find(path) {
        Ok(found) => found,
        // It says itself what to do.
        Err(error) => {
            return vec![Check::fail(
                "state",
                providerkit::Error::new(error.to_string()).with_source(error).report(),
            )];
        }
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut checks = vec![match &found {
        None => Check::ok("state", format!("`{shown}` is not there yet; the first start makes it")),
        Some(found) if found.schema < found.newest_schema => Check::ok(
            "state",
            format!(
                "`{shown}` has schema version {}; the next start brings it to {}, and there is no way back: copy it first",
                found.schema, found.newest_schema
            ),
        ),
        Some(found) => Check::ok("state", format!("`{shown}` has schema version {}", found.schema)),
    }];
    // The log and the lock are beside it.
    let places = [Some(folder), found.is_some().then_some(path)];
    let denied = places.into_iter().flatten().find_map(|place| {
        let denied = access(place, Access::READ_OK | Access::WRITE_OK).err()?;
        Some(format!("`{}` cannot be written: {denied}", place.display()))
    });
    checks.push(match denied {
        None => Check::ok("writable", "file and folder can be written"),
        Some(denied) => {
            Check::fail("writable", denied).remedy("let the user of the provider own them (chart: `fsGroup`)")
        }
    });
    checks.push(match found.and_then(|found| found.holder) {
        None => Check::ok("lock", "no provider has it open"),
        Some(holder) => Check::ok("lock", format!("{holder} has it open: a provider runs")),
    });
    checks
}

pub(super) fn tls(files: Option<&TlsFiles>) -> Vec<Check> {
    let Some(files) = files else {
        let check = Check::warn("tls", "gRPC is served in plaintext, to anybody who can reach the port");
        return vec![check.remedy("set --tls-cert, --tls-key and --tls-ca, unless only BigFleet can reach it")];
    };
    match tls::look(files) {
        Err(error) => {
            let report = providerkit::Error::new(error.to_string()).with_source(error).report();
            vec![Check::fail("tls", report).remedy("put a PEM certificate chain and its key there")]
        }
        Ok(certificate) => judge(&certificate, SystemTime::now()),
    }
}

fn judge(certificate: &Certificate, now: SystemTime) -> Vec<Check> {
    let clients = match certificate.authorities {
        0 => "clients need none".to_owned(),
        count => format!("clients need one of {count} authorities"),
    };
    let mut checks = vec![if certificate.is_in_order {
        Check::ok(
            "tls",
            format!(
                "certificate and key are a pair, {} in the chain; {clients}",
                certificate.chain
            ),
        )
    } else {
        Check::warn(
            "tls",
            "the chain is not in order: some certificate was not issued by the next",
        )
        .remedy("put the server's certificate first, then each issuer in turn, without the root")
    }];
    checks.push(if certificate.names.is_empty() {
        Check::fail(
            "names",
            "the certificate names no host (subject alternative name), so every client refuses it",
        )
        .remedy("have it issued anew, with the name that BigFleet dials")
    } else {
        Check::ok("names", format!("it is for {}", certificate.names.join(", ")))
    });
    let validity = match (
        certificate.not_before.duration_since(now),
        certificate.not_after.duration_since(now),
    ) {
        (Ok(ahead), _) if !ahead.is_zero() => {
            Check::fail("expiry", format!("it is not valid for another {}", age(ahead)))
                .remedy("check this machine's clock")
        }
        (_, Err(past)) => Check::fail("expiry", format!("it expired {} ago", age(past.duration())))
            .remedy("renew it; no restart is needed"),
        (_, Ok(left)) if left < SOON => {
            Check::warn("expiry", format!("it expires in {}", age(left))).remedy("renew it; no restart is needed")
        }
        (_, Ok(left)) => Check::ok("expiry", format!("it is valid for another {}", age(left))),
    };
    checks.push(validity);
    checks
}
