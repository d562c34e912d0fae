//! The names of this crate's metrics; the process puts a prefix before them.

use std::time::{Duration, Instant, SystemTime};

use libvirt_rpc::{Ended, Observer, Reason};
use metrics::{
    Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use providerkit_backend::Error;

use crate::budget::Use;

/// What was done to machines, by `op` and `outcome` (`success`, `error`); both are spelled as in the reference.
pub const API_CALLS: &str = "api_calls_total";
/// How long that took, by `op`.
pub const API_DURATION: &str = "api_duration_seconds";
/// Calls to libvirt daemons by `call` and `outcome` (`ok`, `error`, `dropped`).
pub const RPC_CALLS: &str = "rpc_calls_total";
/// How long they took, by zone.
pub const RPC_DURATION: &str = "rpc_duration_seconds";
/// Those that have no answer yet, by zone.
pub const RPC_IN_FLIGHT: &str = "rpc_in_flight";
/// How long calls waited here for their turn, by zone.
pub const RPC_QUEUE: &str = "rpc_queue_seconds";
/// Dealings with guest agents, by `phase` (`ping`, `write`, `exec`, `wait`).
pub const AGENT_DURATION: &str = "agent_exec_duration_seconds";
/// Whether a host can be reached, by zone and host.
pub const HOST_UP: &str = "host_up";
/// When the certificate expires that a host is shown, in seconds since 1970, by zone and host; hosts over TLS alone.
pub const CERTIFICATE_NOT_AFTER: &str = "tls_certificate_not_after_timestamp_seconds";
/// Whether a host takes no new machines because somebody said so, by zone and host.
pub const HOST_CORDONED: &str = "host_cordoned";
/// Connections to a host that were lost, by zone, host and reason.
pub const HOST_RECONNECTS: &str = "host_reconnects_total";
/// Virtual CPUs that may be given to machines, by zone and host.
pub const HOST_CAPACITY_VCPUS: &str = "host_capacity_vcpus";
/// Memory that may be given to machines, by zone and host.
pub const HOST_CAPACITY_MEMORY: &str = "host_capacity_memory_bytes";
/// Virtual CPUs of what is there, ours or not, or promised; by zone and host.
pub const HOST_ALLOCATED_VCPUS: &str = "host_allocated_vcpus";
/// Memory of what is there, ours or not, or promised; by zone and host.
pub const HOST_ALLOCATED_MEMORY: &str = "host_allocated_memory_bytes";
/// Machines that did not leave their cluster by themselves, by zone.
pub const FORCED_DRAINS: &str = "forced_drains_total";
/// Machines that were brought back, by zone, action and outcome.
pub const HEALED: &str = "healed_total";
/// Machines that do not run although they should, by zone, host and reason.
pub const STOPPED: &str = "machines_stopped";
/// Machines whose image was replaced or removed under them, by zone and host.
pub const IMAGELESS: &str = "machines_without_image";
/// Domains and volumes of ours that belong to no machine, by zone, host and kind.
pub const ORPHANS: &str = "orphans";

/// What an operation on a machine is called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Create,
    Configure,
    Drain,
    Delete,
    Describe,
    Heal,
}

impl Op {
    const ALL: [Self; 6] = [
        Self::Create,
        Self::Configure,
        Self::Drain,
        Self::Delete,
        Self::Describe,
        Self::Heal,
    ];

    /// As the reference calls it.
    const fn name(self) -> &'static str {
        match self {
            Self::Create => "CreateDomain",
            Self::Configure => "Configure",
            Self::Drain => "Drain",
            Self::Delete => "DeleteDomain",
            Self::Describe => "DescribeManaged",
            Self::Heal => "EnsureRunning",
        }
    }

    /// Counts and times an operation.
    pub(crate) async fn timed<T>(self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let begun = Instant::now();
        let result = work.await;
        self.ended(begun.elapsed(), result.is_ok());
        result
    }

    pub(crate) fn ended(self, took: Duration, well: bool) {
        let outcome = if well { "success" } else { "error" };
        counter!(API_CALLS, "op" => self.name(), "outcome" => outcome).increment(1);
        histogram!(API_DURATION, "op" => self.name()).record(took);
    }
}

