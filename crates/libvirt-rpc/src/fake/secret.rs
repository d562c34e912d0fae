//! Calls about secrets.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    call::{Call, Refusal},
    event, saved,
    table::Entry,
    world::World,
    xml::{Description, escaped},
};
use crate::wire::{
    constant::{
        error::ErrorNumber,
        secret::{ConnectListAllSecretsFlags as Flags, SecretEventLifecycleType as Event, SecretUsageType},
    },
    remote::{
        connect::{
            ConnectListAllSecrets, ConnectListAllSecretsRet, ConnectListSecrets, ConnectListSecretsRet,
            ConnectNumOfSecrets, ConnectNumOfSecretsRet,
        },
        record::SecretRef,
        secret::{
            SecretDefineXml, SecretDefineXmlRet, SecretGetValue, SecretGetValueRet, SecretGetXmlDesc,
            SecretGetXmlDescRet, SecretLookupByUsage, SecretLookupByUsageRet, SecretLookupByUuid,
            SecretLookupByUuidRet, SecretSetValue, SecretUndefine,
        },
    },
    xdr::{Opaque, Uuid},
};

/// Sorts of use: their number, the element that names what uses them.
const USAGES: [(SecretUsageType, &str, &str); 6] = [
    (SecretUsageType::NONE, "none", ""),
    (SecretUsageType::VOLUME, "volume", "volume"),
    (SecretUsageType::CEPH, "ceph", "name"),
    (SecretUsageType::ISCSI, "iscsi", "target"),
    (SecretUsageType::TLS, "tls", "name"),
    (SecretUsageType::VTPM, "vtpm", "name"),
];

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Secret {
    /// The UUID as text, which is all the name it has.
    name: String,
    #[serde(with = "saved::text")]
    uuid: Uuid,
    usage: i32,
    usage_id: String,
    description: String,
    ephemeral: bool,
    private: bool,
    has_value: bool,
    #[serde(with = "saved::bytes")]
    value: Arc<Vec<u8>>,
}

impl Entry for Secret {
    type Id = Uuid;

    fn name(&self) -> &str {
        &self.name
    }

    fn id(&self) -> Uuid {
        self.uuid
    }
}

impl Secret {
    fn to_ref(&self) -> SecretRef {
        SecretRef {
            uuid: self.uuid,
            usage_type: self.usage,
            usage_id: self.usage_id.as_str().into(),
        }
    }

    fn xml(&self) -> String {
        let yes = |is: bool| if is { "yes" } else { "no" };
        let usage = USAGES.iter().find(|(number, _, _)| number.0 == self.usage);
        let usage = usage.filter(|(_, _, element)| !element.is_empty());
        let usage = usage.map_or_else(String::new, |(_, kind, element)| {
            let id = escaped(&self.usage_id);
            format!("<usage type='{kind}'><{element}>{id}</{element}></usage>")
        });
        let description = escaped(&self.description);
        let description = match description.is_empty() {
            true => String::new(),
            false => format!("<description>{description}</description>"),
        };
        format!(
            "<secret ephemeral='{}' private='{}'><uuid>{}</uuid>{description}{usage}</secret>",
            yes(self.ephemeral),
            yes(self.private),
            self.uuid
        )
    }
}

fn absent(which: impl std::fmt::Display) -> Refusal {
    let message = format!("Secret not found: no secret with matching {which}");
    Refusal::new(ErrorNumber::ERR_NO_SECRET, message)
}

impl World {
    fn secret(&self, wanted: &SecretRef) -> Result<&Secret, Refusal> {
        let missing = || absent(format!("uuid '{}'", wanted.uuid));
        self.secrets.find(&wanted.uuid).ok_or_else(missing)
    }

    fn define_secret(&mut self, xml: &str) -> Result<SecretRef, Refusal> {
        let description = Description::parse(xml, "secret")?;
        let given = description.uuid()?;
        let kind = description
            .element(&["usage"])
            .and_then(|u| u.attribute("type"))
            .unwrap_or("none");
        let usage = USAGES.iter().find(|(_, name, _)| *name == kind).ok_or_else(|| {
            let message = format!("XML error: unknown secret usage type {kind}");
            Refusal::new(ErrorNumber::ERR_XML_ERROR, message)
        })?;
        let usage_id = description.text(&["usage", usage.2]).unwrap_or_default().to_owned();
        let same_use = |s: &&Secret| s.usage == usage.0.0 && s.usage != 0 && s.usage_id == usage_id;
        let used = self.secrets.iter().find(same_use);
        if let Some(used) = used.filter(|used| given != Some(used.uuid)) {
            let uuid = used.uuid;
            return Err(Refusal::internal(format!(
                "a secret with UUID {uuid} already defined for use with {usage_id}"
            )));
        }
        let uuid = given.unwrap_or_else(|| self.next_uuid());
        let yes = |name: &str| description.root().attribute(name) == Some("yes");
        let known = self.secrets.remove(&uuid);
        let (has_value, value) = known.map_or_else(Default::default, |known| (known.has_value, known.value));
        let secret = Secret {
            name: uuid.to_string(),
            uuid,
            usage: usage.0.0,
            usage_id,
            description: description.text(&["description"]).unwrap_or_default().to_owned(),
            ephemeral: yes("ephemeral"),
            private: yes("private"),
            has_value,
            value,
        };
        let of = secret.to_ref();
        self.secrets.push(secret);
        event::secret(self, &of, Event::DEFINED.0);
        Ok(of)
    }
}

