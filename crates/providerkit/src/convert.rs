//! Between the wire and the engine.
//!
//! The engine keeps every machine encoded, so encoding is done once a change. It writes the fields itself: a profile's
//! are encoded once for all machines that share it, and no message is built in between.

use std::sync::Arc;

use bigfleet_proto as pb;
use bytes::Bytes;
use prost::{
    Message as _,
    encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len},
};
use providerkit_backend::{Machine, Profile, State};

use crate::engine::record::{Record, Shape};

/// Field numbers of `Machine` and of the messages inside it.
mod field {
    pub(super) const ID: u32 = 1;
    pub(super) const STATE: u32 = 2;
    pub(super) const HOST: u32 = 3;
    pub(super) const LAST_ERROR: u32 = 12;
    pub(super) const CLUSTER: u32 = 14;
    pub(super) const SHARD_METADATA: u32 = 15;
    /// `HostRef.provider`, and the key of a map entry.
    pub(super) const FIRST: u32 = 1;
    /// `HostRef.ref`, and the value of a map entry.
    pub(super) const SECOND: u32 = 2;
}

/// Bytes that a machine's own fields usually take beyond id and profile.
const TYPICAL_REST: usize = 96;

impl Shape {
    /// A profile under its number in the store.
    #[must_use]
    pub fn new(number: u64, profile: Arc<Profile>) -> Self {
        let wire = profile_fields(&profile).encode_to_vec().into();
        Self {
            number,
            zone: profile.zone.as_str().into(),
            profile,
            wire,
        }
    }
}

/// A machine message with the profile's fields only. Empty resources are absent (contract §8).
fn profile_fields(profile: &Profile) -> pb::Machine {
    let resources = |of: &std::collections::BTreeMap<String, String>| {
        (!of.is_empty()).then(|| pb::Resources { resources: of.clone() })
    };
    pb::Machine {
        instance_type: profile.instance_type.clone(),
        zone: profile.zone.clone(),
        capacity_type: profile.capacity_type as i32,
        price_per_hour: profile.price_per_hour,
        interruption_probability: profile.interruption_probability,
        resources: resources(&profile.resources),
        labels: profile.labels.clone(),
        allocatable: resources(&profile.allocatable),
        ..pb::Machine::default()
    }
}

/// A machine in list form.
pub(crate) fn encode(record: &Record) -> Bytes {
    let machine = &record.machine;
    let mut body = Vec::with_capacity(machine.id.as_str().len() + record.shape.wire.len() + TYPICAL_REST);
    put_text(field::ID, machine.id.as_str(), &mut body);
    put_state(machine.state, &mut body);
    if let Some(host) = &machine.host {
        put_pair(field::HOST, &host.provider, &host.reference, &mut body);
    }
    body.extend_from_slice(&record.shape.wire);
    if let Some(error) = &machine.last_error {
        put_text(field::LAST_ERROR, error, &mut body);
    }
    if let Some(cluster) = &machine.cluster {
        put_text(field::CLUSTER, cluster.as_str(), &mut body);
    }
    for (key, value) in &*machine.metadata {
        put_pair(field::SHARD_METADATA, key, value, &mut body);
    }
    let mut listed = Vec::with_capacity(body.len() + 5);
    pb::encoded::put_list_form(&body, &mut listed);
    listed.into()
}

fn put_text(tag: u32, text: &str, out: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

fn put_state(state: State, out: &mut Vec<u8>) {
    encode_key(field::STATE, WireType::Varint, out);
    encode_varint(state as u64, out);
}

/// A message of two texts.
fn put_pair(tag: u32, first: &str, second: &str, out: &mut Vec<u8>) {
    let len = |tag, text: &str| key_len(tag) + encoded_len_varint(text.len() as u64) + text.len();
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint((len(field::FIRST, first) + len(field::SECOND, second)) as u64, out);
    put_text(field::FIRST, first, out);
    put_text(field::SECOND, second, out);
}

/// A machine as a message: what [`encode`] writes, the long way.
#[must_use]
pub fn message(machine: &Machine) -> pb::Machine {
    pb::Machine {
        id: machine.id.as_str().to_owned(),
        state: machine.state as i32,
        host: machine.host.as_ref().map(|host| pb::HostRef {
            provider: host.provider.to_string(),
            r#ref: host.reference.to_string(),
        }),
        last_error: machine.last_error.as_deref().unwrap_or_default().to_owned(),
        cluster: machine.cluster.as_ref().map(ToString::to_string).unwrap_or_default(),
        shard_metadata: (*machine.metadata).clone(),
        ..profile_fields(&machine.profile)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_map, prelude::*};
    use providerkit_backend::{CapacityType, ClusterId, HostRef, MachineId};

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(String::new()),
            Just("k\0\u{1f600}\u{85}".to_owned()),
            "[a-z ]{1,200}"
        ]
    }

    prop_compose! {
        fn record()(
            id in "[a-z0-9-]{1,40}",
            state in 0..8_usize,
            host in prop::option::of((text(), text())),
            price in 0.0..100.0_f64,
            resources in btree_map(text(), text(), 0..4),
            labels in btree_map(text(), text(), 0..4),
            error in prop::option::of("[a-z]{1,20}"),
            cluster in prop::option::of("[a-z]{1,20}"),
            metadata in btree_map(text(), text(), 0..6),
        ) -> Record {
            let mut profile = Profile::new("type", "zone", CapacityType::Spot).price_per_hour(price);
            profile.resources = resources;
            profile.labels = labels;
            let shape = Arc::new(Shape::new(1, Arc::new(profile)));
            let mut machine = Machine::new(MachineId::new(id).unwrap(), Arc::clone(&shape.profile));
            machine.state = State::ALL[state];
            machine.host = host.map(|(provider, reference)| HostRef::new(provider, reference));
            machine.last_error = error.map(Into::into);
            machine.cluster = cluster.map(|name| ClusterId::new(name).unwrap());
            machine.metadata = Arc::new(metadata);
            Record::added(1, "slot".into(), 1, machine, shape)
        }
    }

    proptest! {
        #[test]
        fn what_is_kept_encoded_is_the_message(record in record()) {
            let list = pb::MachineList::decode(encode(&record)).unwrap();
            prop_assert_eq!(list.machines, vec![message(&record.machine)]);
        }
    }
}
