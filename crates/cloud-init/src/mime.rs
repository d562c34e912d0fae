//! MIME messages of several parts, as cloud-init reads them.

use std::fmt::Write as _;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;

use crate::{Format, hash};

/// How a cloud-config that yields is merged into the ones before: new keys are added, lists appended, nothing replaced.
pub(crate) const YIELDING: &str = "list(append)+dict(no_replace,recurse_list)+str()";

/// One part.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Body<'a> {
    /// A document of its own.
    Document {
        name: &'a str,
        format: Format,
        content: &'a [u8],
        /// Whether it gives way to the parts before.
        yields: bool,
    },
    /// A whole message: its headers become the part's.
    Message(&'a [u8]),
}

/// A message of `parts`, in their order. Its boundary is a hash of them, so that equal parts give equal bytes.
pub(crate) fn multipart(parts: &[Body<'_>]) -> Bytes {
    let parts: Vec<Vec<u8>> = parts.iter().map(part).collect();
    let boundary = boundary(&parts);
    let mut message =
        format!("Content-Type: multipart/mixed; boundary=\"{boundary}\"\nMIME-Version: 1.0\n\n").into_bytes();
    for part in &parts {
        message.extend(format!("--{boundary}\n").into_bytes());
        message.extend(part);
        message.push(b'\n');
    }
    message.extend(format!("--{boundary}--\n").into_bytes());
    message.into()
}

fn part(body: &Body<'_>) -> Vec<u8> {
    match *body {
        Body::Message(message) => message.to_vec(),
        Body::Document {
            name,
            format,
            content,
            yields,
        } => {
            let mut headers = headers(name, &format!("{}; charset=\"utf-8\"", format.mime_type()));
            if yields && format == Format::CloudConfig {
                let _ = writeln!(headers, "Merge-Type: {YIELDING}");
            }
            if is_seven_bit(content) {
                headers.push_str("Content-Transfer-Encoding: 7bit\n\n");
                [headers.as_bytes(), content].concat()
            } else {
                encoded(headers, content)
            }
        }
    }
}

fn headers(name: &str, kind: &str) -> String {
    format!("Content-Type: {kind}\nMIME-Version: 1.0\nContent-Disposition: attachment; filename=\"{name}\"\n")
}

fn encoded(mut headers: String, content: &[u8]) -> Vec<u8> {
    const LINE: usize = 57;
    headers.push_str("Content-Transfer-Encoding: base64\n\n");
    for line in content.chunks(LINE) {
        BASE64_STANDARD.encode_string(line, &mut headers);
        headers.push('\n');
    }
    headers.into_bytes()
}

/// Whether `content` survives as it is, which an operator who looks at the seed can read.
fn is_seven_bit(content: &[u8]) -> bool {
    const LINE: usize = 998;
    let plain = content.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b' '..=b'~'));
    plain && content.split(|byte| *byte == b'\n').all(|line| line.len() <= LINE)
}

/// A boundary that occurs in none of `parts`.
fn boundary(parts: &[Vec<u8>]) -> String {
    let mut text = hash::base32(&parts.join(&0));
    while parts
        .iter()
        .any(|part| part.windows(text.len()).any(|at| at == text.as_bytes()))
    {
        text = hash::base32(text.as_bytes());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(content: &[u8]) -> Body<'_> {
        Body::Document {
            name: "s",
            format: Format::Script,
            content,
            yields: true,
        }
    }

    #[test]
    fn equal_parts_give_equal_bytes_and_others_another_boundary() {
        let one = multipart(&[script(b"#!/bin/sh\n")]);
        assert_eq!(one, multipart(&[script(b"#!/bin/sh\n")]));
        assert_ne!(
            one.split(|byte| *byte == b'\n').next(),
            multipart(&[script(b"#!/bin/dash\n")])
                .split(|byte| *byte == b'\n')
                .next()
        );
    }

    #[test]
    fn text_stays_readable_and_the_rest_is_encoded() {
        let text = |content| String::from_utf8(multipart(&[script(content)]).to_vec()).unwrap();
        assert!(text(b"#!/bin/sh\ntrue\n").contains("7bit\n\n#!/bin/sh\ntrue\n\n--"));
        for content in [
            &b"#!\xff"[..],
            b"#!/bin/sh\r\n",
            "ä".as_bytes(),
            "x".repeat(999).as_bytes(),
        ] {
            assert!(text(content).contains("base64"), "{content:?}");
        }
    }

    #[test]
    fn a_boundary_is_in_no_part() {
        let taken = hash::base32(b"x");
        assert_ne!(
            boundary(&[b"x".to_vec()]),
            boundary(&[b"x".to_vec(), taken.clone().into_bytes()])
        );
        assert_eq!(boundary(&[b"x".to_vec()]), taken);
    }
}
