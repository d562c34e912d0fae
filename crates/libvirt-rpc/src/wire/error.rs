//! Why bytes are no value, or a value no bytes.

/// A value that cannot be encoded, or bytes that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end before the value does.
    #[error("the message ends {missing} bytes too early")]
    Truncated {
        /// How many more bytes the value needs at least.
        missing: usize,
    },
    /// A list, string or byte array is longer than the protocol allows.
    #[error("`{field}` has {length} elements, the protocol allows {max}")]
    TooLong {
        /// Name of the field.
        field: &'static str,
        /// Its length.
        length: usize,
        /// The limit.
        max: u32,
    },
    /// A string to be sent contains a NUL, at which a daemon would silently cut it.
    #[error("a string contains a NUL byte at {position}")]
    Nul {
        /// Where.
        position: usize,
    },
    /// A union has a discriminant this library does not know, so its end cannot be found.
    #[error("`{union}` has no variant {tag}")]
    UnknownVariant {
        /// Name of the union.
        union: &'static str,
        /// The discriminant.
        tag: i32,
    },
    /// A word that says whether a value follows is neither 0 nor 1.
    #[error("{word:#x} is neither absent nor present")]
    NotOptional {
        /// The word.
        word: u32,
    },
    /// A message is shorter than its header or longer than any daemon accepts.
    #[error("a message of {length} bytes is outside the protocol's limits{}", hint(*.length))]
    FrameLength {
        /// The length word.
        length: u32,
    },
}

/// A length of four printable characters is text of another protocol: an HTTP answer, an ssh banner, a shell's output.
fn hint(length: u32) -> String {
    let bytes = length.to_be_bytes();
    if bytes
        .iter()
        .all(|b| b.is_ascii_graphic() || matches!(b, b' ' | b'\r' | b'\n' | b'\t'))
    {
        return format!(
            "; the peer sent text that begins with {:?}",
            String::from_utf8_lossy(&bytes)
        );
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_place_of_a_length_is_shown() {
        let http = Error::FrameLength {
            length: u32::from_be_bytes(*b"GET "),
        };
        assert!(http.to_string().contains("\"GET \""), "{http}");
        let garbage = Error::FrameLength { length: 0xffff_ffff };
        assert!(!garbage.to_string().contains("text"), "{garbage}");
    }
}
