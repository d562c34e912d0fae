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

    /// The outermost element.
    pub(super) fn root(&self) -> Node<'_, 'a> {
        self.document.root_element()
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
            Some("TB") => 1_000_000_000_000,
            Some("T" | "TiB") => 1 << 40,
            Some("P" | "PiB") => 1 << 50,
            Some("E" | "EiB") => 1 << 60,
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

    /// All elements of a name, wherever they are.
    pub(super) fn all(&self, name: &'a str) -> impl Iterator<Item = Node<'_, 'a>> {
        self.document.descendants().filter(move |node| node.has_tag_name(name))
    }
}

/// The description with a UUID in it, and without metadata, which is kept apart.
pub(super) fn normalised(text: &str, uuid: Uuid) -> String {
    rewritten(text, uuid, |_| None)
}

/// The same, with something new at the beginning of the elements that lack it.
pub(super) fn rewritten(text: &str, uuid: Uuid, mut lacks: impl FnMut(Node<'_, '_>) -> Option<String>) -> String {
    let Ok(document) = Document::parse(text) else {
        return text.to_owned();
    };
    let root = document.root_element();
    let mut edits = Vec::new();
    for name in APART {
        edits.extend(child(root, name).map(|node| (node.range(), String::new())));
    }
    if child(root, "uuid").is_none()
        && let Some(name) = child(root, "name")
    {
        let end = name.range().end;
        edits.push((end..end, format!("<uuid>{uuid}</uuid>")));
    }
    for node in root.descendants().filter(Node::is_element) {
        let Some(addition) = lacks(node) else { continue };
        let range = node.range();
        let Some(end) = text.get(range.clone()).and_then(|element| element.find('>')) else {
            continue;
        };
        let end = range.start + end;
        if text.get(..end).is_some_and(|open| open.ends_with('/')) {
            let name = node.tag_name().name();
            edits.push((end - 1..end + 1, format!(">{addition}</{name}>")));
        } else {
            edits.push((end + 1..end + 1, addition));
        }
    }
    edits.sort_by_key(|(range, _)| range.start);
    let mut out = text.to_owned();
    for (range, new) in edits.into_iter().rev() {
        out.replace_range(range, &new);
    }
    out
}

/// What a description has and is kept apart from it, because calls change it.
const APART: [&str; 3] = ["metadata", "title", "description"];

/// A child of an element.
pub(super) fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| child.has_tag_name(name))
}

/// Text that can stand in XML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\'', "&apos;")
}
