//! Snapshots and checkpoints of domains.

use serde::{Deserialize, Serialize};

use super::{
    call::{Call, Refusal},
    world::World,
    xml::{Description, escaped},
};
use crate::wire::{
    constant::{
        domain::{DomainShutoffReason, DomainState},
        domain_snapshot::DomainSnapshotCreateFlags,
        error::ErrorNumber,
    },
    remote::{
        domain::{
            DomainHasCurrentSnapshot, DomainHasCurrentSnapshotRet, DomainListAllCheckpoints,
            DomainListAllCheckpointsRet, DomainListAllSnapshots, DomainListAllSnapshotsRet, DomainRevertToSnapshot,
        },
        domain_checkpoint::{
            DomainCheckpointCreateXml, DomainCheckpointCreateXmlRet, DomainCheckpointDelete,
            DomainCheckpointGetXmlDesc, DomainCheckpointGetXmlDescRet, DomainCheckpointLookupByName,
            DomainCheckpointLookupByNameRet,
        },
        domain_snapshot::{
            DomainSnapshotCreateXml, DomainSnapshotCreateXmlRet, DomainSnapshotCurrent, DomainSnapshotCurrentRet,
            DomainSnapshotDelete, DomainSnapshotGetXmlDesc, DomainSnapshotGetXmlDescRet, DomainSnapshotLookupByName,
            DomainSnapshotLookupByNameRet,
        },
        record::{DomainCheckpointRef, DomainRef, DomainSnapshotRef},
    },
    xdr::Text,
};

/// A snapshot or a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Moment {
    name: String,
    parent: Option<String>,
    description: String,
    running: bool,
    files: super::files::Files,
}

impl Moment {
    fn xml(&self, root: &str) -> String {
        let parent = self.parent.as_deref().map_or_else(String::new, |parent| {
            format!("<parent><name>{}</name></parent>", escaped(parent))
        });
        let state = if self.running { "running" } else { "shutoff" };
        let (name, description) = (escaped(&self.name), escaped(&self.description));
        format!(
            "<{root}><name>{name}</name><description>{description}</description>{parent}<state>{state}</state></{root}>"
        )
    }
}

fn named<'a>(moments: &'a [Moment], name: &Text, sort: &str, code: ErrorNumber) -> Result<&'a Moment, Refusal> {
    let missing = || {
        let message = format!("Domain {sort} not found: no domain {sort} with matching name '{name}'");
        Refusal::new(code, message)
    };
    moments.iter().find(|m| *name == *m.name).ok_or_else(missing)
}

fn of_snapshots<'a>(moments: &'a [Moment], name: &Text) -> Result<&'a Moment, Refusal> {
    named(moments, name, "snapshot", ErrorNumber::ERR_NO_DOMAIN_SNAPSHOT)
}

fn of_checkpoints<'a>(moments: &'a [Moment], name: &Text) -> Result<&'a Moment, Refusal> {
    named(moments, name, "checkpoint", ErrorNumber::ERR_NO_DOMAIN_CHECKPOINT)
}

impl World {
    fn new_moment(&mut self, dom: &DomainRef, xml: &str, root: &str) -> Result<Moment, Refusal> {
        let description = Description::parse(xml, root)?;
        let number = self.next();
        let (uuid, running) = self.domain(dom).map(|d| (d.uuid, d.is_active()))?;
        let files = self.take_files(uuid);
        self.put_files(uuid, files.clone());
        Ok(Moment {
            name: description
                .text(&["name"])
                .map_or_else(|| number.to_string(), str::to_owned),
            parent: None,
            description: description.text(&["description"]).unwrap_or_default().to_owned(),
            running,
            files,
        })
    }
}

fn push(moments: &mut Vec<Moment>, mut moment: Moment) -> Result<Text, Refusal> {
    let name = moment.name.clone();
    if moments.iter().any(|m| m.name == name) {
        let message = format!("operation failed: domain moment {name} already exists");
        return Err(Refusal::new(ErrorNumber::ERR_OPERATION_FAILED, message));
    }
    moment.parent = moments.last().map(|m| m.name.clone());
    moments.push(moment);
    Ok(name.into())
}

pub(super) fn answer(call: &mut Call<'_>) {
    snapshots(call);
    checkpoints(call);
}

