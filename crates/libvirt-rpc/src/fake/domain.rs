//! A domain: what it is, and how the daemon describes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    call::Refusal, guest, hardware::Hardware, metadata, moment::Moment, saved, table::Entry, world::World, xml::escaped,
};
use crate::wire::{
    constant::{
        domain::{DomainShutoffReason, DomainState},
        error::ErrorNumber,
    },
    remote::record::DomainRef,
    xdr::Uuid,
};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Domain {
    pub(super) name: String,
    #[serde(with = "saved::text")]
    pub(super) uuid: Uuid,
    pub(super) id: i32,
    pub(super) xml: String,
    pub(super) hardware: Hardware,
    /// By namespace, or by the name of the plain sorts.
    pub(super) metadata: BTreeMap<String, String>,
    #[serde(with = "saved::number")]
    pub(super) state: DomainState,
    pub(super) reason: i32,
    pub(super) persistent: bool,
    pub(super) autostart: bool,
    /// Whether the firmware has a file for its variables, which it has from the first start on.
    pub(super) has_nvram: bool,
    /// What a managed save keeps.
    pub(super) saved: Option<guest::State>,
    pub(super) snapshots: Vec<Moment>,
    pub(super) checkpoints: Vec<Moment>,
    /// By the disk's target.
    pub(super) disk_errors: BTreeMap<String, i32>,
    pub(super) guest: guest::State,
}

impl Entry for Domain {
    type Id = Uuid;

    fn name(&self) -> &str {
        &self.name
    }

    fn id(&self) -> Uuid {
        self.uuid
    }
}

impl World {
    pub(super) fn domain(&self, wanted: &DomainRef) -> Result<&Domain, Refusal> {
        self.domains.find(&wanted.uuid).ok_or_else(|| unknown(wanted))
    }

    pub(super) fn domain_mut(&mut self, wanted: &DomainRef) -> Result<&mut Domain, Refusal> {
        self.domains.find_mut(&wanted.uuid).ok_or_else(|| unknown(wanted))
    }

    /// A domain that must be running.
    pub(super) fn running(&self, wanted: &DomainRef) -> Result<&Domain, Refusal> {
        let domain = self.domain(wanted)?;
        domain.check_running().map(|()| domain)
    }

    /// The same, to change it.
    pub(super) fn running_mut(&mut self, wanted: &DomainRef) -> Result<&mut Domain, Refusal> {
        let domain = self.domain_mut(wanted)?;
        domain.check_running().map(|()| domain)
    }
}

fn unknown(wanted: &DomainRef) -> Refusal {
    absent(format!(
        "no domain with matching uuid '{}' ({})",
        wanted.uuid, wanted.name
    ))
}

/// A domain that is not there.
pub(super) fn absent(missing: impl std::fmt::Display) -> Refusal {
    Refusal::new(ErrorNumber::ERR_NO_DOMAIN, format!("Domain not found: {missing}"))
}

impl Domain {
    pub(super) fn is_active(&self) -> bool {
        self.id >= 0
    }

    fn check_running(&self) -> Result<(), Refusal> {
        if self.is_active() {
            return Ok(());
        }
        Err(Refusal::invalid(
            "Requested operation is not valid: domain is not running",
        ))
    }

    pub(super) fn stop(&mut self, reason: DomainShutoffReason) {
        if self.is_active() {
            self.id = -1;
            self.state = DomainState::SHUTOFF;
            self.reason = reason.0;
            self.disk_errors.clear();
            self.guest = guest::State::default();
        }
    }

    pub(super) fn to_ref(&self) -> DomainRef {
        DomainRef {
            name: self.name.as_str().into(),
            uuid: self.uuid,
            id: self.id,
        }
    }

    /// The description as the daemon shows it; an active domain's has more in it, unless it is asked for the other.
    pub(super) fn description(&self, inactive: bool) -> String {
        let mut out = self.xml.clone();
        let custom: String = self
            .metadata
            .iter()
            .filter(|(key, _)| !metadata::is_plain(key))
            .map(|(_, xml)| xml.as_str())
            .collect();
        if !custom.is_empty()
            && let Some(at) = out.rfind("</domain>")
        {
            out.insert_str(at, &format!("<metadata>{custom}</metadata>"));
        }
        let plain: String = ["title", "description"]
            .into_iter()
            .filter_map(|name| Some((name, self.metadata.get(name)?)))
            .map(|(name, text)| format!("<{name}>{}</{name}>", escaped(text)))
            .collect();
        if let Some(at) = out.find("</uuid>") {
            out.insert_str(at + "</uuid>".len(), &plain);
        }
        if self.is_active() && !inactive {
            out = out.replacen("<domain ", &format!("<domain id='{}' ", self.id), 1);
            if self.hardware.has_agent {
                let state = if self.guest.agent_up {
                    "connected"
                } else {
                    "disconnected"
                };
                let live = format!("name='org.qemu.guest_agent.0' state='{state}'");
                out = out.replacen("name='org.qemu.guest_agent.0'", &live, 1);
                out = out.replacen("name=\"org.qemu.guest_agent.0\"", &live, 1);
            }
        }
        out
    }
}
