//! The backend on real libvirt hosts with real guests.

mod lab;
mod live;
mod walk;
