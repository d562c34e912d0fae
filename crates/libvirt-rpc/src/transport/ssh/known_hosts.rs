//! Files of keys that hosts are known by, as `sshd(8)` describes them.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use ring::hmac;
use russh::keys::{Algorithm, HashAlg, PublicKey};

use super::{
    Verify,
    host_key::{HostKeyError, HostKeyProblem, Place},
};
use crate::{
    base64,
    uri::{Error, Transport, Uri},
};

const PORT: u16 = 22;

/// What is known of a host.
#[derive(Debug)]
pub(super) struct KnownHost {
    host: String,
    files: Vec<PathBuf>,
    entries: Vec<Entry>,
    verify: Verify,
}

#[derive(Debug)]
struct Entry {
    place: Place,
    sort: Sort,
    key: PublicKey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Key,
    Revoked,
    Authority,
}

impl KnownHost {
    /// Reads the files, anew for every connection.
    pub(super) fn read(uri: &Uri, host: &str) -> Result<Self, Error> {
        let files = files(uri)?;
        let host = pattern(host, uri.port().unwrap_or(PORT));
        let mut entries = Vec::new();
        for file in &files {
            let text = match fs::read(file) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(Error::File {
                        path: file.clone(),
                        problem: format!("the keys of hosts cannot be read: {error}"),
                    });
                }
            };
            entries.extend(parse(file, &String::from_utf8_lossy(&text), &host));
        }
        let verify = Verify::of(uri)?;
        Ok(Self {
            host,
            files,
            entries,
            verify,
        })
    }

    /// The order in which sorts of keys are asked for: those the host is known by come first, or it would be asked for
    /// one that is not known.
    pub(super) fn preferred(&self, all: &[Algorithm]) -> Vec<Algorithm> {
        let known = |algorithm: &Algorithm| {
            let same = |entry: &Entry| same_type(&entry.key.algorithm(), algorithm);
            self.entries.iter().any(|entry| entry.sort == Sort::Key && same(entry))
        };
        let (first, rest): (Vec<_>, Vec<_>) = all.iter().cloned().partition(known);
        first.into_iter().chain(rest).collect()
    }

    /// Whether the host is the one that is known.
    pub(super) fn check(&self, key: &PublicKey) -> Result<(), Box<HostKeyError>> {
        let same = |entry: &&Entry| entry.key.key_data() == key.key_data();
        let of = |sort: Sort| self.entries.iter().filter(move |entry| entry.sort == sort);
        // Revoked is revoked, whatever else a file says and however little the URI wants to know.
        if let Some(entry) = of(Sort::Revoked).find(same) {
            let revoked = entry.place.clone();
            return Err(self.error(key, HostKeyProblem::Revoked { revoked }));
        }
        if of(Sort::Key).any(|entry| same(&entry)) {
            return Ok(());
        }
        if self.verify == Verify::Not {
            return Ok(());
        }
        if let Some(entry) = of(Sort::Key).next() {
            let known = entry.place.clone();
            return Err(self.error(key, HostKeyProblem::Changed { known }));
        }
        if self.verify == Verify::Learning {
            match self.learn(key) {
                Ok(()) => return Ok(()),
                Err(error) => tracing::warn!(host = self.host, %error, "the key of the host cannot be kept"),
            }
        }
        let authorities = of(Sort::Authority).map(|entry| entry.place.clone()).collect();
        Err(self.error(key, HostKeyProblem::Unknown { authorities }))
    }

    fn error(&self, key: &PublicKey, problem: HostKeyProblem) -> Box<HostKeyError> {
        Box::new(HostKeyError {
            host: self.host.clone(),
            key_type: key.algorithm().to_string(),
            fingerprint: key.fingerprint(HashAlg::Sha256).to_string(),
            files: self.files.clone(),
            problem,
        })
    }

    /// Adds the key to the first file.
    fn learn(&self, key: &PublicKey) -> io::Result<()> {
        let file = self.files.first().ok_or(io::ErrorKind::NotFound)?;
        let key = key.to_openssh().map_err(io::Error::other)?;
        if let Some(folder) = file.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let before = fs::read(file).unwrap_or_default();
        let line_end = if before.is_empty() || before.ends_with(b"\n") {
            ""
        } else {
            "\n"
        };
        let mut open = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(file)?;
        // In one piece, so that others who learn at the same time do not get in between.
        open.write_all(format!("{line_end}{} {}\n", self.host, key.trim()).as_bytes())?;
        tracing::info!(host = self.host, file = %file.display(), "the key of the host is kept");
        Ok(())
    }
}

/// RSA keys are one type, however they sign.
fn same_type(one: &Algorithm, other: &Algorithm) -> bool {
    let rsa = |algorithm: &Algorithm| matches!(algorithm, Algorithm::Rsa { .. });
    (rsa(one) && rsa(other)) || one == other
}

fn pattern(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == PORT { host } else { format!("[{host}]:{port}") }
}

