//! Whether this user may do what a Create does: tried, with a tiny volume and a domain that is never started.

use std::time::{Duration, SystemTime};

use libvirt_rpc::wire::constant::domain::{DomainDefineFlags, DomainUndefineFlags};
use uuid::Uuid;

use super::{Check, failed};
use crate::{
    failure::{Absent as _, Doing as _, Failure},
    host::Lanes,
    pool::Pool,
    settings::Settings,
};

/// Clocks that differ by less do no harm: tokens and certificates allow for some seconds.
const TOLERATED: Duration = Duration::from_secs(5);

pub(super) async fn probe(lanes: &Lanes, settings: &Settings, tell: &mut (dyn FnMut(Check) + Send)) {
    let name = format!(
        "bf-doctor-{}",
        settings.provider.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
    );
    const REMEDY: &str = "let the user manage domains and storage on the host: group `libvirt`, or a polkit rule";
    match volume(lanes, settings, &name).await {
        Ok(made) => {
            tell(Check::ok("volumes", "a volume can be made, written and deleted"));
            tell(match made {
                Some((at, before, after)) => clock(at, before, after),
                None => Check::skipped("clock", "this libvirt does not say when a volume was written"),
            });
        }
        Err(failure) => {
            tell(failed("volumes", failure).remedy(REMEDY));
            tell(Check::skipped("clock", "it is told by the time of a new volume"));
        }
    }
    match domain(lanes, &name).await {
        Ok(()) => tell(Check::ok("permissions", "a domain can be defined and undefined")),
        Err(failure) => tell(failed("permissions", failure).remedy(REMEDY)),
    }
}

/// When it was written by the host's clock, and between which times by ours.
type Written = (SystemTime, SystemTime, SystemTime);

async fn volume(lanes: &Lanes, settings: &Settings, name: &str) -> Result<Option<Written>, Failure> {
    let volume = format!("{name}.img");
    let pool = Pool::open(lanes, &settings.machine.pool).await?;
    let before = SystemTime::now();
    pool.make_seed(&volume, &[0; 4096]).await?;
    let after = SystemTime::now();
    let looked = match pool.volume(&volume).await {
        Ok(Some(found)) => lanes
            .control
            .volume_xml(&found)
            .await
            .doing(|| format!("look at volume `{volume}`")),
        Ok(None) => Ok(String::new()),
        Err(failure) => Err(failure),
    };
    pool.delete(&volume).await?;
    Ok(written(&looked?).map(|at| (at, before, after)))
}

/// `<timestamps><mtime>1341933637.273190990</mtime>…`.
fn written(xml: &str) -> Option<SystemTime> {
    let document = roxmltree::Document::parse(xml).ok()?;
    let time = document.descendants().find(|node| node.has_tag_name("mtime"))?;
    let seconds: f64 = time.text()?.trim().parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

fn clock(at: SystemTime, before: SystemTime, after: SystemTime) -> Check {
    let (skew, way) = match (before.duration_since(at), at.duration_since(after)) {
        (Ok(behind), _) => (behind, "behind"),
        (_, Ok(ahead)) => (ahead, "ahead of"),
        _ => (Duration::ZERO, "with"),
    };
    if skew <= TOLERATED {
        return Check::ok("clock", format!("the host's clock agrees with ours, to {TOLERATED:?}"));
    }
    let detail = format!("the host's clock is {}s {way} ours", skew.as_secs());
    Check::warn("clock", detail).remedy("run an NTP client on both; tokens and certificates are refused otherwise")
}

async fn domain(lanes: &Lanes, name: &str) -> Result<(), Failure> {
    let platform = lanes
        .facts
        .platform
        .as_ref()
        .map_err(|reason| Failure::told(reason.as_str()))?;
    let control = &lanes.control;
    let left = control.domain_lookup_by_name(name).await.absent();
    if let Some(left) = left.doing(|| format!("look up domain `{name}`"))? {
        // Of a probe that was interrupted.
        let undefined = control.domain_undefine(&left, DomainUndefineFlags::empty()).await;
        undefined.doing(|| format!("undefine domain `{name}`"))?;
    }
    let (kind, arch) = (&platform.capabilities.domain, &platform.capabilities.arch);
    let xml = format!(
        "<domain type='{kind}'><name>{name}</name><uuid>{}</uuid><memory unit='MiB'>64</memory><vcpu>1</vcpu>\
         <os><type arch='{arch}' machine='{}'>hvm</type></os></domain>",
        Uuid::new_v4(),
        platform.machine_type
    );
    let defined = control.domain_define(&xml, DomainDefineFlags::empty()).await;
    let defined = defined.doing(|| format!("define domain `{name}`"))?;
    let undefined = control.domain_undefine(&defined, DomainUndefineFlags::empty()).await;
    undefined.doing(|| format!("undefine domain `{name}`, which stays and is never started"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Outcome;

    #[test]
    fn a_volume_tells_the_time_of_its_host() {
        let xml = "<volume><target><timestamps><atime>1.5</atime><mtime>1000.250000000</mtime></timestamps></target></volume>";
        let at = written(xml).unwrap();
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(at, time(1000) + Duration::from_millis(250));
        assert_eq!(clock(at, time(1000), time(1001)).outcome, Outcome::Ok);
        assert_eq!(clock(at, time(996), time(997)).outcome, Outcome::Ok);
        let behind = clock(at, time(1100), time(1101));
        assert_eq!(
            (behind.outcome, behind.detail.as_str()),
            (Outcome::Warn, "the host's clock is 99s behind ours")
        );
        assert!(clock(at, time(900), time(901)).detail.contains("99s ahead of ours"));
        assert_eq!(written("<volume/>"), None);
    }
}
