//! Descriptions of volumes.

use super::element::{Element, element};

/// How a file holds a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The bytes as they are.
    Raw,
    /// QEMU's own.
    Qcow2,
}

impl Format {
    /// The name libvirt has for it.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }

    /// The format of a name. ISO images are raw disks.
    #[must_use]
    pub(crate) fn of(name: &str) -> Option<Self> {
        match name {
            "raw" | "iso" => Some(Self::Raw),
            "qcow2" => Some(Self::Qcow2),
            _ => None,
        }
    }
}

/// A file that a disk is copied from on write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Backing {
    /// Where it is on the host.
    pub(crate) path: String,
    /// How it holds the disk. libvirt writes `raw` if it is not told (field report F36).
    pub(crate) format: Format,
}

/// A volume as a host describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) path: String,
    /// The format's name; absent for block devices of some pools.
    pub(crate) format: Option<String>,
    /// Bytes a guest sees.
    pub(crate) capacity: u64,
    pub(crate) backing: Option<String>,
    /// Its size on disk and when it was last written to: another content has another. Files have one.
    pub(crate) revision: Option<String>,
}

impl Description {
    /// Reads what `virStorageVolGetXMLDesc` says.
    pub(crate) fn parse(xml: &str) -> Option<Self> {
        let document = roxmltree::Document::parse(xml).ok()?;
        let root = document.root_element();
        let child = |parent: roxmltree::Node<'_, '_>, name: &str| {
            let found = parent.children().find(|node| node.has_tag_name(name));
            found.map(|node| node.id())
        };
        let node = |id| document.get_node(id);
        let target = node(child(root, "target")?)?;
        let text = |parent, name| {
            child(parent, name)
                .and_then(node)
                .and_then(|node| node.text())
                .map(str::to_owned)
        };
        let format = child(target, "format")
            .and_then(node)
            .and_then(|node| node.attribute("type"));
        let backing = child(root, "backingStore").and_then(node);
        Some(Self {
            path: text(target, "path")?,
            format: format.map(str::to_owned),
            capacity: text(root, "capacity")?.trim().parse().ok()?,
            backing: backing.and_then(|backing| text(backing, "path")),
            revision: child(target, "timestamps")
                .and_then(node)
                .and_then(|times| text(times, "mtime"))
                .map(|mtime| format!("{} {mtime}", text(root, "physical").unwrap_or_default())),
        })
    }
}

/// A disk that is copied on write from a base.
pub(crate) fn overlay(name: &str, capacity: u64, backing: &Backing) -> String {
    volume(name, capacity)
        .child(
            target(Format::Qcow2)
                // Version 3 of the format, which libvirt writes only when asked to.
                .child(element("compat").text("1.1")),
        )
        .child(
            element("backingStore")
                .child(element("path").text(&backing.path))
                .child(element("format").attribute("type", backing.format.name())),
        )
        .to_xml()
}

/// A raw volume of a size.
pub(crate) fn raw(name: &str, capacity: u64) -> String {
    volume(name, capacity).child(target(Format::Raw)).to_xml()
}

fn volume(name: &str, capacity: u64) -> Element {
    let bytes = |name| element(name).attribute("unit", "bytes");
    element("volume")
        .child(element("name").text(name))
        .child(bytes("capacity").text(capacity))
}

fn target(format: Format) -> Element {
    element("target")
        .child(element("format").attribute("type", format.name()))
        // Nobody on the host but QEMU needs to read a machine's disk or seed.
        .child(element("permissions").child(element("mode").text("0600")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_names_the_format_of_its_base() {
        let backing = Backing {
            path: "/pool/a&b.img".into(),
            format: Format::Raw,
        };
        let xml = overlay("disk.qcow2", 1 << 30, &backing);
        let read = roxmltree::Document::parse(&xml).unwrap();
        let store = read
            .descendants()
            .find(|node| node.has_tag_name("backingStore"))
            .unwrap();
        let format = store.children().find(|node| node.has_tag_name("format")).unwrap();
        assert_eq!(format.attribute("type"), Some("raw"));
        assert!(
            xml.contains("/pool/a&amp;b.img") && xml.contains("<compat>1.1</compat>"),
            "{xml}"
        );
    }

    #[test]
    fn a_description_is_read() {
        let xml = "<volume type='file'><name>b</name><capacity unit='bytes'>100663296</capacity>\
            <target><path>/p/b</path><format type='qcow2'/></target>\
            <backingStore><path>/p/a</path><format type='raw'/></backingStore></volume>";
        let read = Description::parse(xml).unwrap();
        assert_eq!(read.path, "/p/b");
        assert_eq!(read.format.as_deref(), Some("qcow2"));
        assert_eq!(read.capacity, 100_663_296);
        assert_eq!(read.backing.as_deref(), Some("/p/a"));
        assert_eq!(read.revision, None, "a device has no times");
        let times = "<format type='qcow2'/><timestamps><mtime>1341933637.27</mtime></timestamps>";
        let xml = xml
            .replace("<format type='qcow2'/>", times)
            .replace("<target>", "<physical>9</physical><target>");
        assert_eq!(
            Description::parse(&xml).unwrap().revision.as_deref(),
            Some("9 1341933637.27")
        );
        assert_eq!(Description::parse("<volume/>"), None);
    }
}
