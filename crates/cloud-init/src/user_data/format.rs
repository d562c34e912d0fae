//! The first line, which decides what cloud-init makes of a document.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::Error;

/// What a document is, by its first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// `#cloud-config`: a YAML map.
    CloudConfig,
    /// `#cloud-config-archive`: a YAML list of documents.
    CloudConfigArchive,
    /// `#cloud-config-jsonp`: a JSON patch on the cloud-config.
    CloudConfigPatch,
    /// `#!`: run once, late in the first boot.
    Script,
    /// `#cloud-boothook`: run early in every boot.
    Boothook,
    /// `#include` or `#include-once`: addresses of more documents.
    Include,
    /// `#part-handler`: Python that handles parts of other types.
    PartHandler,
    /// `## template: jinja`: another of these once it is filled in.
    Jinja,
    /// A MIME message, most often of several of these.
    Mime,
}

/// Longest first where one begins another.
const FIRST_LINES: &[(&str, Format)] = &[
    ("#cloud-config-archive", Format::CloudConfigArchive),
    ("#cloud-config-jsonp", Format::CloudConfigPatch),
    ("#cloud-config", Format::CloudConfig),
    ("#cloud-boothook", Format::Boothook),
    ("#include-once", Format::Include),
    ("#include", Format::Include),
    ("#part-handler", Format::PartHandler),
    ("## template: jinja", Format::Jinja),
    ("#!", Format::Script),
    ("content-type:", Format::Mime),
    ("mime-version:", Format::Mime),
];

impl Format {
    /// The format of a document that is not compressed, if cloud-init would know it.
    pub(super) fn of(document: &[u8]) -> Option<Self> {
        FIRST_LINES
            .iter()
            .find(|(line, format)| begins(document, line, *format))
            .map(|(_, format)| *format)
    }

    /// The MIME type of a part of this format.
    pub(crate) fn mime_type(self) -> &'static str {
        match self {
            Self::CloudConfig => "text/cloud-config",
            Self::CloudConfigArchive => "text/cloud-config-archive",
            Self::CloudConfigPatch => "text/cloud-config-jsonp",
            Self::Script => "text/x-shellscript",
            Self::Boothook => "text/cloud-boothook",
            Self::Include => "text/x-include-url",
            Self::PartHandler => "text/part-handler",
            Self::Jinja => "text/jinja2",
            Self::Mime => "multipart/mixed",
        }
    }

    /// How it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CloudConfig => "#cloud-config",
            Self::CloudConfigArchive => "#cloud-config-archive",
            Self::CloudConfigPatch => "#cloud-config-jsonp",
            Self::Script => "script",
            Self::Boothook => "#cloud-boothook",
            Self::Include => "#include",
            Self::PartHandler => "#part-handler",
            Self::Jinja => "Jinja template",
            Self::Mime => "MIME message",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn begins(document: &[u8], line: &str, format: Format) -> bool {
    let Some((start, rest)) = document.split_at_checked(line.len()) else {
        return false;
    };
    // A word that only begins like one of these is none of them; a colon, an interpreter and an address may follow at once.
    let ends = matches!(format, Format::Script | Format::Mime) || rest.first().is_none_or(u8::is_ascii_whitespace);
    start.eq_ignore_ascii_case(line.as_bytes()) && ends
}

/// Why `document` is none of them.
pub(super) fn unknown(document: &[u8]) -> Error {
    const SHOWN: usize = 40;
    let start = document.get(..SHOWN).unwrap_or(document);
    Error::UnknownUserData {
        start: start.escape_ascii().to_string(),
        remedy: remedy(document),
    }
}

fn remedy(document: &[u8]) -> &'static str {
    let trimmed = document.trim_ascii_start();
    if document.starts_with(b"\xef\xbb\xbf") {
        "remove the byte order mark before its first line"
    } else if trimmed.len() < document.len() && Format::of(trimmed).is_some() {
        "remove the blank before its first line"
    } else if is_encoded(trimmed) {
        "it is base64, which NoCloud does not decode; give it decoded"
    } else if trimmed.starts_with(b"{") {
        "JSON (Ignition, perhaps) is no user-data of cloud-init; begin it with #cloud-config if it is a cloud-config"
    } else {
        "begin it with #cloud-config, #!, ## template: jinja, #include, #cloud-boothook or the headers of a MIME message, \
         or compress such a document with gzip"
    }
}

/// Whether the first whole group of a base64 text decodes to the beginning of a document.
fn is_encoded(text: &[u8]) -> bool {
    const GROUPS: usize = 32;
    let line = text.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    let whole = line.len().min(GROUPS) / 4 * 4;
    let start = BASE64_STANDARD
        .decode(line.get(..whole).unwrap_or_default())
        .unwrap_or_default();
    Format::of(&start).is_some() || start.starts_with(super::GZIP)
}
