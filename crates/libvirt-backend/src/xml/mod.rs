//! libvirt's descriptions: written with escaping, read by what is needed.

mod capabilities;
mod domain;
mod element;
mod volume;

pub(crate) use self::{
    capabilities::{DomainCapabilities, host_arch},
    domain::{Card, Disk, Domain, RESULT_CHANNEL, Seed},
    volume::{Backing, Description, Format, overlay, raw},
};
