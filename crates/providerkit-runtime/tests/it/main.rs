//! The runtime from outside.

mod config;
