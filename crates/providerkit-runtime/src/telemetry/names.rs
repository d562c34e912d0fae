//! The metrics of the process itself. The engine's and a backend's are named where they are recorded.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram};

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

/// Seconds of answers that come from memory.
const FAST: &[f64] = &[
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// Seconds of machines that boot.
const SLOW: &[f64] = &[
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0,
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
        "When the served certificate expires, in seconds since 1970."
    );
    describe_counter!(HANDSHAKE_FAILURES, "TLS handshakes that came to nothing.");
    describe_counter!(TLS_RELOADS, "Reloads of changed TLS files by outcome.");
    counter!(PANICS).increment(0);
}
