//! The little YAML that seeds need: quoting on the way out, and what kind of document something is on the way in.

use std::fmt::Write;

use saphyr_parser::{Event, Parser};

/// What a YAML stream holds, as far as cloud-init asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// Nothing but comments.
    Empty,
    Mapping,
    Sequence,
    Scalar,
}

/// Reads one YAML document to its end, and says what it is. Aliases are not followed, so no document is expensive.
pub(crate) fn root(text: &str) -> Result<Root, String> {
    let mut root = Root::Empty;
    let mut documents = 0;
    let mut depth = 0_usize;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| error.to_string())?;
        let kind = match event {
            Event::DocumentStart(_) => {
                documents += 1;
                continue;
            }
            Event::MappingEnd | Event::SequenceEnd => {
                depth = depth.saturating_sub(1);
                continue;
            }
            Event::MappingStart(..) => Root::Mapping,
            Event::SequenceStart(..) => Root::Sequence,
            Event::Scalar(..) | Event::Alias(_) => Root::Scalar,
            _ => continue,
        };
        if documents > 1 {
            return Err(format!("a second document begins at line {}", span.start.line()));
        }
        if depth == 0 {
            root = kind;
        }
        if kind != Root::Scalar {
            depth += 1;
        }
    }
    Ok(root)
}

/// `text` as a double-quoted scalar that every YAML reader takes for the same string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for symbol in text.chars() {
        match symbol {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            ' '..='~' => out.push(symbol),
            // Letters of the world stay readable; what PyYAML refuses as unprintable, or would fold, is escaped.
            _ if symbol.is_alphanumeric() => out.push(symbol),
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\U{:08x}", u32::from(symbol));
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_root_of_a_document_is_told() {
        for (text, expected) in [
            ("", Root::Empty),
            ("# only\n", Root::Empty),
            ("a: 1\nb: [1, {c: d}]\n", Root::Mapping),
            ("---\na: &x {b: 1}\nc: *x\n...\n", Root::Mapping),
            ("- a\n- b: 1\n", Root::Sequence),
            ("hello", Root::Scalar),
        ] {
            assert_eq!(root(text).unwrap(), expected, "{text}");
        }
        for text in ["a: 1\n\tb: 2\n", "a: [1\n", "a: 1\n---\nb: 2\n", "a: b: c"] {
            assert!(root(text).is_err(), "{text}");
        }
    }

    #[test]
    fn quoting_leaves_plain_text_readable() {
        assert_eq!(quoted("rack 1 – é"), "\"rack 1 \\U00002013 é\"");
        assert_eq!(quoted("a\"b\\c\n\u{7f}"), "\"a\\\"b\\\\c\\n\\U0000007f\"");
    }

    proptest! {
        #[test]
        fn a_quoted_string_is_read_back_as_it_was(text in any::<String>()) {
            let quoted = quoted(&text);
            let scalar = Parser::new_from_str(&quoted).find_map(|event| match event.unwrap().0 {
                Event::Scalar(value, ..) => Some(value.into_owned()),
                _ => None,
            });
            prop_assert_eq!(scalar.unwrap(), text);
        }

        #[test]
        fn no_text_panics_the_reader(text in any::<String>()) {
            drop(root(&text));
        }
    }
}
