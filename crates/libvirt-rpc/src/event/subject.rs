//! How each sort of object is asked for its events.

use std::future::Future;

use super::Class;
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

    /// Asks for the events numbered `event`, of one object or of all, and returns the callback's id.
    #[doc(hidden)]
    fn register(
        connection: &Connection,
        event: i32,
        subject: Option<Self>,
    ) -> impl Future<Output = Result<i32, Error>> + Send;

    /// Asks for no more events.
    #[doc(hidden)]
    fn deregister(connection: &Connection, callback: i32);
}

macro_rules! subject {
    ($ty:ident, $class:ident, $field:ident, $register:ident, $args:ident, $deregister:ident, $dargs:ident) => {
        impl Subject for $ty {
            const CLASS: Class = Class::$class;

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

            fn deregister(connection: &Connection, callback: i32) {
                connection.notify::<call::$deregister>(&call::$dargs {
                    callback_id: callback,
                });
            }
        }
    };
}

subject!(
    DomainRef,
    Domain,
    dom,
    ConnectDomainEventCallbackRegisterAny,
    ConnectDomainEventCallbackRegisterAnyArgs,
    ConnectDomainEventCallbackDeregisterAny,
    ConnectDomainEventCallbackDeregisterAnyArgs
);
subject!(
    NetworkRef,
    Network,
    net,
    ConnectNetworkEventRegisterAny,
    ConnectNetworkEventRegisterAnyArgs,
    ConnectNetworkEventDeregisterAny,
    ConnectNetworkEventDeregisterAnyArgs
);
subject!(
    StoragePoolRef,
    StoragePool,
    pool,
    ConnectStoragePoolEventRegisterAny,
    ConnectStoragePoolEventRegisterAnyArgs,
    ConnectStoragePoolEventDeregisterAny,
    ConnectStoragePoolEventDeregisterAnyArgs
);
subject!(
    NodeDeviceRef,
    NodeDevice,
    dev,
    ConnectNodeDeviceEventRegisterAny,
    ConnectNodeDeviceEventRegisterAnyArgs,
    ConnectNodeDeviceEventDeregisterAny,
    ConnectNodeDeviceEventDeregisterAnyArgs
);
subject!(
    SecretRef,
    Secret,
    secret,
    ConnectSecretEventRegisterAny,
    ConnectSecretEventRegisterAnyArgs,
    ConnectSecretEventDeregisterAny,
    ConnectSecretEventDeregisterAnyArgs
);
