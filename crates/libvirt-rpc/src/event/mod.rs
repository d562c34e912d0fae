//! What daemons tell unasked.
//!
//! Any number may subscribe to the same on one connection: the daemon is asked once, and told when the last is gone.
//!
//! ```no_run
//! # async fn example(connection: libvirt_rpc::Connection) -> Result<(), Box<dyn std::error::Error>> {
//! use libvirt_rpc::event::domain::Lifecycle;
//!
//! let mut changes = connection.subscribe::<Lifecycle>(None).await?;
//! // Subscribe first, list then: what happens in between is waiting in `changes`.
//! while let Ok(change) = changes.next().await {
//!     println!("{}: {}", change.msg.dom.name, change.msg.event);
//! }
//! # Ok(()) }
//! ```

pub(crate) mod router;
pub(crate) mod source;
mod subject;
mod subscription;
mod topic;

#[doc(hidden)]
pub use self::source::Source;
pub use self::{
    router::Class,
    subject::Subject,
    subscription::{Interruption, Subscription},
    topic::{Topic, domain, network, node_device, secret, storage_pool},
};
