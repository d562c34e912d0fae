//! The calls people make, one noun a file. Each is [`Connection::call`](crate::Connection::call) of the procedure it is
//! named after; what is not here can be called the same way.
//!
//! Where a daemon is too old for a call, its predecessor is asked: for all lists (before 0.10.2), for
//! [`domain_define`](crate::Connection::domain_define) (before 1.2.12) and
//! [`domain_create`](crate::Connection::domain_create) without flags, for
//! [`domain_undefine`](crate::Connection::domain_undefine), which leaves out flags that are not known, and for
//! [`network_update`](crate::Connection::network_update), whose arguments were in the wrong order before 7.2.

mod agent;
mod checkpoint;
mod connect;
mod domain;
mod domain_change;
mod domain_guest;
mod list;
mod monitor;
mod network;
mod node;
mod node_device;
mod param;
mod secret;
mod snapshot;
mod storage_pool;
mod storage_volume;
mod transfer;

pub use self::{
    agent::AgentTimeout,
    domain::{DomainInfo, DomainStatus},
    node::NodeInfo,
    param::{Params, Value},
    storage_pool::PoolInfo,
    storage_volume::VolumeInfo,
};

/// Methods of [`Connection`](crate::Connection), each one call: its procedure, its arguments, what of the reply counts.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?
        = $procedure:ident $args:tt $(=> |$reply:ident| $value:expr)?;)*) => {
        impl $crate::Connection {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// When the daemon answers with an error, or no answer comes.
                pub async fn $name(&self, $($arg: $ty),*) -> Result<calls!(@ret $($ret)?), $crate::Error> {
                    let args: <$procedure as $crate::wire::procedure::Procedure>::Args = calls!(@args $args);
                    let reply = self.call::<$procedure>(&args).await?;
                    calls!(@value reply $(, $reply, $value)?)
                }
            )*
        }
    };
    (@ret) => { () };
    (@ret $ret:ty) => { $ret };
    (@args ()) => { () };
    (@args ($args:expr)) => { $args };
    (@value $got:ident) => {{
        let () = $got;
        Ok(())
    }};
    (@value $got:ident, $reply:ident, $value:expr) => {{
        let $reply = $got;
        Ok($value)
    }};
}

pub(crate) use calls;
