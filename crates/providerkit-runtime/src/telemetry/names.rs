//! The metrics of the process itself. The engine's and a backend's are named where they are recorded.

use std::time::SystemTime;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

/// What runs where; always 1.
pub(crate) const BUILD_INFO: &str = "build_info";
/// Panics anywhere in the process.
pub(crate) const PANICS: &str = "panics_total";
/// Calls by method and code.
pub(crate) const GRPC_REQUESTS: &str = "grpc_requests_total";
/// How long calls took, by method.
pub(crate) const GRPC_DURATION: &str = "grpc_request_duration_seconds";
/// When the certificate that is served expires.
pub(crate) const CERTIFICATE_NOT_AFTER: &str = "tls_certificate_not_after_timestamp_seconds";
/// TLS handshakes that came to nothing.
pub(crate) const HANDSHAKE_FAILURES: &str = "tls_handshake_failures_total";
/// Reloads of TLS material, by outcome.
pub(crate) const TLS_RELOADS: &str = "tls_reloads_total";

/// Whether the configuration could be read the last time it was.
pub(crate) const RELOAD_SUCCESSFUL: &str = "config_last_reload_successful";
/// When the configuration that is in force was read.
pub(crate) const RELOAD_TIMESTAMP: &str = "config_last_reload_timestamp_seconds";
/// 1 for the phase of the process's life it is in, by phase.
pub(crate) const SHUTDOWN_PHASE: &str = "shutdown_phase";
/// The phases, in order.
pub(crate) const SHUTDOWN_PHASES: [&str; 4] = ["running", "delay", "grace", "closed"];
/// The calls of the contract.
pub(crate) const METHODS: [&str; 6] = ["Create", "Configure", "Drain", "Delete", "Get", "List"];

/// Seconds of answers that come from memory.
const FAST: &[f64] = &[
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// Seconds of machines that boot.
const SLOW: &[f64] = &[
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0,
];
/// Seconds of calls to a host, most of which take milliseconds and some a minute.
const CALLS: &[f64] = &[
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 30.0, 60.0, 120.0,
];
/// How many.
const COUNTS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];
/// For what is not listed.
pub(super) const OTHER: &[f64] = &[0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Buckets by the end of a histogram's name. Whatever is not listed gets [`OTHER`], never a summary.
pub(super) const BUCKETS: &[(&str, &[f64])] = &[
    (GRPC_DURATION, FAST),
    ("store_commit_duration_seconds", FAST),
    ("reconcile_duration_seconds", SLOW),
    ("transition_duration_seconds", SLOW),
    ("api_duration_seconds", SLOW),
    ("agent_exec_duration_seconds", CALLS),
    ("rpc_duration_seconds", CALLS),
    ("rpc_queue_seconds", FAST),
    ("store_group_size", COUNTS),
];

/// Tells the recorder what they mean, and shows those that count from 0.
pub(super) fn describe() {
    describe_gauge!(BUILD_INFO, "What runs here; always 1.");
    describe_counter!(PANICS, "Panics anywhere in the process.");
    describe_counter!(GRPC_REQUESTS, "gRPC calls by method and code.");
    describe_histogram!(GRPC_DURATION, Unit::Seconds, "Time until a gRPC call was answered.");
    describe_gauge!(
        CERTIFICATE_NOT_AFTER,
        Unit::Seconds,
        "When a certificate expires, in seconds since 1970: one that is served, by listener, or that a host is shown."
    );
    describe_counter!(HANDSHAKE_FAILURES, "TLS handshakes that came to nothing.");
    describe_counter!(TLS_RELOADS, "Reloads of changed TLS files by outcome.");
    describe_gauge!(
        RELOAD_SUCCESSFUL,
        "Whether the configuration was valid when it was last read; if not, the one before is in force."
    );
    describe_gauge!(
        RELOAD_TIMESTAMP,
        Unit::Seconds,
        "When the configuration in force was read, in seconds since 1970."
    );
    describe_gauge!(
        SHUTDOWN_PHASE,
        "1 for the phase the process is in: running, delay, grace, closed."
    );
    register();
}

fn register() {
    counter!(PANICS).increment(0);
    counter!(HANDSHAKE_FAILURES).increment(0);
    for outcome in ["ok", "error"] {
        counter!(TLS_RELOADS, "outcome" => outcome).increment(0);
    }
    for method in METHODS {
        counter!(GRPC_REQUESTS, "method" => method, "code" => "OK").increment(0);
        drop(histogram!(GRPC_DURATION, "method" => method));
    }
    shutdown_phase(SHUTDOWN_PHASES[0]);
    configuration_was_read(true);
}

/// Says which phase the process is in now.
pub(crate) fn shutdown_phase(now: &'static str) {
    for phase in SHUTDOWN_PHASES {
        gauge!(SHUTDOWN_PHASE, "phase" => phase).set(u8::from(phase == now));
    }
}

/// Says whether the configuration that was just read is in force.
pub(crate) fn configuration_was_read(well: bool) {
    gauge!(RELOAD_SUCCESSFUL).set(u8::from(well));
    if well {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        gauge!(RELOAD_TIMESTAMP).set(now.as_secs_f64());
    }
}
