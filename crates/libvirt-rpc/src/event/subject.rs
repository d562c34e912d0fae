//! How each sort of object is asked for its events.

use std::future::Future;

use super::{Class, source::Source};
use crate::{
    Error,
    connection::Connection,
    wire::remote::{
        connect as call,
        record::{DomainRef, NetworkRef, NodeDeviceRef, SecretRef, StoragePoolRef},
    },
};

/// A sort of object that has events.
pub trait Subject: Clone + Send + Sync + 'static {
    /// Which one.
    const CLASS: Class;

    /// What tells this object from others of its sort.
    #[doc(hidden)]
    fn key(&self) -> Vec<u8>;

    /// Asks for the events numbered `event`, of one object or of all, and returns the callback's id.
    #[doc(hidden)]
    fn register(
        connection: &Connection,
        event: i32,
        subject: Option<Self>,
    ) -> impl Future<Output = Result<i32, Error>> + Send;

    /// Asks for no more events of a source.
    #[doc(hidden)]
    fn deregister(connection: &Connection, callback: i32, source: Source);
}

macro_rules! subject {
    ($ty:ident, $class:ident, $field:ident . $key:ident, $register:ident, $args:ident, $deregister:ident, $dargs:ident) => {
        impl Subject for $ty {
            const CLASS: Class = Class::$class;

            fn key(&self) -> Vec<u8> {
                self.$key.to_string().into_bytes()
            }

            async fn register(connection: &Connection, event: i32, subject: Option<Self>) -> Result<i32, Error> {
                let args = call::$args {
                    event_id: event,
                    $field: subject,
                };
                connection
                    .call::<call::$register>(&args)
                    .await
                    .map(|ret| ret.callback_id)
            }

            fn deregister(connection: &Connection, callback: i32, source: Source) {
                let args = call::$dargs {
                    callback_id: callback,
                };
                connection.leave::<call::$deregister>(&args, source);
            }
        }
    };
}

subject!(
    DomainRef,
    Domain,
    dom.uuid,
    ConnectDomainEventCallbackRegisterAny,
    ConnectDomainEventCallbackRegisterAnyArgs,
    ConnectDomainEventCallbackDeregisterAny,
    ConnectDomainEventCallbackDeregisterAnyArgs
);
subject!(
    NetworkRef,
    Network,
    net.uuid,
    ConnectNetworkEventRegisterAny,
    ConnectNetworkEventRegisterAnyArgs,
    ConnectNetworkEventDeregisterAny,
    ConnectNetworkEventDeregisterAnyArgs
);
subject!(
    StoragePoolRef,
    StoragePool,
    pool.uuid,
    ConnectStoragePoolEventRegisterAny,
    ConnectStoragePoolEventRegisterAnyArgs,
    ConnectStoragePoolEventDeregisterAny,
    ConnectStoragePoolEventDeregisterAnyArgs
);
subject!(
    NodeDeviceRef,
    NodeDevice,
    dev.name,
    ConnectNodeDeviceEventRegisterAny,
    ConnectNodeDeviceEventRegisterAnyArgs,
    ConnectNodeDeviceEventDeregisterAny,
    ConnectNodeDeviceEventDeregisterAnyArgs
);
subject!(
    SecretRef,
    Secret,
    secret.uuid,
    ConnectSecretEventRegisterAny,
    ConnectSecretEventRegisterAnyArgs,
    ConnectSecretEventDeregisterAny,
    ConnectSecretEventDeregisterAnyArgs
);
