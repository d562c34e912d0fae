//! The little that the daemon reads in descriptions.

use roxmltree::{Document, Node};

use super::call::Refusal;
use crate::wire::{constant::error::ErrorNumber, xdr::Uuid};

/// A description, read.
pub(super) struct Description<'a> {
    text: &'a str,
    document: Document<'a>,
}

impl<'a> Description<'a> {
    /// Reads a description of a sort: `domain`.
    pub(super) fn parse(text: &'a str, root: &str) -> Result<Self, Refusal> {
        let document = Document::parse(text)
            .map_err(|error| Refusal::new(ErrorNumber::ERR_XML_DETAIL, format!("(definition): {error}")))?;
        if document.root_element().tag_name().name() != root {
            let message = format!("XML error: root element is not <{root}>");
            return Err(Refusal::new(ErrorNumber::ERR_XML_ERROR, message));
        }
        Ok(Self { text, document })
    }

    /// The element at a path below the root.
    pub(super) fn element(&self, path: &[&str]) -> Option<Node<'_, 'a>> {
        path.iter().try_fold(self.document.root_element(), |node, name| {
            node.children().find(|child| child.tag_name().name() == *name)
        })
    }

    /// The text of the element at a path.
    pub(super) fn text(&self, path: &[&str]) -> Option<&str> {
        self.element(path)?.text().map(str::trim)
    }

    pub(super) fn name(&self) -> Result<String, Refusal> {
        let name = self.text(&["name"]).filter(|name| !name.is_empty());
        name.map(str::to_owned)
            .ok_or_else(|| Refusal::new(ErrorNumber::ERR_NO_NAME, "missing name information"))
    }

    pub(super) fn uuid(&self) -> Result<Option<Uuid>, Refusal> {
        let uuid = self.text(&["uuid"]).map(str::parse).transpose();
        uuid.map_err(|_| Refusal::new(ErrorNumber::ERR_XML_ERROR, "malformed uuid element"))
    }

    /// A size in bytes, whatever unit it is given in; `plain` is that of a number without.
    pub(super) fn size(&self, path: &[&str], plain: u64) -> Option<u64> {
        let element = self.element(path)?;
        let number: u64 = element.text()?.trim().parse().ok()?;
        let unit = match element.attribute("unit") {
            None => plain,
            Some("b" | "B" | "byte" | "bytes") => 1,
            Some("KB") => 1_000,
            Some("k" | "K" | "KiB") => 1 << 10,
            Some("MB") => 1_000_000,
            Some("M" | "MiB") => 1 << 20,
            Some("GB") => 1_000_000_000,
            Some("G" | "GiB") => 1 << 30,
            Some("T" | "TiB") => 1 << 40,
            Some(_) => return None,
        };
        number.checked_mul(unit)
    }

    /// The elements of `metadata` by namespace, and the plain sorts by name.
    pub(super) fn metadata(&self) -> Vec<(String, String)> {
        let raw = |node: Node<'_, '_>| self.text.get(node.range()).unwrap_or_default().to_owned();
        let custom = self
            .element(&["metadata"])
            .into_iter()
            .flat_map(|m| m.children().collect::<Vec<_>>());
        let custom = custom
            .filter(Node::is_element)
            .map(|node| (node.tag_name().namespace().unwrap_or_default().to_owned(), raw(node)));
        let plain = ["title", "description"]
            .into_iter()
            .filter_map(|name| self.text(&[name]).map(|text| (name.to_owned(), text.to_owned())));
        custom.chain(plain).collect()
    }

    /// Whether the guest agent has a channel.
    pub(super) fn has_agent(&self) -> bool {
        self.document
            .descendants()
            .any(|node| node.has_tag_name("target") && node.attribute("name") == Some("org.qemu.guest_agent.0"))
    }
}

/// The description with a UUID in it, and without metadata, which is kept apart.
pub(super) fn normalised(text: &str, root: &str, uuid: Uuid) -> String {
    let Ok(document) = Document::parse(text) else {
        return text.to_owned();
    };
    let child = |name: &str| {
        document
            .root_element()
            .children()
            .find(|c| c.has_tag_name(name))
            .map(|c| c.range())
    };
    let mut out = text.to_owned();
    if let Some(range) = child("metadata") {
        out.replace_range(range, "");
    }
    if child("uuid").is_none()
        && let Some(at) = out.find("</name>")
    {
        out.insert_str(at + "</name>".len(), &format!("<uuid>{uuid}</uuid>"));
    }
    debug_assert!(out.contains(root));
    out
}