fn files(uri: &Uri) -> Result<Vec<PathBuf>, Error> {
    if let Some(file) = uri.parameter("known_hosts") {
        return Ok(vec![PathBuf::from(file)]);
    }
    let home = std::env::home_dir().ok_or(Error::Missing {
        transport: "ssh",
        what: "`known_hosts=`, since there is no home folder",
    })?;
    Ok(match uri.transport() {
        Transport::Ssh => vec![home.join(".ssh/known_hosts"), PathBuf::from("/etc/ssh/ssh_known_hosts")],
        // libvirt has a file of its own for these.
        _ => {
            let config = std::env::var_os("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
            vec![config.join("libvirt/known_hosts")]
        }
    })
}

fn parse(file: &Path, text: &str, host: &str) -> Vec<Entry> {
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(at, line)| {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                return None;
            }
            let place = Place {
                file: file.to_owned(),
                line: at + 1,
            };
            let (sort, rest) = match line.split_once(char::is_whitespace) {
                Some(("@revoked", rest)) => (Sort::Revoked, rest),
                Some(("@cert-authority", rest)) => (Sort::Authority, rest),
                Some((marker, _)) if marker.starts_with('@') => {
                    tracing::warn!(%place, "a marker is not known; the line is left out");
                    return None;
                }
                _ => (Sort::Key, line),
            };
            let (patterns, key) = rest.trim_start().split_once(char::is_whitespace)?;
            if !matches(patterns, host) {
                return None;
            }
            match PublicKey::from_openssh(key.trim()) {
                Ok(key) => Some(Entry { place, sort, key }),
                Err(error) => {
                    tracing::warn!(%place, %error, "the key cannot be read; the line is left out");
                    None
                }
            }
        })
        .collect()
}

/// Whether a list of patterns means a host; one with `!` that does means the list does not.
fn matches(patterns: &str, host: &str) -> bool {
    let mut found = false;
    for pattern in patterns.split(',') {
        let (negated, pattern) = match pattern.strip_prefix('!') {
            Some(pattern) => (true, pattern),
            None => (false, pattern),
        };
        let is = match pattern.strip_prefix("|1|") {
            Some(hashed) => hash_matches(hashed, host),
            None => glob(pattern.to_ascii_lowercase().as_bytes(), host.as_bytes()),
        };
        if is && negated {
            return false;
        }
        found |= is;
    }
    found
}

/// `salt|hash` of the host's name.
fn hash_matches(hashed: &str, host: &str) -> bool {
    let parts = hashed.split_once('|');
    let parts = parts.and_then(|(salt, hash)| base64::decode(salt).zip(base64::decode(hash)));
    let Some((salt, hash)) = parts else { return false };
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
    hmac::verify(&key, host.as_bytes(), &hash).is_ok()
}

/// `*` is anything, `?` any one; brackets mean themselves.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(b'?') => {
                at += 1;
                from += 1;
            }
            Some(byte) if text.get(from) == Some(byte) => {
                at += 1;
                from += 1;
            }
            _ => match star {
                // The last star takes one more.
                Some((star_at, taken)) => {
                    at = star_at + 1;
                    from = taken + 1;
                    star = Some((star_at, from));
                }
                None => return false,
            },
        }
    }
    pattern
        .get(at..)
        .is_none_or(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_sshd_says_they_mean() {
        for (patterns, host) in [
            ("host", "host"),
            ("other,host", "host"),
            ("*", "anything"),
            ("*.example.org", "a.b.example.org"),
            ("h?st", "host"),
            ("HOST", "host"),
            ("[host]:*", "[host]:2222"),
            ("*,!other", "host"),
            ("a*b*c", "aXbXbXc"),
        ] {
            assert!(matches(patterns, host), "{patterns} is {host}");
        }
        for (patterns, host) in [
            ("host", "host2"),
            ("", "host"),
            ("*,!host", "host"),
            ("!host,*", "host"),
            ("!other", "host"),
            ("*.example.org", "example.org"),
            ("h?st", "hst"),
            ("host", "[host]:2222"),
            ("a*b*c", "aXbX"),
            ("|1|no-base64!|x", "host"),
            ("|1|", "host"),
        ] {
            assert!(!matches(patterns, host), "{patterns} is not {host}");
        }
    }

    #[test]
    fn lines_that_are_none_are_left_out() {
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
        let text = format!(
            "# {key}\nhost\nhost ssh-ed25519 AAAA\n@strange host {key}\n  @revoked  host {key} comment\nhost {key}\n"
        );
        let found = parse(Path::new("f"), &text, "host");
        let found: Vec<_> = found.iter().map(|entry| (entry.place.line, entry.sort)).collect();
        assert_eq!(found, [(5, Sort::Revoked), (6, Sort::Key)]);
    }

    #[test]
    fn the_port_is_part_of_the_name_unless_it_is_the_usual_one() {
        assert_eq!(pattern("Host", 22), "host");
        assert_eq!(pattern("host", 2222), "[host]:2222");
        assert_eq!(pattern("::1", 2222), "[::1]:2222");
    }
}
