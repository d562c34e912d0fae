//! What the process tells about itself: metrics, alerts, dashboard, traces, audit lines and the status page, all as
//! the real binary gives them.

mod alerts;
mod audit;
mod certificates;
mod dashboard;
mod host;
mod metrics;
mod reload;
mod scrape;
mod status;
mod tool;
mod traces;