fn snapshots(call: &mut Call<'_>) {
    let reference = |name: &str, dom: &DomainRef| DomainSnapshotRef {
        name: name.into(),
        dom: dom.clone(),
    };
    call.on::<DomainSnapshotCreateXml>(|world, args| {
        let flags = DomainSnapshotCreateFlags(args.flags);
        let moment = world.new_moment(&args.dom, &args.xml_desc.to_string_lossy(), "domainsnapshot")?;
        let domain = world.domain_mut(&args.dom)?;
        let name = moment.name.clone();
        if !flags.contains(DomainSnapshotCreateFlags::NO_METADATA) {
            push(&mut domain.snapshots, moment)?;
        }
        Ok(DomainSnapshotCreateXmlRet {
            snap: reference(&name, &args.dom),
        })
    });
    call.on::<DomainListAllSnapshots>(|world, args| {
        let domain = world.domain(&args.dom)?;
        let snapshots: Vec<_> = domain.snapshots.iter().map(|m| reference(&m.name, &args.dom)).collect();
        Ok(DomainListAllSnapshotsRet {
            ret: i32::try_from(snapshots.len()).unwrap_or(i32::MAX),
            snapshots,
        })
    });
    call.on::<DomainSnapshotLookupByName>(|world, args| {
        let domain = world.domain(&args.dom)?;
        of_snapshots(&domain.snapshots, &args.name).map(|m| DomainSnapshotLookupByNameRet {
            snap: reference(&m.name, &args.dom),
        })
    });
    call.on::<DomainSnapshotCurrent>(|world, args| {
        let domain = world.domain(&args.dom)?;
        let missing = || {
            let message = "Domain snapshot not found: the domain does not have a current snapshot";
            Refusal::new(ErrorNumber::ERR_NO_DOMAIN_SNAPSHOT, message)
        };
        let current = domain.snapshots.last().ok_or_else(missing)?;
        Ok(DomainSnapshotCurrentRet {
            snap: reference(&current.name, &args.dom),
        })
    });
    call.on::<DomainHasCurrentSnapshot>(|world, args| {
        world.domain(&args.dom).map(|d| DomainHasCurrentSnapshotRet {
            result: (!d.snapshots.is_empty()).into(),
        })
    });
    call.on::<DomainSnapshotGetXmlDesc>(|world, args| {
        let domain = world.domain(&args.snap.dom)?;
        of_snapshots(&domain.snapshots, &args.snap.name).map(|m| DomainSnapshotGetXmlDescRet {
            xml: m.xml("domainsnapshot").into(),
        })
    });
    call.on::<DomainSnapshotDelete>(|world, args| {
        let domain = world.domain_mut(&args.snap.dom)?;
        of_snapshots(&domain.snapshots, &args.snap.name)?;
        domain.snapshots.retain(|m| args.snap.name != *m.name);
        Ok(())
    });
    call.on::<DomainRevertToSnapshot>(|world, args| {
        let domain = world.domain(&args.snap.dom)?;
        let moment = of_snapshots(&domain.snapshots, &args.snap.name)?.clone();
        let (uuid, active) = (domain.uuid, domain.is_active());
        if active && !moment.running {
            world.stop_domain(&args.snap.dom, DomainShutoffReason::FROM_SNAPSHOT)?;
        }
        let mut files = world.take_files(uuid);
        files.replace(&moment.files);
        world.put_files(uuid, files);
        if moment.running && !active {
            world.start_domain(uuid, false, false)?;
        } else if let Some(domain) = world.domains.find_mut(&uuid).filter(|_| moment.running) {
            domain.state = DomainState::RUNNING;
        }
        Ok(())
    });
}

fn checkpoints(call: &mut Call<'_>) {
    let reference = |name: &str, dom: &DomainRef| DomainCheckpointRef {
        name: name.into(),
        dom: dom.clone(),
    };
    call.on::<DomainCheckpointCreateXml>(|world, args| {
        if !world.domain(&args.dom)?.is_active() {
            let message = "Operation not supported: cannot create checkpoint for inactive domain";
            return Err(Refusal::new(ErrorNumber::ERR_OPERATION_UNSUPPORTED, message));
        }
        let moment = world.new_moment(&args.dom, &args.xml_desc.to_string_lossy(), "domaincheckpoint")?;
        let domain = world.domain_mut(&args.dom)?;
        let name = push(&mut domain.checkpoints, moment)?;
        Ok(DomainCheckpointCreateXmlRet {
            checkpoint: reference(&name.to_string_lossy(), &args.dom),
        })
    });
    call.on::<DomainListAllCheckpoints>(|world, args| {
        let domain = world.domain(&args.dom)?;
        let checkpoints: Vec<_> = domain
            .checkpoints
            .iter()
            .map(|m| reference(&m.name, &args.dom))
            .collect();
        Ok(DomainListAllCheckpointsRet {
            ret: i32::try_from(checkpoints.len()).unwrap_or(i32::MAX),
            checkpoints,
        })
    });
    call.on::<DomainCheckpointLookupByName>(|world, args| {
        let domain = world.domain(&args.dom)?;
        of_checkpoints(&domain.checkpoints, &args.name).map(|m| DomainCheckpointLookupByNameRet {
            checkpoint: reference(&m.name, &args.dom),
        })
    });
    call.on::<DomainCheckpointGetXmlDesc>(|world, args| {
        let domain = world.domain(&args.checkpoint.dom)?;
        of_checkpoints(&domain.checkpoints, &args.checkpoint.name).map(|m| DomainCheckpointGetXmlDescRet {
            xml: m.xml("domaincheckpoint").into(),
        })
    });
    call.on::<DomainCheckpointDelete>(|world, args| {
        let domain = world.domain_mut(&args.checkpoint.dom)?;
        of_checkpoints(&domain.checkpoints, &args.checkpoint.name)?;
        domain.checkpoints.retain(|m| args.checkpoint.name != *m.name);
        Ok(())
    });
}
