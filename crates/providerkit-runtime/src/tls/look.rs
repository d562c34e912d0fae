//! What is in the files for TLS, for people.

use std::time::{Duration, SystemTime};

use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer as _};

use super::{Error, Material, material::certificates};
use crate::settings::TlsFiles;

/// The server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Certificate {
    /// What callers may call it: DNS names and addresses.
    pub names: Vec<String>,
    /// When it begins to be valid.
    pub not_before: SystemTime,
    /// When it ends to be valid.
    pub not_after: SystemTime,
    /// How many certificates are sent.
    pub chain: usize,
    /// Whether each of them was issued by the next.
    pub is_in_order: bool,
    /// How many authorities may vouch for clients.
    pub authorities: usize,
}

/// Reads the files as a start would, and says what is in them.
///
/// # Errors
/// When a start would fail.
pub fn look(files: &TlsFiles) -> Result<Certificate, Error> {
    Material::load(files)?;
    let chain = certificates(&files.cert)?;
    let parsed: Vec<_> = chain
        .iter()
        .filter_map(|certificate| Some(X509Certificate::from_der(certificate).ok()?.1))
        .collect();
    let authorities = files.ca.as_deref().map(certificates).transpose()?;
    let Some(leaf) = parsed.first() else {
        return Err(Error::Missing {
            path: files.cert.clone(),
            wanted: "certificate",
            source: None,
        });
    };
    let alternatives = leaf.subject_alternative_name().ok().flatten();
    let names = alternatives.map(|found| found.value.general_names.iter().filter_map(name).collect());
    Ok(Certificate {
        names: names.unwrap_or_default(),
        not_before: time(leaf.validity().not_before.timestamp()),
        not_after: time(leaf.validity().not_after.timestamp()),
        chain: chain.len(),
        is_in_order: parsed
            .windows(2)
            .all(|pair| matches!(pair, [one, next] if one.issuer() == next.subject())),
        authorities: authorities.map(|found| found.len()).unwrap_or_default(),
    })
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match *bytes {
            &[a, b, c, d] => Some(std::net::Ipv4Addr::new(a, b, c, d).to_string()),
            bytes => Some(std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string()),
        },
        _ => None,
    }
}

fn time(seconds: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    };
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}
