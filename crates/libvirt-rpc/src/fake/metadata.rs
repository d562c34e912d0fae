//! What is written on a domain: title, description, elements of others.

use super::{
    call::{Call, Refusal},
    event,
};
use crate::wire::{
    constant::{domain::DomainMetadataType, error::ErrorNumber},
    remote::{
        domain::{DomainGetMetadata, DomainGetMetadataRet, DomainSetMetadata},
        domain_event::DomainEventCallbackMetadataChangeMsg,
    },
    xdr::Text,
};

pub(super) fn answer(call: &mut Call<'_>) {
    call.on::<DomainGetMetadata>(|world, args| {
        let key = key(args.kind, args.uri.as_ref());
        let found = world.domain(&args.dom)?.metadata.get(&key).cloned();
        let missing = || {
            Refusal::new(
                ErrorNumber::ERR_NO_DOMAIN_METADATA,
                "metadata not found: Requested metadata element is not present",
            )
        };
        Ok(DomainGetMetadataRet {
            metadata: found.ok_or_else(missing)?.into(),
        })
    });
    call.on::<DomainSetMetadata>(|world, args| {
        let key = key(args.kind, args.uri.as_ref());
        let value = args.metadata.map(|text| {
            let text = text.into_string_lossy();
            match (&args.key, &args.uri) {
                (Some(prefix), Some(uri)) => namespaced(&text, &prefix.to_string_lossy(), &uri.to_string_lossy()),
                _ => text,
            }
        });
        let domain = world.domain_mut(&args.dom)?;
        match value {
            Some(value) => drop(domain.metadata.insert(key, value)),
            None => drop(domain.metadata.remove(&key)),
        }
        let dom = domain.to_ref();
        event::domain(world, &dom, |callback_id| DomainEventCallbackMetadataChangeMsg {
            callback_id,
            dom: dom.clone(),
            kind: args.kind,
            nsuri: args.uri.clone(),
        });
        Ok(())
    });
}

/// Sorts of metadata that are elements of their own.
pub(super) fn is_plain(key: &str) -> bool {
    key == "title" || key == "description"
}

fn key(kind: i32, uri: Option<&Text>) -> String {
    match DomainMetadataType(kind) {
        DomainMetadataType::TITLE => "title".to_owned(),
        DomainMetadataType::DESCRIPTION => "description".to_owned(),
        _ => uri.map(ToString::to_string).unwrap_or_default(),
    }
}

/// libvirt gives the element the prefix and namespace that were passed along with it.
fn namespaced(xml: &str, prefix: &str, uri: &str) -> String {
    let Some(name_end) = xml.find(|c: char| c.is_whitespace() || c == '/' || c == '>') else {
        return xml.to_owned();
    };
    let (open, rest) = xml.split_at(name_end);
    if open.contains(':') || rest.contains("xmlns") {
        return xml.to_owned();
    }
    let name = open.trim_start_matches('<');
    let rest = rest.replace(&format!("</{name}>"), &format!("</{prefix}:{name}>"));
    format!("<{prefix}:{name} xmlns:{prefix}=\"{uri}\"{rest}")
}