pub(super) fn answer(call: &mut Call<'_>) {
    find(call);
    call.on::<SecretDefineXml>(|world, args| {
        let secret = world.define_secret(&args.xml.to_string_lossy())?;
        Ok(SecretDefineXmlRet { secret })
    });
    call.on::<SecretUndefine>(|world, args| {
        world.secret(&args.secret)?;
        world.secrets.remove(&args.secret.uuid);
        event::secret(world, &args.secret, Event::UNDEFINED.0);
        Ok(())
    });
    call.on::<SecretGetXmlDesc>(|world, args| {
        world
            .secret(&args.secret)
            .map(|s| SecretGetXmlDescRet { xml: s.xml().into() })
    });
    call.on::<SecretSetValue>(|world, args| {
        world.secret(&args.secret)?;
        let missing = || absent("uuid");
        let secret = world.secrets.find_mut(&args.secret.uuid).ok_or_else(missing)?;
        secret.has_value = true;
        secret.value = Arc::new(args.value.0);
        event::secret_value(world, &args.secret);
        Ok(())
    });
    call.on::<SecretGetValue>(|world, args| {
        let secret = world.secret(&args.secret)?;
        if secret.private {
            let message = "Invalid secret: secret is private";
            return Err(Refusal::new(ErrorNumber::ERR_INVALID_SECRET, message));
        }
        if !secret.has_value {
            let message = format!("Secret not found: secret '{}' does not have a value", secret.uuid);
            return Err(Refusal::new(ErrorNumber::ERR_NO_SECRET, message));
        }
        Ok(SecretGetValueRet {
            value: Opaque(secret.value.to_vec()),
        })
    });
}

fn find(call: &mut Call<'_>) {
    call.on::<ConnectListAllSecrets>(|world, args| {
        let flags = Flags(args.flags);
        let pair = |yes: Flags, no: Flags, is: bool| {
            (!flags.contains(yes) && !flags.contains(no)) || flags.contains(if is { yes } else { no })
        };
        let fits = |s: &&Secret| {
            pair(Flags::EPHEMERAL, Flags::NO_EPHEMERAL, s.ephemeral)
                && pair(Flags::PRIVATE, Flags::NO_PRIVATE, s.private)
        };
        let secrets: Vec<_> = world.secrets.iter().filter(fits).map(Secret::to_ref).collect();
        Ok(ConnectListAllSecretsRet {
            ret: u32::try_from(secrets.len()).unwrap_or(u32::MAX),
            secrets,
        })
    });
    call.on::<ConnectNumOfSecrets>(|world, ()| {
        let num = i32::try_from(world.secrets.len()).unwrap_or(i32::MAX);
        Ok(ConnectNumOfSecretsRet { num })
    });
    call.on::<ConnectListSecrets>(|world, args| {
        let room = usize::try_from(args.maxuuids).unwrap_or(0);
        let uuids = world
            .secrets
            .iter()
            .take(room)
            .map(|s| s.name.as_str().into())
            .collect();
        Ok(ConnectListSecretsRet { uuids })
    });
    call.on::<SecretLookupByUuid>(|world, args| {
        let found = world.secrets.find(&args.uuid);
        let found = found.map(|s| SecretLookupByUuidRet { secret: s.to_ref() });
        found.ok_or_else(|| absent(format!("uuid '{}'", args.uuid)))
    });
    call.on::<SecretLookupByUsage>(|world, args| {
        let is = |s: &&Secret| s.usage == args.usage_type && args.usage_id == *s.usage_id;
        let found = world.secrets.iter().find(is);
        let found = found.map(|s| SecretLookupByUsageRet { secret: s.to_ref() });
        found.ok_or_else(|| absent(format!("usage '{}'", args.usage_id)))
    });
}
