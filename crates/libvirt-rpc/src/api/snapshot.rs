//! Snapshots of domains.

use super::calls;
use crate::wire::{
    constant::domain_snapshot::{
        DomainSnapshotCreateFlags, DomainSnapshotDeleteFlags, DomainSnapshotListFlags, DomainSnapshotRevertFlags,
    },
    remote::{
        domain::{
            DomainListAllSnapshots, DomainListAllSnapshotsArgs, DomainRevertToSnapshot, DomainRevertToSnapshotArgs,
        },
        domain_snapshot::{
            DomainSnapshotCreateXml, DomainSnapshotCreateXmlArgs, DomainSnapshotCurrent, DomainSnapshotCurrentArgs,
            DomainSnapshotDelete, DomainSnapshotDeleteArgs, DomainSnapshotGetXmlDesc, DomainSnapshotGetXmlDescArgs,
            DomainSnapshotLookupByName, DomainSnapshotLookupByNameArgs,
        },
        record::{DomainRef, DomainSnapshotRef},
    },
};

calls! {
    /// Takes a snapshot.
    snapshot_create(domain: &DomainRef, xml: &str, flags: DomainSnapshotCreateFlags) -> DomainSnapshotRef
        = DomainSnapshotCreateXml (DomainSnapshotCreateXmlArgs {
            dom: domain.clone(),
            xml_desc: xml.into(),
            flags: flags.bits(),
        }) => |r| r.snap;
    /// The snapshots of a domain.
    snapshots(domain: &DomainRef, flags: DomainSnapshotListFlags) -> Vec<DomainSnapshotRef>
        = DomainListAllSnapshots (DomainListAllSnapshotsArgs {
            dom: domain.clone(),
            need_results: 1,
            flags: flags.bits(),
        }) => |r| r.snapshots;
    /// The snapshot of a name.
    snapshot_lookup_by_name(domain: &DomainRef, name: &str) -> DomainSnapshotRef
        = DomainSnapshotLookupByName (DomainSnapshotLookupByNameArgs {
            dom: domain.clone(),
            name: name.into(),
            flags: 0,
        }) => |r| r.snap;
    /// The snapshot a domain's state comes from.
    snapshot_current(domain: &DomainRef) -> DomainSnapshotRef
        = DomainSnapshotCurrent (DomainSnapshotCurrentArgs { dom: domain.clone(), flags: 0 }) => |r| r.snap;
    /// The description.
    snapshot_xml(snapshot: &DomainSnapshotRef) -> String
        = DomainSnapshotGetXmlDesc (DomainSnapshotGetXmlDescArgs { snap: snapshot.clone(), flags: 0 })
        => |r| r.xml.into_string_lossy();
    /// Puts a domain back.
    snapshot_revert(snapshot: &DomainSnapshotRef, flags: DomainSnapshotRevertFlags)
        = DomainRevertToSnapshot (DomainRevertToSnapshotArgs { snap: snapshot.clone(), flags: flags.bits() });
    /// Deletes a snapshot.
    snapshot_delete(snapshot: &DomainSnapshotRef, flags: DomainSnapshotDeleteFlags)
        = DomainSnapshotDelete (DomainSnapshotDeleteArgs { snap: snapshot.clone(), flags: flags.bits() });
}
