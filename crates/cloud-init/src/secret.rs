//! What looks like a secret in a document that everybody who reads the seed can read.

use std::{fmt, io::Read};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use flate2::read::MultiGzDecoder;

/// Something in a document that should not be in a seed. `Display` says where and what, never the secret itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Line of the document, from 1. Inside base64, the line where that begins.
    pub line: usize,
    /// What it is.
    pub kind: SecretKind,
}

/// What kind of secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretKind {
    /// A PEM or OpenSSH private key.
    PrivateKey,
    /// A bootstrap token of kubeadm, by its shape.
    BootstrapToken,
    /// A value given to this name, which ends in `token`.
    Token(String),
    /// A password in plain text given to this name.
    Password(String),
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.kind {
            SecretKind::PrivateKey => f.write_str("a private key"),
            SecretKind::BootstrapToken => f.write_str("a bootstrap token"),
            SecretKind::Token(name) => write!(f, "a token (`{name}`)"),
            SecretKind::Password(name) => write!(f, "a password (`{name}`)"),
        }
    }
}

/// Base64 in base64 is looked into, and gzip in that, but not for ever.
const DEPTH: usize = 3;
const INFLATE_LIMIT: u64 = 16 << 20;

impl Secret {
    /// Everything in `document`, whatever it is, that obviously is a secret, in order; also in base64, and in gzip in that.
    #[must_use]
    pub fn find(document: &[u8]) -> Vec<Self> {
        let mut found = Vec::new();
        scan(document, DEPTH, &mut |line, kind| found.push(Self { line, kind }));
        found.sort_by_key(|secret| secret.line);
        found.dedup();
        found
    }
}

fn scan(document: &[u8], depth: usize, report: &mut dyn FnMut(usize, SecretKind)) {
    let text = String::from_utf8_lossy(document);
    for (number, line) in text.lines().enumerate() {
        in_line(line, &mut |kind| report(number + 1, kind));
    }
    if depth == 0 {
        return;
    }
    for (line, encoded) in encoded(&text) {
        let Ok(decoded) = ENGINE.decode(encoded) else { continue };
        let decoded = inflated(decoded);
        // Random words decode to bytes that are no text.
        if decoded.is_ascii() || std::str::from_utf8(&decoded).is_ok() {
            scan(&decoded, depth - 1, &mut |_, kind| report(line, kind));
        }
    }
}

fn inflated(bytes: Vec<u8>) -> Vec<u8> {
    let mut plain = Vec::new();
    match MultiGzDecoder::new(&bytes[..])
        .take(INFLATE_LIMIT)
        .read_to_end(&mut plain)
    {
        Ok(_) => plain,
        // Not gzip: what it was is looked at.
        Err(_) => bytes,
    }
}

fn in_line(line: &str, report: &mut dyn FnMut(SecretKind)) {
    if line.contains("-----BEGIN ") && line.contains("PRIVATE KEY-----") {
        report(SecretKind::PrivateKey);
    }
    if line
        .split(|symbol: char| !symbol.is_ascii_alphanumeric() && symbol != '.')
        .any(is_bootstrap_token)
    {
        report(SecretKind::BootstrapToken);
    }
    if line.trim_start().starts_with('#') {
        return;
    }
    for (at, symbol) in line
        .char_indices()
        .filter(|(_, symbol)| matches!(symbol, ':' | '=' | ' '))
    {
        let (before, after) = line.split_at(at);
        let name = name_at_end(before);
        // "--token X" has no other sign between name and value; "$token" is no name.
        let ahead = before.get(..before.rfind(name).unwrap_or_default()).unwrap_or_default();
        let is_reference = ahead.ends_with(['$', '{']) && ahead.contains('$');
        if name.is_empty() || is_reference || (symbol == ' ' && !ahead.ends_with("--")) {
            continue;
        }
        let after = after.get(1..).unwrap_or_default();
        if let Some(kind) = kind_of(name).filter(|_| is_value(after)) {
            report(kind(name.to_owned()));
        }
    }
}

/// The word that `text` ends in, quotes and blanks aside.
fn name_at_end(text: &str) -> &str {
    let text = text.trim_end_matches(['"', '\'', ' ']);
    let word = |symbol: char| symbol.is_ascii_alphanumeric() || symbol == '_' || symbol == '-';
    let rest = text.trim_end_matches(word);
    text.get(rest.len()..).unwrap_or_default().trim_start_matches('-')
}

fn kind_of(name: &str) -> Option<fn(String) -> SecretKind> {
    let name = name.to_ascii_lowercase();
    if name.ends_with("token") {
        Some(SecretKind::Token)
    } else if name.ends_with("password") || name.ends_with("passwd") && name != "lock_passwd" {
        Some(SecretKind::Password)
    } else {
        None
    }
}

