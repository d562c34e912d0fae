//! What daemons tell unasked.
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
mod subject;
mod subscription;
mod topic;

pub use self::{
    router::Class,
    subject::Subject,
    subscription::{Interruption, Subscription},
    topic::{Topic, domain, network, node_device, secret, storage_pool},
};
