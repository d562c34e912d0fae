//! Which shard a client certificate names (ADR-0048).

use providerkit::{Caller, ShardId};
use rustls_pki_types::CertificateDer;
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer as _};

const SCHEME: &str = "bigfleet://";
const SHARD: &str = "bigfleet://shard/";

/// The caller behind a verified chain: its leaf must carry exactly one `bigfleet://` URI, `bigfleet://shard/<id>`.
pub(crate) fn caller(chain: Option<&[CertificateDer<'_>]>) -> Caller {
    let leaf = chain.and_then(<[_]>::first);
    leaf.ok_or_else(|| "there is no client certificate".to_owned())
        .and_then(shard)
        .map_or_else(Caller::Unidentified, Caller::Shard)
}

fn shard(leaf: &CertificateDer<'_>) -> Result<ShardId, String> {
    let (_, certificate) = X509Certificate::from_der(leaf).map_err(|error| format!("it cannot be parsed: {error}"))?;
    let names = certificate
        .subject_alternative_name()
        .map_err(|error| format!("its subject alternative names cannot be parsed: {error}"))?;
    let names = names.map(|extension| extension.value.general_names.as_slice());
    let uris = names.unwrap_or_default().iter().filter_map(|name| match name {
        GeneralName::URI(uri) if is_ours(uri) => Some(*uri),
        _ => None,
    });
    match uris.collect::<Vec<_>>()[..] {
        [] => Err(format!("it has no `{SHARD}<id>` URI among its alternative names")),
        [uri] => uri
            .strip_prefix(SHARD)
            .and_then(|id| ShardId::new(id).ok())
            .ok_or_else(|| format!("`{uri}` is not of the form `{SHARD}<id>`")),
        ref many => Err(format!("it has {} `{SCHEME}` URIs, and may have one", many.len())),
    }
}

/// Schemes have no case, so `BigFleet://` is ours too, and then not of the right form.
fn is_ours(uri: &str) -> bool {
    uri.get(..SCHEME.len())
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn caller_of(names: &[SanType]) -> Caller {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.subject_alt_names = names.to_vec();
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        caller(Some(&[certificate.der().clone()]))
    }

    fn uri(text: &str) -> SanType {
        SanType::URI(text.try_into().unwrap())
    }

    fn refusal(names: &[SanType]) -> String {
        match caller_of(names) {
            Caller::Unidentified(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_shard_uri_names_the_shard() {
        let dns = SanType::DnsName("shard-7".try_into().unwrap());
        let other = uri("spiffe://cluster/ns/x");
        let names = [dns, other, uri("bigfleet://shard/eu-1/a")];
        assert_eq!(caller_of(&names), Caller::Shard(ShardId::new("eu-1/a").unwrap()));
    }

    #[test]
    fn no_uri_of_ours_names_nobody() {
        assert!(refusal(&[]).contains("no `bigfleet://shard/<id>`"));
        assert!(refusal(&[uri("https://shard/a")]).contains("no `bigfleet://shard/<id>`"));
    }

    #[test]
    fn two_uris_of_ours_name_nobody_even_when_equal() {
        let twice = [uri("bigfleet://shard/a"), uri("bigfleet://shard/a")];
        assert!(refusal(&twice).contains("2 `bigfleet://`"));
        let mixed = [uri("bigfleet://shard/a"), uri("BIGFLEET://operator/b")];
        assert!(refusal(&mixed).contains("2 `bigfleet://`"));
    }

    #[test]
    fn a_uri_of_another_form_names_nobody() {
        for text in ["bigfleet://shard/", "bigfleet://operator/a", "BigFleet://shard/a"] {
            assert!(refusal(&[uri(text)]).contains(text), "{text}");
        }
    }

    #[test]
    fn what_is_no_certificate_names_nobody() {
        let garbage = CertificateDer::from(vec![1, 2, 3]);
        assert!(matches!(caller(Some(&[garbage])), Caller::Unidentified(_)));
        assert!(matches!(caller(None), Caller::Unidentified(_)));
    }
}
