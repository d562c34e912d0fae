//! What the process tells about itself: metrics, alerts, dashboard, traces, audit lines and the status page, all as
//! the real binary gives them.

mod alerts;
mod dashboard;
mod metrics;
mod scrape;
mod tool;
