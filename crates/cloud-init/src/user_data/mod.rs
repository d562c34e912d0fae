//! User-data: what the operator wants of a machine, kept as it is.

mod format;
mod message;

use std::{fmt, io::Read};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;

pub use self::format::Format;
use crate::{
    Error, Part,
    mime::{self, Body},
    secret::Secret,
    yaml::{self, Root},
};

const GZIP: &[u8] = b"\x1f\x8b";

/// Within these, cloud-init looks for `mime-version:` to tell a MIME message from everything else.
const MIME_WINDOW: usize = 4096;

/// Checked user-data.
///
/// `Debug` shows its size, not its content.
#[derive(Clone)]
pub struct UserData {
    raw: Bytes,
    /// What `raw` is, or holds compressed.
    plain: Bytes,
    format: Format,
    parts: Vec<Part>,
}

impl UserData {
    /// Most bytes of a document.
    pub const LIMIT: usize = 1 << 20;
    /// Most bytes of one that came compressed.
    const PLAIN_LIMIT: usize = 16 << 20;

    /// A cloud-config that wants nothing. NoCloud needs the file even so.
    #[must_use]
    pub fn none() -> Self {
        let raw = Bytes::from_static(b"#cloud-config\n{}\n");
        Self {
            plain: raw.clone(),
            raw,
            format: Format::CloudConfig,
            parts: Vec::new(),
        }
    }

    /// Checks an operator's document as far as that can be done without the machine: its first line, and behind it what
    /// that line promises. With gzip, the same inside.
    ///
    /// # Errors
    /// A document over [`LIMIT`](Self::LIMIT), one whose first line cloud-init does not know (it would boot the machine
    /// and do nothing), or one that is broken: a `#cloud-config` that is no YAML map, a MIME message cloud-init would
    /// not take for one or whose end is missing, damaged gzip.
    pub fn new(raw: impl Into<Bytes>) -> Result<Self, Error> {
        let raw = raw.into();
        if raw.len() > Self::LIMIT {
            return Err(Error::UserDataTooLarge {
                size: raw.len(),
                limit: Self::LIMIT,
            });
        }
        let plain = if raw.starts_with(GZIP) {
            inflate(&raw)?
        } else {
            raw.clone()
        };
        let format = check(&plain)?;
        Ok(Self {
            raw,
            plain,
            format,
            parts: Vec::new(),
        })
    }

    /// The same with one more part of ours behind it, in a MIME message that holds both.
    ///
    /// The operator's document is carried unchanged (but for its gzip), and wins: where both are cloud-configs, ours adds keys and appends to
    /// lists, and replaces nothing. What can do without should rather go into [`VendorData`](crate::VendorData).
    #[must_use]
    pub fn with(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// What the operator's document is, inside gzip if that is how it came.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The operator's document as it was given.
    #[must_use]
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// What looks like a secret in the operator's document, also where it is compressed or in base64.
    ///
    /// A seed is readable to root of the machine, and to whoever reads the pool, for as long as the machine exists (F64).
    #[must_use]
    pub fn secrets(&self) -> Vec<Secret> {
        Secret::find(&self.plain)
    }

    /// The file's content: the operator's document itself, or the MIME message if there are parts of ours.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        if self.parts.is_empty() {
            return self.raw.clone();
        }
        // Uncompressed: cloud-init looks for no message in a compressed part, and spoils what is not ASCII there.
        let theirs = if self.format == Format::Mime {
            // Nested, its own headers become the part's.
            Body::Message(&self.plain)
        } else {
            Body::Document {
                name: "user-data",
                format: self.format,
                content: &self.plain,
                yields: false,
            }
        };
        let ours = self.parts.iter().map(|part| part.body(true));
        mime::multipart(&std::iter::once(theirs).chain(ours).collect::<Vec<_>>())
    }
}

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserData")
            .field("format", &self.format)
            .field("raw", &format_args!("<{} bytes>", self.raw.len()))
            .field("parts", &self.parts)
            .finish()
    }
}

fn inflate(raw: &[u8]) -> Result<Bytes, Error> {
    let broken = |reason: String| Error::BrokenUserData { kind: "gzip", reason };
    let mut plain = Vec::new();
    let limit = UserData::PLAIN_LIMIT as u64;
    MultiGzDecoder::new(raw)
        .take(limit + 1)
        .read_to_end(&mut plain)
        .map_err(|error| broken(error.to_string()))?;
    if plain.len() > UserData::PLAIN_LIMIT {
        return Err(broken(format!("more than {limit} bytes inside")));
    }
    Ok(plain.into())
}

/// The format of a document, if it holds what its first line promises.
pub(crate) fn check(document: &[u8]) -> Result<Format, Error> {
    let format = Format::of(document).ok_or_else(|| format::unknown(document))?;
    let broken = |reason: String| Error::BrokenUserData {
        kind: format.name(),
        reason,
    };
    let is_message = looks_like_mime(document);
    match format {
        Format::Mime if !is_message => Err(broken(format!(
            "cloud-init looks for `MIME-Version:` in the first {MIME_WINDOW} bytes; put it there"
        ))),
        Format::Mime => message::check(document).map_err(broken),
        _ if is_message => Err(broken(format!(
            "`mime-version:` in its first {MIME_WINDOW} bytes makes cloud-init take it for a MIME message; move that further down"
        ))),
        Format::CloudConfig => yaml_root(document, &[Root::Mapping, Root::Empty], "a map").map_err(broken),
        Format::CloudConfigArchive => yaml_root(document, &[Root::Sequence], "a list").map_err(broken),
        Format::Jinja => {
            let rest = document.splitn(2, |byte| *byte == b'\n').nth(1).unwrap_or_default();
            match Format::of(rest) {
                Some(Format::Jinja | Format::Mime) | None => {
                    Err(broken("its second line is no first line of user-data".to_owned()))
                }
                Some(_) => Ok(()),
            }
        }
        _ => Ok(()),
    }?;
    Ok(format)
}

/// Whether cloud-init takes a document for a MIME message.
pub(crate) fn looks_like_mime(document: &[u8]) -> bool {
    let mark = b"mime-version:";
    let window = document.get(..MIME_WINDOW).unwrap_or(document);
    window.windows(mark.len()).any(|at| at.eq_ignore_ascii_case(mark))
}

fn yaml_root(document: &[u8], allowed: &[Root], wanted: &str) -> Result<(), String> {
    let text = std::str::from_utf8(document).map_err(|error| error.to_string())?;
    let root = yaml::root(text)?;
    if allowed.contains(&root) {
        Ok(())
    } else {
        Err(format!("the YAML is not {wanted}"))
    }
}

#[cfg(test)]
mod tests;
