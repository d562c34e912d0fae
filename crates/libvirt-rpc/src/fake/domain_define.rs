//! Domains: defining them, and forgetting them.

use super::{
    call::{Call, Refusal},
    domain::Domain,
    event, guest,
    hardware::Hardware,
    world::World,
    xml::{Description, child, rewritten},
};
use crate::wire::{
    constant::{
        domain::{
            DomainEventDefinedDetailType, DomainEventType, DomainEventUndefinedDetailType, DomainShutoffReason,
            DomainState, DomainUndefineFlags as Flags,
        },
        error::ErrorNumber,
    },
    remote::{
        domain::{
            DomainDefineXml, DomainDefineXmlFlags, DomainDefineXmlFlagsRet, DomainDefineXmlRet, DomainUndefine,
            DomainUndefineFlags,
        },
        record::DomainRef,
    },
};

/// Since when undefining knows which flags.
const UNDEFINE_FLAGS: [(u64, Flags); 7] = [
    (9_004, Flags::MANAGED_SAVE),
    (9_005, Flags::SNAPSHOTS_METADATA),
    (1_002_009, Flags::NVRAM),
    (2_003_000, Flags::KEEP_NVRAM),
    (5_006_000, Flags::CHECKPOINTS_METADATA),
    (8_009_000, Flags::TPM),
    (8_009_000, Flags::KEEP_TPM),
];

pub(super) fn answer(call: &mut Call<'_>) {
    call.on::<DomainDefineXmlFlags>(|world, args| {
        let dom = world.define_domain(&args.xml.to_string_lossy(), true)?;
        Ok(DomainDefineXmlFlagsRet { dom })
    });
    call.on::<DomainDefineXml>(|world, args| {
        let dom = world.define_domain(&args.xml.to_string_lossy(), true)?;
        Ok(DomainDefineXmlRet { dom })
    });
    call.on::<DomainUndefineFlags>(|world, args| {
        let known = UNDEFINE_FLAGS.iter().filter(|(since, _)| world.host.version >= *since);
        let unknown = known.fold(args.flags, |rest, (_, flag)| rest & !flag.bits());
        if unknown != 0 {
            let message = format!("unsupported flags (0x{unknown:x}) in function qemuDomainUndefineFlags");
            return Err(Refusal::argument(message));
        }
        world.undefine_domain(&args.dom, Flags(args.flags))
    });
    call.on::<DomainUndefine>(|world, args| world.undefine_domain(&args.dom, Flags::empty()));
}

impl World {
    /// Defines a domain, or makes one that is gone when it stops.
    pub(super) fn define_domain(&mut self, xml: &str, persistent: bool) -> Result<DomainRef, Refusal> {
        let description = Description::parse(xml, "domain")?;
        let name = description.name()?;
        let given = description.uuid()?;
        let known = given.and_then(|uuid| self.domains.find(&uuid));
        let known = known.or_else(|| self.domains.named(&name));
        if let Some(known) = known {
            let same = known.name == name && given.is_none_or(|uuid| uuid == known.uuid);
            if !same {
                let message = format!("domain '{}' already exists with uuid {}", known.name, known.uuid);
                return Err(Refusal::new(
                    ErrorNumber::ERR_OPERATION_FAILED,
                    format!("operation failed: {message}"),
                ));
            }
            if !persistent {
                let message = format!("domain '{}' is already active", known.name);
                let message = format!("Requested operation is not valid: {message}");
                return Err(Refusal::invalid(message));
            }
        }
        let known = known.map(|known| known.uuid);
        let uuid = given.or(known).unwrap_or_else(|| self.next_uuid());
        let metadata = description.metadata().into_iter().collect();
        let xml = rewritten(xml, uuid, |node| {
            let lacks = node.has_tag_name("interface") && child(node, "mac").is_none();
            lacks.then(|| format!("<mac address='{}'/>", mac(self.next())))
        });
        let hardware = Hardware::read(&Description::parse(&xml, "domain")?);
        let (dom, detail) = match self.domains.find_mut(&uuid) {
            Some(known) => {
                known.xml = xml;
                known.metadata = metadata;
                known.hardware = hardware;
                known.persistent = true;
                (known.to_ref(), DomainEventDefinedDetailType::UPDATED)
            }
            None => {
                let fresh = Domain {
                    name,
                    uuid,
                    id: -1,
                    xml,
                    hardware,
                    metadata,
                    state: DomainState::SHUTOFF,
                    reason: DomainShutoffReason::UNKNOWN.0,
                    persistent,
                    autostart: false,
                    has_nvram: false,
                    saved: None,
                    snapshots: Vec::new(),
                    checkpoints: Vec::new(),
                    disk_errors: Default::default(),
                    guest: guest::State::default(),
                };
                let dom = fresh.to_ref();
                self.domains.push(fresh);
                (dom, DomainEventDefinedDetailType::ADDED)
            }
        };
        if persistent {
            event::lifecycle(self, &dom, DomainEventType::DEFINED, detail.0);
        }
        Ok(dom)
    }

    fn undefine_domain(&mut self, wanted: &DomainRef, flags: Flags) -> Result<(), Refusal> {
        let domain = self.domain_mut(wanted)?;
        domain.refuse_to_forget(flags)?;
        domain.persistent = false;
        domain.saved = None;
        domain.snapshots.clear();
        domain.checkpoints.clear();
        domain.has_nvram &= !flags.contains(Flags::NVRAM);
        let (dom, active) = (domain.to_ref(), domain.is_active());
        if !active {
            self.domains.remove(&dom.uuid);
        }
        let detail = DomainEventUndefinedDetailType::REMOVED.0;
        event::lifecycle(self, &dom, DomainEventType::UNDEFINED, detail);
        Ok(())
    }
}

impl Domain {
    /// What undefining would lose without having been told to.
    fn refuse_to_forget(&self, flags: Flags) -> Result<(), Refusal> {
        let refuse = |what: String| Err(Refusal::invalid(format!("Requested operation is not valid: {what}")));
        if !self.persistent {
            return refuse("cannot undefine transient domain".to_owned());
        }
        let inactive = !self.is_active();
        if inactive && !self.snapshots.is_empty() && !flags.contains(Flags::SNAPSHOTS_METADATA) {
            let count = self.snapshots.len();
            return refuse(format!("cannot delete inactive domain with {count} snapshots"));
        }
        if inactive && !self.checkpoints.is_empty() && !flags.contains(Flags::CHECKPOINTS_METADATA) {
            let count = self.checkpoints.len();
            return refuse(format!("cannot delete inactive domain with {count} checkpoints"));
        }
        if self.saved.is_some() && !flags.contains(Flags::MANAGED_SAVE) {
            return refuse("Refusing to undefine while domain managed save image exists".to_owned());
        }
        if self.has_nvram && !flags.contains(Flags::NVRAM) && !flags.contains(Flags::KEEP_NVRAM) {
            return refuse("cannot undefine domain with nvram".to_owned());
        }
        Ok(())
    }
}

/// An address of QEMU's range.
fn mac(number: u64) -> String {
    let [.., a, b, c] = number.to_be_bytes();
    format!("52:54:00:{a:02x}:{b:02x}:{c:02x}")
}