/// Whether what follows a name is a value of its own: not a reference, a hash, a switch or a heading.
fn is_value(after: &str) -> bool {
    let value = after.trim_start_matches([' ', '"', '\'']).trim_end();
    let word = value
        .split([' ', '"', '\'', ',', '}'])
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let switch = ["", "true", "false", "yes", "no", "on", "off", "null", "none", "~"].contains(&word.as_str());
    // `$6$…` is a hash, `$NAME` and `{{ name }}` references, `/path` a place, `=` a comparison.
    !switch && !value.starts_with(['$', '{', '/', '=', '<', '#'])
}

fn is_bootstrap_token(word: &str) -> bool {
    let plain = |part: &str| {
        part.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    word.split_once('.')
        .is_some_and(|(id, secret)| id.len() == 6 && secret.len() == 16 && plain(id) && plain(secret))
}

const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Words that may be base64, each with its line; lines that are nothing but such a word belong together.
fn encoded(text: &str) -> Vec<(usize, String)> {
    const SHORTEST: usize = 24;
    let mut words: Vec<(usize, String)> = Vec::new();
    let mut block: Option<(usize, String)> = None;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if !trimmed.is_empty() && trimmed.bytes().all(is_base64) {
            block
                .get_or_insert_with(|| (number + 1, String::new()))
                .1
                .push_str(trimmed);
            continue;
        }
        words.extend(block.take());
        let long = line.split(|symbol: char| !u8::try_from(symbol).is_ok_and(is_base64));
        words.extend(long.map(|word| (number + 1, word.to_owned())));
    }
    words.extend(block);
    words.retain(|(_, word)| word.len() >= SHORTEST);
    words
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(document: &str) -> Vec<String> {
        Secret::find(document.as_bytes())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn obvious_secrets_are_found_with_their_line() {
        for (document, expected) in [
            ("#cloud-config\ntoken: abc\n", "line 2: a token (`token`)"),
            (
                "a: 1\njoin: {\"bootstrap-token\": \"abc\"}\n",
                "line 2: a token (`bootstrap-token`)",
            ),
            ("K3S_TOKEN=abc\n", "line 1: a token (`K3S_TOKEN`)"),
            ("curl | sh -s - --token abc\n", "line 1: a token (`token`)"),
            (
                "kubeadm join 10.0.0.1:6443 abcdef.0123456789abcdef\n",
                "line 1: a bootstrap token",
            ),
            ("x: |\n  -----BEGIN OPENSSH PRIVATE KEY-----\n", "line 2: a private key"),
            (
                "users:\n- plain_text_passwd: hunter2\n",
                "line 2: a password (`plain_text_passwd`)",
            ),
            ("token: |\n  abc\n", "line 1: a token (`token`)"),
        ] {
            assert_eq!(found(document), [expected], "{document}");
        }
    }

    #[test]
    fn what_is_no_secret_is_not_found() {
        for document in [
            "#cloud-config\n# token: see the wiki\npackages: [jq]\n",
            "passwd: $6$salt$hash\nlock_passwd: true\npassword: \"$y$x\"\n",
            "TOKEN=$(cat /run/token)\nexport TOKEN=\"$1\"\n--token \"$TOKEN\"\n",
            "token: {{ ds.meta_data.token }}\n",
            "tokens: 3\ntoken:\ntoken: ~\nssh_authorized_keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB+x user@host]\n",
            "ssh_pwauth: false\ndisable_token: true\n",
            "cat > /etc/token\n[ \"$token\" = x ] || [ $token == y ]\n",
        ] {
            assert_eq!(found(document), [""; 0], "{document}");
        }
    }

    #[test]
    fn base64_and_gzip_hide_nothing() {
        let inner = ENGINE.encode("#!/bin/sh\nJOIN_TOKEN=abc\n");
        assert_eq!(
            found(&format!("a: 1\ncontent: {inner}\n")),
            ["line 2: a token (`JOIN_TOKEN`)"]
        );
        let twice = ENGINE.encode(format!("content: {inner}\n"));
        let (one, two) = twice.split_at(30);
        assert_eq!(
            found(&format!("x\n\n  {one}\n  {two}\n")),
            ["line 3: a token (`JOIN_TOKEN`)"]
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic_the_search(bytes in prop::collection::vec(any::<u8>(), 0..400), text in "\\PC*[:= ]\\PC*") {
            drop(Secret::find(&bytes));
            drop(Secret::find(text.as_bytes()));
            drop(Secret::find(ENGINE.encode(&bytes).as_bytes()));
        }
    }
}
