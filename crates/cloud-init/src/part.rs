//! Documents of ours, beside the operator's.

use std::fmt;

use bytes::Bytes;

use crate::{
    Error, FileName, Format,
    mime::{self, Body},
    user_data,
};

/// One document of ours. `Debug` shows its size, not its content.
#[derive(Clone, PartialEq, Eq)]
pub struct Part {
    name: FileName,
    format: Format,
    content: Bytes,
}

impl Part {
    /// Checks a document by its first line, as [`UserData::new`](crate::UserData::new) does. A script is stored in the
    /// guest under `name`, and scripts run in the order of their names.
    ///
    /// # Errors
    /// [`Error::Part`] for what cloud-init would not know or that is a MIME message; [`Error::FileName`].
    pub fn new(name: &str, content: impl Into<Bytes>) -> Result<Self, Error> {
        let content = content.into();
        let refused = |reason: String| Error::Part {
            name: name.to_owned(),
            reason,
        };
        let format = user_data::check(&content).map_err(|error| refused(error.to_string()))?;
        if format == Format::Mime {
            return Err(refused("it is a MIME message; give its parts one by one".to_owned()));
        }
        Ok(Self {
            name: FileName::new(name)?,
            format,
            content,
        })
    }

    /// As a part of a message; one that yields gives way to the parts before it.
    pub(crate) fn body(&self, yields: bool) -> Body<'_> {
        Body::Document {
            name: self.name.as_str(),
            format: self.format,
            content: &self.content,
            yields,
        }
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part")
            .field("name", &self.name)
            .field("format", &self.format)
            .field("content", &format_args!("<{} bytes>", self.content.len()))
            .finish()
    }
}

/// `vendor-data`: what the provider wants of a machine. cloud-init puts it under the operator's user-data, which wins
/// wherever both say something, and can switch it off (`vendor_data: {enabled: false}`).
///
/// A key of cloud-config that both have, such as `runcmd`, is the operator's alone; a script always runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorData {
    parts: Vec<Part>,
}

impl VendorData {
    /// The documents, in order.
    #[must_use]
    pub fn new(parts: Vec<Part>) -> Self {
        Self { parts }
    }

    /// The file's content: one document as it is, several as a MIME message, none as an empty cloud-config.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match self.parts.as_slice() {
            [] => Bytes::from_static(b"#cloud-config\n{}\n"),
            [part] => part.content.clone(),
            parts => mime::multipart(&parts.iter().map(|part| part.body(false)).collect::<Vec<_>>()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_what_cloud_init_knows() {
        assert!(Part::new("10-x", "#!/bin/sh\n").is_ok());
        for (name, content) in [
            ("a/b", "#!/bin/sh\n"),
            ("a", "echo\n"),
            ("a", "#cloud-config\n- x\n"),
            ("a", "MIME-Version: 1.0\nContent-Type: text/plain\n\nx\n"),
        ] {
            assert!(Part::new(name, content).is_err(), "{name} {content}");
        }
    }

    #[test]
    fn one_part_stays_what_it_is() {
        let part = |name| Part::new(name, "#!/bin/sh\n").unwrap();
        assert_eq!(VendorData::new(vec![part("a")]).to_bytes(), "#!/bin/sh\n");
        assert!(
            VendorData::new(vec![part("a"), part("b")])
                .to_bytes()
                .starts_with(b"Content-Type: multipart/mixed;")
        );
        assert!(VendorData::new(Vec::new()).to_bytes().starts_with(b"#cloud-config\n"));
    }
}