/// A dealing with a guest's agent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    /// Whether it is there.
    Ping,
    /// A file is written.
    Write,
    /// A program is started.
    Exec,
    /// It is waited for.
    Wait,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Ping, Self::Write, Self::Exec, Self::Wait];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Write => "write",
            Self::Exec => "exec",
            Self::Wait => "wait",
        }
    }

    /// Times it, and puts it into the trace.
    pub(crate) async fn timed<T>(self, work: impl Future<Output = T>) -> T {
        use tracing::Instrument as _;
        let begun = Instant::now();
        let result = work
            .instrument(tracing::debug_span!("agent", phase = self.name()))
            .await;
        histogram!(AGENT_DURATION, "phase" => self.name()).record(begun.elapsed());
        result
    }
}

/// The calls of one host's connections.
#[derive(Debug)]
pub(crate) struct Calls {
    in_flight: Gauge,
    queue: Histogram,
    duration: Histogram,
}

impl Calls {
    pub(crate) fn of(zone: &str) -> Self {
        let zone = zone.to_owned();
        Self {
            in_flight: gauge!(RPC_IN_FLIGHT, "zone" => zone.clone()),
            queue: histogram!(RPC_QUEUE, "zone" => zone.clone()),
            duration: histogram!(RPC_DURATION, "zone" => zone),
        }
    }
}

impl Observer for Calls {
    fn begins(&self, _: &'static str) {
        self.in_flight.increment(1);
    }

    fn ended(&self, call: &Ended<'_>) {
        self.in_flight.decrement(1);
        self.duration.record(call.took);
        if let Some(queued) = call.queued {
            self.queue.record(queued);
        }
        let outcome = match call {
            call if call.dropped => "dropped",
            call if call.error.is_some() => "error",
            _ => "ok",
        };
        counter!(RPC_CALLS, "call" => call.call, "outcome" => outcome).increment(1);
    }
}

/// Why connections to a host are lost; few, whatever the error says.
pub(crate) const LOSSES: [&str; 6] = ["closed", "eof", "io", "protocol", "silent", "call"];

/// The label of a connection's end.
pub(crate) const fn loss(reason: &Reason) -> &'static str {
    match reason {
        Reason::Closed => "closed",
        Reason::Eof => "eof",
        Reason::Protocol { .. } => "protocol",
        Reason::Silent(_) => "silent",
        _ => "io",
    }
}

/// Tells the recorder what each of them is, and shows those whose labels are known from the start.
pub(crate) fn describe() {
    describe_counter!(
        API_CALLS,
        "What was done to machines on the hosts, by operation and outcome."
    );
    describe_histogram!(
        API_DURATION,
        Unit::Seconds,
        "Time of what was done to machines on the hosts."
    );
    describe_counter!(RPC_CALLS, "Calls to libvirt daemons by call and outcome.");
    describe_histogram!(
        RPC_DURATION,
        Unit::Seconds,
        "Time of a call to a libvirt daemon, from here to here."
    );
    describe_gauge!(RPC_IN_FLIGHT, "Calls to libvirt daemons that have no answer yet.");
    describe_histogram!(
        RPC_QUEUE,
        Unit::Seconds,
        "Time a call waited here until the daemon could take one more."
    );
    describe_histogram!(AGENT_DURATION, Unit::Seconds, "Time of a dealing with a guest agent.");
    describe_gauge!(HOST_UP, "Whether the host can be reached.");
    describe_gauge!(HOST_CORDONED, "Whether the host was told to take no new machines.");
    describe_gauge!(
        CERTIFICATE_NOT_AFTER,
        Unit::Seconds,
        "When a certificate expires, in seconds since 1970: one that is served, by listener, or that a host is shown."
    );
    describe_counter!(HOST_RECONNECTS, "Connections to the host that were lost.");
    describe_gauge!(
        HOST_CAPACITY_VCPUS,
        "Virtual CPUs that may be given to machines: the host's, times the overcommit."
    );
    describe_gauge!(
        HOST_CAPACITY_MEMORY,
        Unit::Bytes,
        "Memory that may be given to machines: the host's less the reserve, times the overcommit."
    );
    describe_gauge!(
        HOST_ALLOCATED_VCPUS,
        "Virtual CPUs of the machines there, ours or not, and of those being made."
    );
    describe_gauge!(
        HOST_ALLOCATED_MEMORY,
        Unit::Bytes,
        "Memory of the machines there, ours or not, and of those being made."
    );
    describe_counter!(
        FORCED_DRAINS,
        "Machines that did not leave their cluster by themselves."
    );
    describe_counter!(
        HEALED,
        "Machines that did not run and were brought back, or could not be."
    );
    describe_gauge!(STOPPED, "Machines that do not run although they should.");
    describe_gauge!(IMAGELESS, "Machines whose image was replaced or removed under them.");
    describe_gauge!(ORPHANS, "Domains and volumes of ours that belong to no machine.");
    for op in Op::ALL {
        drop(histogram!(API_DURATION, "op" => op.name()));
        for outcome in ["success", "error"] {
            counter!(API_CALLS, "op" => op.name(), "outcome" => outcome).increment(0);
        }
    }
    for outcome in ["ok", "error", "dropped"] {
        // What every host is asked first.
        counter!(RPC_CALLS, "call" => "connect_open", "outcome" => outcome).increment(0);
    }
    for phase in Phase::ALL {
        drop(histogram!(AGENT_DURATION, "phase" => phase.name()));
    }
}

