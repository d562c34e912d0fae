//! The whole libvirt remote protocol in pure async Rust.
//!
//! A client of `libvirtd` and of the modular daemons (`virtqemud` and its like) that links no C library, has no
//! `unsafe` code and needs nothing on the machine it runs on. It knows every procedure, event and flag of the protocol,
//! because they are generated from libvirt's own description of it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), libvirt_rpc::Error> {
//! use libvirt_rpc::{
//!     event::domain::Lifecycle,
//!     fake::Daemon,
//!     wire::constant::domain::{ConnectListAllDomainsFlags, DomainCreateFlags, DomainDefineFlags},
//! };
//!
//! // Elsewhere: `Connection::open("qemu:///system").await?`.
//! let connection = Daemon::new().connect().await?;
//!
//! let mut changes = connection.subscribe::<Lifecycle>(None).await?;
//! let xml = "<domain type='qemu'><name>web</name><memory unit='MiB'>512</memory></domain>";
//! let web = connection.domain_define(xml, DomainDefineFlags::empty()).await?;
//! let web = connection.domain_create(&web, DomainCreateFlags::empty()).await?;
//!
//! for domain in connection.domains(ConnectListAllDomainsFlags::ACTIVE).await? {
//!     println!("{} has id {}", domain.name, domain.id);
//! }
//! assert_eq!(changes.next().await.expect("it was defined").msg.dom.name, "web");
//! assert!(connection.domain_lookup_by_name("db").await.unwrap_err().is_not_found());
//! # Ok(()) }
//! ```
//!
//! # What it promises
//!
//! - **Dropping is safe.** The future of any call can be dropped; so can a stream and a subscription. The connection
//!   goes on, and what still arrives for them is thrown away.
//! - **Nothing waits for ever.** Every call has a deadline ([`Options::deadline`]), a silent peer is found out
//!   ([`Options::keepalive`]), and when a connection ends every caller learns it, and whether its request had left
//!   ([`Error::maybe_executed`]). [`Connection::closed`] says why it ended.
//! - **Slow calls do not block fast ones.** A daemon stops reading a connection that has five calls in work. This
//!   library sends at most four and keeps one of those slots for calls that never wait long ([`Options::window`]).
//! - **The reader never waits for a consumer.** A subscriber that is slow is told what it missed
//!   ([`event::Interruption::Lagged`]).
//! - **Peers are not trusted.** Lengths are checked before memory is taken, and a peer that speaks something else (an
//!   ssh banner, an HTTP server) is quoted in the error.
//!
//! - **Old daemons are asked the old way**, where there is one: lists are made of look-ups, definitions and starts go
//!   without flags, undefining goes without the flags that came later ([`api`] says where).
//!
//! It does not reconnect, keep pools of connections or read and write libvirt's XML: that is policy, and yours.
//!
//! # Ways to a daemon
//!
//! | URI | transport | authentication | descriptors |
//! |---|---|---|---|
//! | `qemu:///system`, `qemu+unix:///…?socket=&mode=` | UNIX socket, modular or not, system or session | none, polkit, SASL | yes |
//! | `qemu+tcp://host:16509/…` | TCP | none | no |
//! | `qemu+tls://host:16514/…?pkipath=&no_verify=&tls_allow_cn=` (feature `tls`) | TLS 1.2 and 1.3, client certificates, revocation lists | none, SASL | no |
//! | `qemu+ssh://user@host:22/…?keyfile=&known_hosts=&sshauth=&proxy=&netcat=&socket=&mode=` (also `+libssh`, `+libssh2`) | ssh by this library (feature `russh`) or by the machine's `ssh`; on the host `virt-ssh-helper`, else `nc`, else (feature `russh`) forwarding | ssh's keys; then as the daemon asks | no |
//! | `qemu+ext:///…?command=` | any command's standard input and output | as the daemon asks | no |
//! | [`Connection::open_on`] | whatever can be read and written | as the daemon asks | no |
//!
//! SASL (feature `sasl`) knows SCRAM-SHA-256, SCRAM-SHA-1, PLAIN and EXTERNAL. User and password come from
//! `Options::credentials` or libvirt's `auth.conf` (`authfile=`). PLAIN, which is the password itself, is for a UNIX
//! socket, ssh and TLS, both with the daemon verified; nothing else gets it. A parameter of the URI is honoured or
//! refused, never ignored.
//!
//! # Where to start reading
//!
//! [`Connection`] and its methods, named after what they do to which noun; [`event`] and [`stream`] for what is no
//! call; [`fake`] to test what you build; [`wire`] for the protocol itself, which also works without the rest.

pub mod api;
pub mod event;
pub mod fake;
pub mod stream;
pub mod transport;
pub mod uri;
pub mod wire;

mod base64;
mod connection;
mod error;
#[cfg(feature = "sasl")]
mod sasl;

pub use connection::{Connection, Ended, Observer, Reason, options::Options};
pub use error::{DaemonError, Error, Kind};
