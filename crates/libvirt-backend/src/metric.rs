//! The names of this crate's metrics; the process puts a prefix before them.

/// Whether a host can be reached, by zone and host.
pub const HOST_UP: &str = "host_up";
/// Connections to a host that were lost, by zone and host.
pub const HOST_RECONNECTS: &str = "host_reconnects_total";
/// Machines that did not leave their cluster by themselves, by zone.
pub const FORCED_DRAINS: &str = "forced_drains_total";
/// Machines that were brought back, by zone and what was done.
pub const HEALED: &str = "healed_total";
/// Machines that do not run although they should, by host and reason.
pub const STOPPED: &str = "machines_stopped";
/// Machines whose image was replaced or removed under them, by host.
pub const IMAGELESS: &str = "machines_without_image";
/// Domains and volumes of ours that belong to no machine, by host and kind.
pub const ORPHANS: &str = "orphans";