/// What has one value for each host.
const GAUGES: [&str; 7] = [
    HOST_UP,
    HOST_CORDONED,
    HOST_CAPACITY_VCPUS,
    HOST_CAPACITY_MEMORY,
    HOST_ALLOCATED_VCPUS,
    HOST_ALLOCATED_MEMORY,
    IMAGELESS,
];

/// Shows what is counted of a host from the start.
pub(crate) fn register(zone: &str, host: &str) {
    let labels = [("zone", zone.to_owned()), ("host", host.to_owned())];
    let with = |name: &'static str, value: &str| {
        let mut labels = labels.to_vec();
        labels.push((name, value.to_owned()));
        labels
    };
    for name in GAUGES {
        gauge!(name, &labels).set(0);
    }
    for reason in LOSSES {
        counter!(HOST_RECONNECTS, &with("reason", reason)).increment(0);
    }
    for kind in ["domain", "volume", "stray"] {
        gauge!(ORPHANS, &with("kind", kind)).set(0);
    }
    gauge!(STOPPED, &with("reason", "crashed")).set(0);
    counter!(FORCED_DRAINS, "zone" => zone.to_owned()).increment(0);
    for (action, outcome) in [
        ("started", "ok"),
        ("started", "error"),
        ("resumed", "ok"),
        ("resumed", "error"),
    ] {
        counter!(HEALED, "zone" => zone.to_owned(), "action" => action, "outcome" => outcome).increment(0);
    }
}

/// Takes back what was said of a host that is gone: a series cannot be removed, but a number that is none raises no alert.
pub(crate) fn forget(zone: &str, host: &str) {
    let labels = [("zone", zone.to_owned()), ("host", host.to_owned())];
    for name in GAUGES {
        gauge!(name, &labels).set(f64::NAN);
    }
}

/// Shows until when the certificate holds that a host is shown, or takes back what was said of one that is shown none now.
#[allow(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^52")]
pub(crate) fn record_certificate(zone: &str, host: &str, not_after: Option<SystemTime>) {
    let since = not_after.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    let seconds = since.map_or(f64::NAN, |since| since.as_secs() as f64);
    gauge!(CERTIFICATE_NOT_AFTER, "zone" => zone.to_owned(), "host" => host.to_owned()).set(seconds);
}

/// Sets the gauges of a host's size and of what is given of it.
#[allow(clippy::cast_precision_loss, reason = "sizes of hosts are far below 2^52")]
pub(crate) fn record_use(zone: &str, host: &str, uses: &Use) {
    let labels = [("zone", zone.to_owned()), ("host", host.to_owned())];
    let mib = |mib: u64| mib.saturating_mul(1 << 20) as f64;
    gauge!(HOST_CAPACITY_VCPUS, &labels).set(uses.capacity.vcpus as f64);
    gauge!(HOST_CAPACITY_MEMORY, &labels).set(mib(uses.capacity.memory_mib));
    gauge!(HOST_ALLOCATED_VCPUS, &labels).set(uses.allocated.vcpus as f64);
    gauge!(HOST_ALLOCATED_MEMORY, &labels).set(mib(uses.allocated.memory_mib));
}
