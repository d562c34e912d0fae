//! Why a connection ended.

use std::{fmt, io, sync::Arc, time::Duration};

use crate::wire;

/// Why a connection is gone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// It was closed on this side, or every handle of it dropped.
    Closed,
    /// The daemon, or something on the way, closed it.
    Eof,
    /// Reading or writing failed.
    Io(Arc<io::Error>),
    /// The peer does not speak the protocol; `text` is what it said, if that was text.
    Protocol {
        /// What is wrong.
        error: wire::Error,
        /// The beginning of what it said.
        text: Option<String>,
    },
    /// Nothing came for so long that the peer must be dead.
    Silent(Duration),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("it was closed on this side"),
            Self::Eof => f.write_str("the peer closed it"),
            Self::Io(error) => write!(f, "{error}"),
            Self::Protocol { text: Some(text), .. } => {
                write!(f, "the peer does not speak libvirt's protocol but says {text:?}")
            }
            Self::Protocol { error, text: None } => {
                write!(f, "the peer breaks the protocol: {error}")
            }
            Self::Silent(time) => write!(f, "the peer was silent for {time:?}"),
        }
    }
}

impl Reason {
    /// The peer sent `bytes`, in which `error` was found.
    pub(crate) fn junk(error: wire::Error, bytes: &[u8]) -> Self {
        let head = bytes.get(..bytes.len().min(160)).unwrap_or_default();
        // The cut may have split the last character.
        let whole = std::str::from_utf8(head).unwrap_or_else(|error| {
            let valid = head.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(valid).unwrap_or_default()
        });
        let is_text = whole.len() + 4 > head.len() && whole.len() >= 2;
        let shown = |c: char| !c.is_control() || matches!(c, '\t' | '\r' | '\n' | '\x1b');
        let text = (is_text && whole.chars().all(shown)).then(|| whole.trim().to_owned());
        Self::Protocol { error, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_and_binary_is_not() {
        let error = || wire::Error::FrameLength { length: 1 };
        let ssh = Reason::junk(error(), b"SSH-2.0-OpenSSH_9.2\r\n");
        assert!(ssh.to_string().contains("SSH-2.0-OpenSSH_9.2"), "{ssh}");
        assert!(Reason::junk(error(), &[0xff; 40]).to_string().contains("outside"));
        assert!(Reason::junk(error(), &[0, 0, 0, 1]).to_string().contains("outside"));
    }
}
