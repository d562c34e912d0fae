//! Domains: finding and changing them.

use super::{
    call::Refusal,
    event,
    world::{Domain, World},
    xml::{Description, normalised},
};
use crate::wire::{
    constant::{
        domain::{
            DomainEventDefinedDetailType, DomainEventShutdownDetailType, DomainEventStartedDetailType,
            DomainEventStoppedDetailType, DomainEventType, DomainEventUndefinedDetailType, DomainRunningReason,
            DomainShutoffReason, DomainState,
        },
        error::ErrorNumber,
    },
    remote::record::DomainRef,
    xdr::Uuid,
};

impl World {
    pub(super) fn domain(&mut self, wanted: &DomainRef) -> Result<&mut Domain, Refusal> {
        self.domain_by(
            |d| d.uuid == wanted.uuid,
            &format!("no domain with matching uuid '{}' ({})", wanted.uuid, wanted.name),
        )
    }

    pub(super) fn domain_by(&mut self, is: impl Fn(&Domain) -> bool, missing: &str) -> Result<&mut Domain, Refusal> {
        let found = self.domains.iter_mut().find(|d| is(d));
        found.ok_or_else(|| Refusal::new(ErrorNumber::ERR_NO_DOMAIN, format!("Domain not found: {missing}")))
    }

    /// A domain that must be running.
    pub(super) fn running(&mut self, wanted: &DomainRef) -> Result<&mut Domain, Refusal> {
        let domain = self.domain(wanted)?;
        if domain.is_active() {
            return Ok(domain);
        }
        Err(Refusal::invalid(
            "Requested operation is not valid: domain is not running",
        ))
    }

    /// Defines a domain, or makes one that is gone when it stops.
    pub(super) fn define_domain(&mut self, xml: &str, persistent: bool) -> Result<Uuid, Refusal> {
        let description = Description::parse(xml, "domain")?;
        let name = description.name()?;
        let given = description.uuid()?;
        let known = self
            .domains
            .iter()
            .position(|d| d.name == name || Some(d.uuid) == given);
        if let Some(known) = known.and_then(|at| self.domains.get_mut(at)) {
            let same = known.name == name && given.is_none_or(|uuid| uuid == known.uuid);
            if !same || !persistent {
                let message = format!(
                    "operation failed: domain '{}' already exists with uuid {}",
                    known.name, known.uuid
                );
                let code = if persistent {
                    ErrorNumber::ERR_OPERATION_FAILED
                } else {
                    ErrorNumber::ERR_OPERATION_INVALID
                };
                return Err(Refusal::new(code, message));
            }
        }
        let uuid = match (given, &known) {
            (Some(uuid), _) => uuid,
            (None, Some(at)) => self.domains.get(*at).map_or_else(Uuid::default, |d| d.uuid),
            (None, None) => self.next_uuid(),
        };
        let fresh = Domain {
            xml: normalised(xml, "domain", uuid),
            metadata: description.metadata().into_iter().collect(),
            memory_kib: description.size(&["memory"], 1 << 10).unwrap_or(0) >> 10,
            vcpus: description.text(&["vcpu"]).and_then(|t| t.parse().ok()).unwrap_or(1),
            has_agent: description.has_agent(),
            name,
            uuid,
            id: -1,
            state: DomainState::SHUTOFF,
            reason: DomainShutoffReason::UNKNOWN.0,
            persistent,
            autostart: false,
            agent_up: false,
            guest: super::guest::State::default(),
        };
        let (dom, detail) = match known.and_then(|at| self.domains.get_mut(at)) {
            Some(known) => {
                known.xml = fresh.xml;
                known.metadata = fresh.metadata;
                known.memory_kib = fresh.memory_kib;
                known.vcpus = fresh.vcpus;
                known.has_agent = fresh.has_agent;
                known.persistent = true;
                (known.to_ref(), DomainEventDefinedDetailType::UPDATED)
            }
            None => {
                let dom = fresh.to_ref();
                self.domains.push(fresh);
                (dom, DomainEventDefinedDetailType::ADDED)
            }
        };
        if persistent {
            event::lifecycle(self, &dom, DomainEventType::DEFINED, detail.0);
        }
        Ok(uuid)
    }

