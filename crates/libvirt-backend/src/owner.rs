//! Whose a domain is: a document in its metadata, the only thing that decides what may be touched.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use providerkit_backend::{ClusterId, MachineId, OperationId, Profile};
use serde::{Deserialize, Serialize};

/// The namespace of our element in a domain's metadata.
pub const NAMESPACE: &str = "https://bigfleet.dev/libvirt-provider/machine/1";
/// The prefix it is shown with.
pub const PREFIX: &str = "bigfleet";
/// The element.
const ELEMENT: &str = "machine";
/// libvirt takes and gives descriptions of 4 MiB at most, in which there is more than this.
const LARGEST: usize = 3 << 20;
/// The version of the document.
const SCHEMA: u32 = 1;

/// What is written on everything made, and what an inventory that was lost is rebuilt from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Owner {
    schema: u32,
    /// The provider's name.
    pub provider: String,
    /// The machine.
    pub machine: MachineId,
    /// The slot it fills.
    pub slot: String,
    /// The Create that made the domain.
    #[serde(with = "operation")]
    pub created_by: OperationId,
    /// The operation that made the disk: the Create, or a Drain that made it anew.
    #[serde(with = "operation")]
    pub disk_by: OperationId,
    /// The Configure whose blob its seed was made to carry, where it was delivered that way.
    #[serde(default, with = "maybe_operation", skip_serializing_if = "Option::is_none")]
    pub seed_by: Option<OperationId>,
    /// The pool its volumes are in.
    pub pool: String,
    /// The golden image its disk is copied from.
    pub image: String,
    /// What that image was then, if it can be told from another under the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_revision: Option<String>,
    /// Bytes its disk may grow to.
    #[serde(default)]
    pub disk_bytes: u64,
    /// What is for sale.
    pub profile: Profile,
    /// Whether the machine was once ready for use; until then it is an attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ready: bool,
    /// The guest's `/etc/machine-id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_id: Option<String>,
    /// Where it is bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<Binding>,
    /// When the domain was defined, in seconds since 1970.
    #[serde(default)]
    pub since: u64,
}

/// The cluster of a machine, with BigFleet's notes on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The cluster.
    pub cluster: ClusterId,
    /// BigFleet's notes; opaque.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl Owner {
    /// The owner of what a Create is about to make.
    #[must_use]
    pub fn new(
        provider: impl Into<String>,
        machine: MachineId,
        slot: impl Into<String>,
        operation: OperationId,
        profile: Profile,
    ) -> Self {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Self {
            schema: SCHEMA,
            provider: provider.into(),
            machine,
            slot: slot.into(),
            created_by: operation,
            disk_by: operation,
            seed_by: None,
            pool: String::new(),
            image: String::new(),
            image_revision: None,
            disk_bytes: 0,
            profile,
            ready: false,
            guest_id: None,
            binding: None,
            since: now.as_secs(),
        }
    }

    /// The element, as it stands in a domain's description.
    #[must_use]
    pub fn element(&self) -> String {
        format!(
            "<{PREFIX}:{ELEMENT} xmlns:{PREFIX}='{NAMESPACE}'>{}</{PREFIX}:{ELEMENT}>",
            self.text()
        )
    }

    /// The element as `virDomainSetMetadata` wants it, which adds the namespace itself.
    #[must_use]
    pub fn bare_element(&self) -> String {
        format!("<{ELEMENT}>{}</{ELEMENT}>", self.text())
    }

    /// The element as [`bare_element`](Self::bare_element) has it, without BigFleet's notes where they are too long for a
    /// domain's description; the provider's state is then the only one to have them. Says whether they are in it.
    #[must_use]
    pub fn fitting_element(&self) -> (String, bool) {
        let element = self.bare_element();
        if element.len() <= LARGEST {
            return (element, true);
        }
        let mut brief = self.clone();
        if let Some(binding) = &mut brief.binding {
            binding.metadata.clear();
        }
        (brief.bare_element(), false)
    }

    /// JSON in which XML has nothing to object to: everything but plain ASCII is escaped, and so are `<`, `>`, `&`.
    fn text(&self) -> String {
        // invariant: strings, numbers and maps with string keys always serialize.
        let json = serde_json::to_string(self).unwrap_or_default();
        let mut text = String::with_capacity(json.len());
        for c in json.chars() {
            match c {
                ' '..='~' if !matches!(c, '<' | '>' | '&') => text.push(c),
                _ => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        text.push_str(&format!("\\u{unit:04x}"));
                    }
                }
            }
        }
        text
    }

    /// The owner named by a domain's description, if it is a provider of this kind.
    #[must_use]
    pub fn find(domain: &roxmltree::Document<'_>) -> Option<Self> {
        let mut children = domain.root_element().children();
        let metadata = children.find(|node| node.has_tag_name("metadata"))?;
        let element = metadata
            .children()
            .find(|node| node.has_tag_name((NAMESPACE, ELEMENT)))?;
        serde_json::from_str(element.text()?).ok()
    }
}

