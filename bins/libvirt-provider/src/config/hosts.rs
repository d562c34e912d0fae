//! The hosts, as configured: a list in a file, or the reference's `--connect`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use libvirt_backend::{Endpoint, settings::HostSettings, uri_policy};
use providerkit_runtime::config::Findings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One libvirt host, as configured.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct HostConfig {
    /// The zone it belongs to; a zone may have several hosts. The default zone when empty.
    zone: String,
    /// What logs and metrics call it; its place in the zone when empty.
    name: String,
    /// Where its daemon is, such as `qemu+ssh://bigfleet@host-a/system?keyfile=/etc/bigfleet/id_ed25519`.
    uri: String,
    /// Whether it takes no new machines; those it has are left alone. SIGHUP puts a change in force.
    cordon: bool,
}

/// All hosts by zone.
pub(crate) type Zones = BTreeMap<Arc<str>, Vec<HostSettings>>;

pub(crate) fn parse(hosts: &[HostConfig], connect: &str, default_zone: &str, findings: &mut Findings) -> Zones {
    if default_zone.is_empty() {
        findings.refuse("default_zone", "must not be empty");
    }
    let mut zones = Zones::new();
    let mut names = BTreeSet::new();
    let mut add = |key: &str, host: &HostConfig, findings: &mut Findings| {
        let HostConfig {
            zone,
            name,
            uri,
            cordon,
        } = host;
        let zone = if zone.is_empty() { default_zone } else { zone };
        if let Err(problem) = uri_policy::check(uri) {
            findings.refuse(key, format_args!("of zone `{zone}` cannot be used: {problem}"));
            return;
        }
        let hosts = zones.entry(zone.into()).or_default();
        let name: Arc<str> = match name.as_str() {
            "" if hosts.is_empty() => zone.into(),
            "" => format!("{zone}-{}", hosts.len() + 1).into(),
            name => name.into(),
        };
        if !names.insert(Arc::clone(&name)) {
            findings.refuse(key, format_args!("has two hosts named `{name}`"));
            return;
        }
        hosts.push(HostSettings {
            name,
            endpoint: Endpoint::Uri(uri.clone()),
            cordon: *cordon,
        });
    };
    for host in hosts {
        add("hosts", host, findings);
    }
    for (zone, uri) in pairs(connect) {
        let host = HostConfig {
            zone: zone.to_owned(),
            uri: uri.to_owned(),
            ..HostConfig::default()
        };
        add("connect", &host, findings);
    }
    zones
}

/// Takes `--connect` apart: one bare URI, or `zone=uri,…`. A comma within a URI is none between two pairs.
fn pairs(connect: &str) -> Vec<(&str, &str)> {
    let connect = connect.trim();
    if connect.is_empty() {
        return Vec::new();
    }
    let mut starts = vec![0];
    let commas = connect.match_indices(',').map(|(at, _)| at + 1);
    starts.extend(commas.filter(|at| zone_of(connect.get(*at..).unwrap_or_default()).is_some()));
    let ends = starts.iter().skip(1).map(|at| at - 1).chain([connect.len()]);
    let pieces = starts.iter().zip(ends).filter_map(|(from, to)| connect.get(*from..to));
    pieces
        .map(|piece| zone_of(piece).unwrap_or_else(|| ("", piece.trim())))
        .collect()
}

/// The zone and the rest, if this begins a pair: a name, `=`, and a scheme.
fn zone_of(text: &str) -> Option<(&str, &str)> {
    let (zone, uri) = text.split_once('=')?;
    let plain = |c: char| !matches!(c, ':' | '/' | '?' | '&' | ',');
    let scheme = uri.split_once(':')?.0;
    let is_scheme = scheme
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    (zone.chars().all(plain) && is_scheme).then(|| (zone.trim(), uri.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_uri_is_the_default_zones() {
        assert_eq!(pairs("qemu:///system"), [("", "qemu:///system")]);
        assert_eq!(pairs(" "), []);
        let uri = "qemu+ssh://a/system?keyfile=/k&known_hosts=/h";
        assert_eq!(pairs(uri), [("", uri)]);
    }

    #[test]
    fn pairs_are_told_from_commas_within_a_uri() {
        assert_eq!(
            pairs("rack1=qemu+ssh://a/system?sshauth=agent,privkey, rack2=qemu+tls://b/system"),
            [
                ("rack1", "qemu+ssh://a/system?sshauth=agent,privkey"),
                ("rack2", "qemu+tls://b/system")
            ]
        );
    }
}
