//! Who wants to know what.

use std::collections::HashMap;

use tokio::sync::mpsc;

use super::{
    call::{Call, Refusal},
    transfer::Flow,
    world::World,
};
use crate::event::{Class, Topic};
use crate::wire::{
    constant::{
        domain::{DomainEventID, DomainEventType},
        error::ErrorNumber,
        network::NetworkEventID,
        storage::StoragePoolEventID,
    },
    frame::{self, Header},
    procedure::EventMessage,
    remote::{
        connect::{
            ConnectDomainEventCallbackDeregisterAny, ConnectDomainEventCallbackRegisterAny,
            ConnectDomainEventCallbackRegisterAnyRet, ConnectNetworkEventDeregisterAny, ConnectNetworkEventRegisterAny,
            ConnectNetworkEventRegisterAnyRet, ConnectStoragePoolEventDeregisterAny,
            ConnectStoragePoolEventRegisterAny, ConnectStoragePoolEventRegisterAnyRet,
        },
        domain_event::{DomainEventCallbackLifecycleMsg, DomainEventLifecycleMsg},
        network::NetworkEventLifecycleMsg,
        record::{DomainRef, NetworkRef, StoragePoolRef},
        storage_pool::StoragePoolEventLifecycleMsg,
    },
    xdr::Uuid,
};

/// A connected client.
#[derive(Debug)]
pub(super) struct Client {
    /// Closing it ends the connection.
    pub(super) outgoing: mpsc::UnboundedSender<Vec<u8>>,
    pub(super) flows: HashMap<u32, Flow>,
    callbacks: Vec<Callback>,
    next: [i32; 3],
}

#[derive(Debug)]
struct Callback {
    id: i32,
    class: Class,
    event: i32,
    of: Option<Uuid>,
}

impl Client {
    pub(super) fn new(outgoing: mpsc::UnboundedSender<Vec<u8>>) -> Self {
        Self {
            outgoing,
            flows: HashMap::new(),
            callbacks: Vec::new(),
            next: [0; 3],
        }
    }

    fn register(&mut self, class: Class, event: i32, of: Option<Uuid>, last: i32) -> Result<i32, Refusal> {
        if !(0..=last).contains(&event) {
            return Err(Refusal::new(
                ErrorNumber::ERR_INTERNAL_ERROR,
                format!("internal error: unsupported event ID {event}"),
            ));
        }
        // Each class counts by itself, as in real daemons.
        let place = match class {
            Class::Domain => 0,
            Class::Network => 1,
            _ => 2,
        };
        let next = self
            .next
            .get_mut(place)
            .ok_or_else(|| Refusal::invalid("no such class"))?;
        let id = *next;
        *next += 1;
        self.callbacks.push(Callback { id, class, event, of });
        Ok(id)
    }

    fn deregister(&mut self, class: Class, id: i32) -> Result<(), Refusal> {
        let before = self.callbacks.len();
        self.callbacks.retain(|c| (c.class, c.id) != (class, id));
        if self.callbacks.len() == before {
            return Err(Refusal::new(
                ErrorNumber::ERR_INVALID_ARG,
                format!("invalid argument: event callback {id} not registered"),
            ));
        }
        Ok(())
    }
}

fn client(world: &mut World, id: u64) -> Result<&mut Client, Refusal> {
    world
        .sessions
        .get_mut(&id)
        .ok_or_else(|| Refusal::invalid("connection not open"))
}

pub(super) fn answer(call: &mut Call<'_>) {
    call.on_client::<ConnectDomainEventCallbackRegisterAny>(|world, id, args| {
        let of = args.dom.map(|d| d.uuid);
        let last = DomainEventID::NIC_MAC_CHANGE.0;
        let callback_id = client(world, id)?.register(Class::Domain, args.event_id, of, last)?;
        Ok(ConnectDomainEventCallbackRegisterAnyRet { callback_id })
    });
    call.on_client::<ConnectDomainEventCallbackDeregisterAny>(|world, id, args| {
        client(world, id)?.deregister(Class::Domain, args.callback_id)
    });
    call.on_client::<ConnectNetworkEventRegisterAny>(|world, id, args| {
        let of = args.net.map(|n| n.uuid);
        let last = NetworkEventID::METADATA_CHANGE.0;
        let callback_id = client(world, id)?.register(Class::Network, args.event_id, of, last)?;
        Ok(ConnectNetworkEventRegisterAnyRet { callback_id })
    });
    call.on_client::<ConnectNetworkEventDeregisterAny>(|world, id, args| {
        client(world, id)?.deregister(Class::Network, args.callback_id)
    });
    call.on_client::<ConnectStoragePoolEventRegisterAny>(|world, id, args| {
        let of = args.pool.map(|p| p.uuid);
        let last = StoragePoolEventID::REFRESH.0;
        let callback_id = client(world, id)?.register(Class::StoragePool, args.event_id, of, last)?;
        Ok(ConnectStoragePoolEventRegisterAnyRet { callback_id })
    });
    call.on_client::<ConnectStoragePoolEventDeregisterAny>(|world, id, args| {
        client(world, id)?.deregister(Class::StoragePool, args.callback_id)
    });
}

/// Tells everybody who asked.
fn tell<T: Topic>(world: &World, of: Uuid, message: impl Fn(i32) -> T) {
    for client in world.sessions.values() {
        for callback in &client.callbacks {
            let wanted =
                (callback.class, callback.event) == (T::CLASS, T::ID) && callback.of.is_none_or(|uuid| uuid == of);
            if !wanted {
                continue;
            }
            // Real daemons number their events 1, whatever the documentation says.
            let header = Header {
                serial: 1,
                ..Header::event(&<T as EventMessage>::INFO)
            };
            if let Ok(frame) = frame::message(&header, &message(callback.id)) {
                drop(client.outgoing.send(frame));
            }
        }
    }
}

/// An event of a domain.
pub(super) fn domain<T: Topic>(world: &World, dom: &DomainRef, message: impl Fn(i32) -> T) {
    tell(world, dom.uuid, message);
}

pub(super) fn lifecycle(world: &World, dom: &DomainRef, event: DomainEventType, detail: i32) {
    tell(world, dom.uuid, |callback_id| DomainEventCallbackLifecycleMsg {
        callback_id,
        msg: DomainEventLifecycleMsg {
            dom: dom.clone(),
            event: event.0,
            detail,
        },
    });
}

pub(super) fn network(world: &World, net: &NetworkRef, event: i32) {
    tell(world, net.uuid, |callback_id| NetworkEventLifecycleMsg {
        callback_id,
        net: net.clone(),
        event,
        detail: 0,
    });
}

pub(super) fn pool(world: &World, pool: &StoragePoolRef, event: i32) {
    tell(world, pool.uuid, |callback_id| StoragePoolEventLifecycleMsg {
        callback_id,
        pool: pool.clone(),
        event,
        detail: 0,
    });
}