mod maybe_operation {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use super::OperationId;

    #[allow(clippy::ref_option, reason = "serde hands over a reference to the field")]
    pub(super) fn serialize<S: Serializer>(id: &Option<OperationId>, serializer: S) -> Result<S::Ok, S::Error> {
        match id {
            Some(id) => serializer.collect_str(id),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<OperationId>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

mod operation {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use super::OperationId;

    pub(super) fn serialize<S: Serializer>(id: &OperationId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OperationId, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use providerkit_backend::CapacityType;

    use super::*;

    fn owner(machine: &str) -> Owner {
        let machine = MachineId::new(machine).unwrap();
        let profile = Profile::new("kvm.small", "rack1", CapacityType::OnDemand).resource("cpu", "2");
        Owner::new("p", machine, "slot", OperationId::mint(), profile)
    }

    fn round_trip(owner: &Owner) -> Option<Owner> {
        let xml = format!(
            "<domain><name>x</name><metadata>{}</metadata></domain>",
            owner.element()
        );
        Owner::find(&roxmltree::Document::parse(&xml).unwrap())
    }

    #[test]
    fn foreign_and_damaged_metadata_is_nobody() {
        for metadata in [
            "",
            "<metadata/>",
            "<metadata><m:machine xmlns:m='https://example.org'>{}</m:machine></metadata>",
            "<metadata><machine>{}</machine></metadata>",
            &format!("<metadata><x:machine xmlns:x='{NAMESPACE}'>{{}}</x:machine></metadata>"),
            &format!("<metadata><x:machine xmlns:x='{NAMESPACE}'/></metadata>"),
        ] {
            let xml = format!("<domain>{metadata}</domain>");
            assert_eq!(
                Owner::find(&roxmltree::Document::parse(&xml).unwrap()),
                None,
                "{metadata}"
            );
        }
    }

    #[test]
    fn notes_that_are_too_long_for_libvirt_are_left_out() {
        let mut owner = owner("m");
        let binding = |length| Binding {
            cluster: ClusterId::new("c").unwrap(),
            metadata: BTreeMap::from([("k".to_owned(), "n".repeat(length))]),
        };
        owner.binding = Some(binding(1 << 20));
        assert_eq!(owner.fitting_element(), (owner.bare_element(), true));
        owner.binding = Some(binding(4 << 20));
        let (element, whole) = owner.fitting_element();
        assert!(!whole && element.len() < 2000 && element.contains("\"c\""), "{element}");
    }

    #[test]
    fn the_prefix_libvirt_shows_does_not_matter() {
        let owner = owner("m");
        let xml = format!(
            "<domain><metadata><other:machine xmlns:other='{NAMESPACE}'>{}</other:machine></metadata></domain>",
            owner.text()
        );
        assert_eq!(Owner::find(&roxmltree::Document::parse(&xml).unwrap()), Some(owner));
    }

    proptest! {
        #[test]
        fn whatever_bigfleet_calls_things_comes_back(machine in ".{1,60}", cluster in "\\PC{1,20}", key in any::<String>(), value in any::<String>()) {
            let mut owner = owner(&machine);
            owner.binding = Some(Binding {
                cluster: ClusterId::new(cluster).unwrap(),
                metadata: BTreeMap::from([(key, value)]),
            });
            prop_assert!(owner.element().is_ascii());
            prop_assert_eq!(round_trip(&owner), Some(owner));
        }
    }
}
