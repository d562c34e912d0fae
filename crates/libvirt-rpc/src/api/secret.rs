//! Secrets: passphrases of disks and pools.

use super::calls;
use crate::wire::{
    constant::secret::SecretUsageType,
    remote::{
        record::SecretRef,
        secret::{
            SecretDefineXml, SecretDefineXmlArgs, SecretGetValue, SecretGetValueArgs, SecretGetXmlDesc,
            SecretGetXmlDescArgs, SecretLookupByUsage, SecretLookupByUsageArgs, SecretLookupByUuid,
            SecretLookupByUuidArgs, SecretSetValue, SecretSetValueArgs, SecretUndefine, SecretUndefineArgs,
        },
    },
    xdr::Uuid,
};

calls! {
    /// The secret of a UUID.
    secret_lookup_by_uuid(uuid: Uuid) -> SecretRef
        = SecretLookupByUuid (SecretLookupByUuidArgs { uuid }) => |r| r.secret;
    /// The secret that something uses.
    secret_lookup_by_usage(usage: SecretUsageType, id: &str) -> SecretRef
        = SecretLookupByUsage (SecretLookupByUsageArgs { usage_type: usage.0, usage_id: id.into() }) => |r| r.secret;
    /// Defines a secret without its value.
    secret_define(xml: &str) -> SecretRef
        = SecretDefineXml (SecretDefineXmlArgs { xml: xml.into(), flags: 0 }) => |r| r.secret;
    /// The description, without the value.
    secret_xml(secret: &SecretRef) -> String
        = SecretGetXmlDesc (SecretGetXmlDescArgs { secret: secret.clone(), flags: 0 }) => |r| r.xml.into_string_lossy();
    /// Sets the value.
    secret_set_value(secret: &SecretRef, value: &[u8])
        = SecretSetValue (SecretSetValueArgs { secret: secret.clone(), value: value.to_vec().into(), flags: 0 });
    /// The value, unless the secret is private.
    secret_value(secret: &SecretRef) -> Vec<u8>
        = SecretGetValue (SecretGetValueArgs { secret: secret.clone(), flags: 0 }) => |r| r.value.0;
    /// Forgets a secret.
    secret_undefine(secret: &SecretRef) = SecretUndefine (SecretUndefineArgs { secret: secret.clone() });
}
