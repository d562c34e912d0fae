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
        nodedev::NodeDeviceEventID,
        secret::SecretEventID,
        storage::StoragePoolEventID,
    },
    frame::{self, Header},
    procedure::EventMessage,
    remote::{
        connect::{
            ConnectDomainEventCallbackDeregisterAny, ConnectDomainEventCallbackRegisterAny,
            ConnectDomainEventCallbackRegisterAnyRet, ConnectNetworkEventDeregisterAny, ConnectNetworkEventRegisterAny,
            ConnectNetworkEventRegisterAnyRet, ConnectNodeDeviceEventDeregisterAny, ConnectNodeDeviceEventRegisterAny,
            ConnectNodeDeviceEventRegisterAnyRet, ConnectRegisterCloseCallback, ConnectSecretEventDeregisterAny,
            ConnectSecretEventRegisterAny, ConnectSecretEventRegisterAnyRet, ConnectStoragePoolEventDeregisterAny,
            ConnectStoragePoolEventRegisterAny, ConnectStoragePoolEventRegisterAnyRet, ConnectUnregisterCloseCallback,
        },
        domain_event::{DomainEventCallbackLifecycleMsg, DomainEventLifecycleMsg},
        network::NetworkEventLifecycleMsg,
        node_device::NodeDeviceEventLifecycleMsg,
        record::{DomainRef, NetworkRef, NodeDeviceRef, SecretRef, StoragePoolRef},
        secret::{SecretEventLifecycleMsg, SecretEventValueChangedMsg},
        storage_pool::{StoragePoolEventLifecycleMsg, StoragePoolEventRefreshMsg},
    },
};

/// A connected client.
#[derive(Debug)]
pub(super) struct Client {
    /// Closing it ends the connection.
    pub(super) outgoing: mpsc::UnboundedSender<Vec<u8>>,
    pub(super) flows: HashMap<u32, Flow>,
    callbacks: Vec<Callback>,
    next: HashMap<Class, i32>,
}

#[derive(Debug)]
struct Callback {
    id: i32,
    class: Class,
    event: i32,
    of: Option<String>,
}

impl Client {
    pub(super) fn new(outgoing: mpsc::UnboundedSender<Vec<u8>>) -> Self {
        Self {
            outgoing,
            flows: HashMap::new(),
            callbacks: Vec::new(),
            next: HashMap::new(),
        }
    }

