//! Checkpoints of domains: since when their disks have changed.

use super::calls;
use crate::wire::{
    constant::domain_checkpoint::{
        DomainCheckpointCreateFlags, DomainCheckpointDeleteFlags, DomainCheckpointListFlags, DomainCheckpointXMLFlags,
    },
    remote::{
        domain::{DomainListAllCheckpoints, DomainListAllCheckpointsArgs},
        domain_checkpoint::{
            DomainCheckpointCreateXml, DomainCheckpointCreateXmlArgs, DomainCheckpointDelete,
            DomainCheckpointDeleteArgs, DomainCheckpointGetXmlDesc, DomainCheckpointGetXmlDescArgs,
            DomainCheckpointLookupByName, DomainCheckpointLookupByNameArgs,
        },
        record::{DomainCheckpointRef, DomainRef},
    },
};

calls! {
    /// Makes a checkpoint.
    checkpoint_create(domain: &DomainRef, xml: &str, flags: DomainCheckpointCreateFlags) -> DomainCheckpointRef
        = DomainCheckpointCreateXml (DomainCheckpointCreateXmlArgs {
            dom: domain.clone(),
            xml_desc: xml.into(),
            flags: flags.bits(),
        }) => |r| r.checkpoint;
    /// The checkpoints of a domain.
    checkpoints(domain: &DomainRef, flags: DomainCheckpointListFlags) -> Vec<DomainCheckpointRef>
        = DomainListAllCheckpoints (DomainListAllCheckpointsArgs {
            dom: domain.clone(),
            need_results: 1,
            flags: flags.bits(),
        }) => |r| r.checkpoints;
    /// The checkpoint of a name.
    checkpoint_lookup_by_name(domain: &DomainRef, name: &str) -> DomainCheckpointRef
        = DomainCheckpointLookupByName (DomainCheckpointLookupByNameArgs {
            dom: domain.clone(),
            name: name.into(),
            flags: 0,
        }) => |r| r.checkpoint;
    /// The description.
    checkpoint_xml(checkpoint: &DomainCheckpointRef, flags: DomainCheckpointXMLFlags) -> String
        = DomainCheckpointGetXmlDesc (DomainCheckpointGetXmlDescArgs {
            checkpoint: checkpoint.clone(),
            flags: flags.bits(),
        }) => |r| r.xml.into_string_lossy();
    /// Deletes a checkpoint.
    checkpoint_delete(checkpoint: &DomainCheckpointRef, flags: DomainCheckpointDeleteFlags)
        = DomainCheckpointDelete (DomainCheckpointDeleteArgs { checkpoint: checkpoint.clone(), flags: flags.bits() });
}