    pub(super) fn start_domain(&mut self, uuid: Uuid, paused: bool) -> Result<DomainRef, Refusal> {
        let id = i32::try_from(self.next()).unwrap_or(1);
        let free = self.memory_kib.saturating_sub(self.used_kib());
        let domain = self.domain_by(|d| d.uuid == uuid, "it is gone")?;
        if domain.is_active() {
            return Err(Refusal::invalid(
                "Requested operation is not valid: domain is already running",
            ));
        }
        if domain.memory_kib > free {
            let message = "internal error: process exited while connecting to monitor: cannot set up guest memory: Cannot allocate memory";
            return Err(Refusal::new(ErrorNumber::ERR_INTERNAL_ERROR, message));
        }
        domain.id = id;
        (domain.state, domain.reason) = if paused {
            (DomainState::PAUSED, 1)
        } else {
            (DomainState::RUNNING, DomainRunningReason::BOOTED.0)
        };
        let dom = domain.to_ref();
        event::lifecycle(
            self,
            &dom,
            DomainEventType::STARTED,
            DomainEventStartedDetailType::BOOTED.0,
        );
        if !paused {
            super::guest::boot(self, uuid);
        }
        Ok(dom)
    }

    /// Stops a running domain; one without definition is gone.
    pub(super) fn stop_domain(&mut self, wanted: &DomainRef, reason: DomainShutoffReason) -> Result<(), Refusal> {
        let domain = self.running(wanted)?;
        let was = domain.to_ref();
        domain.stop(reason);
        let detail = match reason {
            DomainShutoffReason::DESTROYED => DomainEventStoppedDetailType::DESTROYED,
            DomainShutoffReason::CRASHED => DomainEventStoppedDetailType::CRASHED,
            _ => DomainEventStoppedDetailType::SHUTDOWN,
        };
        if reason == DomainShutoffReason::SHUTDOWN {
            event::lifecycle(
                self,
                &was,
                DomainEventType::SHUTDOWN,
                DomainEventShutdownDetailType::GUEST.0,
            );
        }
        event::lifecycle(self, &was, DomainEventType::STOPPED, detail.0);
        self.domains.retain(|d| d.persistent || d.is_active());
        Ok(())
    }

    pub(super) fn undefine_domain(&mut self, wanted: &DomainRef) -> Result<(), Refusal> {
        let domain = self.domain(wanted)?;
        if !domain.persistent {
            return Err(Refusal::invalid(
                "Requested operation is not valid: cannot undefine transient domain",
            ));
        }
        domain.persistent = false;
        let dom = domain.to_ref();
        self.domains.retain(|d| d.persistent || d.is_active());
        event::lifecycle(
            self,
            &dom,
            DomainEventType::UNDEFINED,
            DomainEventUndefinedDetailType::REMOVED.0,
        );
        Ok(())
    }

    pub(super) fn crash(&mut self, name: &str) {
        if let Some(dom) = self.domains.iter().find(|d| d.name == name).map(Domain::to_ref) {
            drop(self.stop_domain(&dom, DomainShutoffReason::CRASHED));
        }
    }
}

impl Domain {
    /// The description as the daemon shows it.
    pub(super) fn description(&self) -> String {
        let mut out = self.xml.clone();
        let custom: String = self
            .metadata
            .iter()
            .filter(|(key, _)| !is_plain(key))
            .map(|(_, xml)| xml.as_str())
            .collect();
        if !custom.is_empty()
            && let Some(at) = out.rfind("</domain>")
        {
            out.insert_str(at, &format!("<metadata>{custom}</metadata>"));
        }
        if self.is_active() {
            out = out.replacen("<domain ", &format!("<domain id='{}' ", self.id), 1);
            if self.has_agent {
                let state = if self.agent_up { "connected" } else { "disconnected" };
                let live = format!("name='org.qemu.guest_agent.0' state='{state}'");
                out = out.replacen("name='org.qemu.guest_agent.0'", &live, 1);
                out = out.replacen("name=\"org.qemu.guest_agent.0\"", &live, 1);
            }
        }
        out
    }
}

/// Sorts of metadata that are elements of their own.
pub(super) fn is_plain(key: &str) -> bool {
    key == "title" || key == "description"
}