    fn register(&mut self, class: Class, event: i32, of: Option<String>, last: i32) -> Result<i32, Refusal> {
        if !(0..=last).contains(&event) {
            return Err(Refusal::new(
                ErrorNumber::ERR_INTERNAL_ERROR,
                format!("internal error: unsupported event ID {event}"),
            ));
        }
        let tracked = |c: &Callback| (c.class, c.event, &c.of) == (class, event, &of);
        if self.callbacks.iter().any(tracked) {
            return Err(Refusal::new(
                ErrorNumber::ERR_INTERNAL_ERROR,
                "internal error: event callback already tracked",
            ));
        }
        // Each class counts by itself, as in real daemons.
        let next = self.next.entry(class).or_default();
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

/// How one class of objects is asked for its events: the calls, the argument that narrows, the last event there is.
macro_rules! registration {
    ($call:ident, $class:ident, $register:ident, $ret:ident, $field:ident . $id:ident, $deregister:ident, $last:expr) => {
        $call.on_client::<$register>(|world, id, args| {
            let of = args.$field.map(|of| of.$id.to_string());
            let callback_id = client(world, id)?.register(Class::$class, args.event_id, of, $last.0)?;
            Ok($ret { callback_id })
        });
        $call
            .on_client::<$deregister>(|world, id, args| client(world, id)?.deregister(Class::$class, args.callback_id));
    };
}

pub(super) fn answer(call: &mut Call<'_>) {
    registration!(
        call,
        Domain,
        ConnectDomainEventCallbackRegisterAny,
        ConnectDomainEventCallbackRegisterAnyRet,
        dom.uuid,
        ConnectDomainEventCallbackDeregisterAny,
        DomainEventID::NIC_MAC_CHANGE
    );
    registration!(
        call,
        Network,
        ConnectNetworkEventRegisterAny,
        ConnectNetworkEventRegisterAnyRet,
        net.uuid,
        ConnectNetworkEventDeregisterAny,
        NetworkEventID::METADATA_CHANGE
    );
    registration!(
        call,
        StoragePool,
        ConnectStoragePoolEventRegisterAny,
        ConnectStoragePoolEventRegisterAnyRet,
        pool.uuid,
        ConnectStoragePoolEventDeregisterAny,
        StoragePoolEventID::REFRESH
    );
    registration!(
        call,
        NodeDevice,
        ConnectNodeDeviceEventRegisterAny,
        ConnectNodeDeviceEventRegisterAnyRet,
        dev.name,
        ConnectNodeDeviceEventDeregisterAny,
        NodeDeviceEventID::UPDATE
    );
    registration!(
        call,
        Secret,
        ConnectSecretEventRegisterAny,
        ConnectSecretEventRegisterAnyRet,
        secret.uuid,
        ConnectSecretEventDeregisterAny,
        SecretEventID::VALUE_CHANGED
    );
    call.on::<ConnectRegisterCloseCallback>(|_, ()| Ok(()));
    call.on::<ConnectUnregisterCloseCallback>(|_, ()| Ok(()));
}

/// Tells everybody who asked.
fn tell<T: Topic>(world: &World, of: &str, message: impl Fn(i32) -> T) {
    for client in world.sessions.values() {
        for callback in &client.callbacks {
            let wanted = (callback.class, callback.event) == (T::CLASS, T::ID)
                && callback.of.as_deref().is_none_or(|only| only == of);
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
    tell(world, &dom.uuid.to_string(), message);
}

pub(super) fn lifecycle(world: &World, dom: &DomainRef, event: DomainEventType, detail: i32) {
    tell(world, &dom.uuid.to_string(), |callback_id| {
        DomainEventCallbackLifecycleMsg {
            callback_id,
            msg: DomainEventLifecycleMsg {
                dom: dom.clone(),
                event: event.0,
                detail,
            },
        }
    });
}

pub(super) fn network(world: &World, net: &NetworkRef, event: i32) {
    tell(world, &net.uuid.to_string(), |callback_id| NetworkEventLifecycleMsg {
        callback_id,
        net: net.clone(),
        event,
        detail: 0,
    });
}

pub(super) fn pool(world: &World, pool: &StoragePoolRef, event: i32) {
    tell(world, &pool.uuid.to_string(), |callback_id| {
        StoragePoolEventLifecycleMsg {
            callback_id,
            pool: pool.clone(),
            event,
            detail: 0,
        }
    });
}

pub(super) fn pool_refreshed(world: &World, pool: &StoragePoolRef) {
    tell(world, &pool.uuid.to_string(), |callback_id| {
        StoragePoolEventRefreshMsg {
            callback_id,
            pool: pool.clone(),
        }
    });
}

pub(super) fn device(world: &World, dev: &NodeDeviceRef, event: i32) {
    tell(world, &dev.name.to_string_lossy(), |callback_id| {
        NodeDeviceEventLifecycleMsg {
            callback_id,
            dev: dev.clone(),
            event,
            detail: 0,
        }
    });
}

pub(super) fn secret(world: &World, secret: &SecretRef, event: i32) {
    tell(world, &secret.uuid.to_string(), |callback_id| SecretEventLifecycleMsg {
        callback_id,
        secret: secret.clone(),
        event,
        detail: 0,
    });
}

pub(super) fn secret_value(world: &World, secret: &SecretRef) {
    tell(world, &secret.uuid.to_string(), |callback_id| {
        SecretEventValueChangedMsg {
            callback_id,
            secret: secret.clone(),
        }
    });
}
