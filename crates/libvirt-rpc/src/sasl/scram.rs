//! SCRAM (RFC 5802, RFC 7677), without channel binding.

use std::{borrow::Cow, num::NonZeroU32};

use ring::{
    digest, hmac, pbkdf2,
    rand::{SecureRandom as _, SystemRandom},
};

use super::credentials::Credentials;
use crate::{Error, base64};

/// "n,,": no channel binding, no other identity. What follows it is signed.
const HEADER: &str = "n,,";

/// More would keep this side busy for the daemon's pleasure.
const ITERATIONS: u32 = 1_000_000;

/// One exchange.
pub(super) struct Scram {
    hash: Hash,
    credentials: Credentials,
    state: State,
}

enum State {
    Fresh,
    Asked { nonce: String, bare: String },
    Proved { server: hmac::Key, whole: String },
    Done,
}

#[derive(Clone, Copy)]
struct Hash {
    digest: &'static digest::Algorithm,
    hmac: hmac::Algorithm,
    pbkdf2: pbkdf2::Algorithm,
}

impl Scram {
    pub(super) fn sha1(credentials: Credentials) -> Self {
        Self::with(
            Hash {
                digest: &digest::SHA1_FOR_LEGACY_USE_ONLY,
                hmac: hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
                pbkdf2: pbkdf2::PBKDF2_HMAC_SHA1,
            },
            credentials,
        )
    }

    pub(super) fn sha256(credentials: Credentials) -> Self {
        Self::with(
            Hash {
                digest: &digest::SHA256,
                hmac: hmac::HMAC_SHA256,
                pbkdf2: pbkdf2::PBKDF2_HMAC_SHA256,
            },
            credentials,
        )
    }

    fn with(hash: Hash, credentials: Credentials) -> Self {
        Self {
            hash,
            credentials,
            state: State::Fresh,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    pub(super) fn first(&mut self) -> Result<Vec<u8>, Error> {
        let mut random = [0; 24];
        SystemRandom::new()
            .fill(&mut random)
            .map_err(|_| Error::auth("SASL: the system gives no random bytes"))?;
        Ok(self.ask(base64::encode(&random)))
    }

    fn ask(&mut self, nonce: String) -> Vec<u8> {
        let name = prepared(self.credentials.name())
            .replace('=', "=3D")
            .replace(',', "=2C");
        let bare = format!("n={name},r={nonce}");
        let message = format!("{HEADER}{bare}");
        self.state = State::Asked { nonce, bare };
        message.into_bytes()
    }

    /// What to say next. Nothing, once the daemon has proved that it knows the password too.
    pub(super) fn next(&mut self, challenge: &[u8]) -> Result<Vec<u8>, &'static str> {
        let challenge = std::str::from_utf8(challenge).map_err(|_| "the daemon's message is not text")?;
        match std::mem::replace(&mut self.state, State::Fresh) {
            State::Asked { nonce, bare } => self.prove(&nonce, &bare, challenge),
            State::Proved { server, whole } => {
                if challenge.starts_with("e=") {
                    return Err("the daemon refuses the name or password");
                }
                let proof = challenge.strip_prefix("v=").and_then(|rest| {
                    let proof = rest.split(',').next().unwrap_or_default();
                    base64::decode(proof)
                });
                match proof.map(|proof| hmac::verify(&server, whole.as_bytes(), &proof)) {
                    Some(Ok(())) => {
                        self.state = State::Done;
                        Ok(Vec::new())
                    }
                    _ => Err("the daemon does not know the password itself; it is an impostor"),
                }
            }
            State::Fresh | State::Done => Err("the daemon asks for more than the mechanism has"),
        }
    }

    fn prove(&mut self, nonce: &str, bare: &str, challenge: &str) -> Result<Vec<u8>, &'static str> {
        let mut parts = challenge.split(',');
        let mut part = |name| parts.next().and_then(|part| part.strip_prefix(name));
        let (Some(theirs), Some(salt), Some(count)) = (part("r="), part("s="), part("i=")) else {
            return Err("the daemon's challenge is malformed");
        };
        if theirs.len() <= nonce.len() || !theirs.starts_with(nonce) {
            return Err("the daemon's nonce does not continue ours");
        }
        let salt = base64::decode(salt).ok_or("the salt is not base64")?;
        let count = count
            .parse()
            .ok()
            .and_then(NonZeroU32::new)
            .filter(|count| count.get() <= ITERATIONS)
            .ok_or("the daemon asks for no or too many iterations")?;

        let Hash { digest, hmac, pbkdf2 } = self.hash;
        let sign = |key: &[u8], what: &[u8]| hmac::sign(&hmac::Key::new(hmac, key), what);
        let mut salted = vec![0; digest.output_len()];
        let password = prepared(self.credentials.password());
        pbkdf2::derive(pbkdf2, count, &salt, password.as_bytes(), &mut salted);
        let client_key = sign(&salted, b"Client Key");
        let stored = digest::digest(digest, client_key.as_ref());
        let last = format!("c={},r={theirs}", base64::encode(HEADER.as_bytes()));
        let whole = format!("{bare},{challenge},{last}");
        let signature = sign(stored.as_ref(), whole.as_bytes());
        let proof: Vec<u8> = std::iter::zip(client_key.as_ref(), signature.as_ref())
            .map(|(key, signature)| key ^ signature)
            .collect();
        self.state = State::Proved {
            server: hmac::Key::new(hmac, sign(&salted, b"Server Key").as_ref()),
            whole,
        };
        Ok(format!("{last},p={}", base64::encode(&proof)).into_bytes())
    }
}

/// SASLprep; what it forbids is passed as it is and left to the daemon to judge, as Cyrus does.
fn prepared(text: &str) -> Cow<'_, str> {
    stringprep::saslprep(text).unwrap_or(Cow::Borrowed(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> Credentials {
        Credentials::new("user", "pencil")
    }

    /// Client's first, server's first, client's final and server's final message.
    fn plays(mut scram: Scram, nonce: &str, lines: [&str; 4]) {
        assert_eq!(scram.ask(nonce.to_owned()), lines[0].as_bytes());
        assert_eq!(scram.next(lines[1].as_bytes()).unwrap(), lines[2].as_bytes());
        assert!(!scram.is_done());
        assert_eq!(scram.next(lines[3].as_bytes()).unwrap(), b"");
        assert!(scram.is_done());
        assert!(scram.next(b"more").is_err());
    }

    #[test]
    fn rfc_5802_section_5() {
        plays(
            Scram::sha1(user()),
            "fyko+d2lbbFgONRv9qkxdawL",
            [
                "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
                "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
                "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
                "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
            ],
        );
    }

    #[test]
    fn rfc_7677_section_3() {
        plays(
            Scram::sha256(user()),
            "rOprNGfwEbeRWgbNEkqO",
            [
                "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
                "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
                "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
                "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
            ],
        );
    }

    #[test]
    fn a_daemon_that_cheats_is_found_out() {
        let asked = || {
            let mut scram = Scram::sha256(user());
            scram.ask("abc".to_owned());
            scram
        };
        for challenge in [
            "r=abc,s=AAAA,i=4096",
            "r=xyzabc,s=AAAA,i=4096",
            "r=abcd,s=AAAA,i=0",
            "r=abcd,s=AAAA,i=4000000000",
            "r=abcd,s=!,i=4096",
            "m=x,r=abcd,s=AAAA,i=4096",
            "",
        ] {
            assert!(asked().next(challenge.as_bytes()).is_err(), "{challenge}");
        }
        for last in ["v=AAAA", "v=", "", "e=invalid-proof"] {
            let mut scram = asked();
            scram.next(b"r=abcd,s=AAAA,i=1").unwrap();
            assert!(scram.next(last.as_bytes()).is_err(), "{last}");
            assert!(!scram.is_done());
        }
    }

    #[test]
    fn names_are_prepared_and_escaped() {
        let mut scram = Scram::sha256(Credentials::new("a=b,c\u{ad}", "x"));
        assert_eq!(scram.ask("r".to_owned()), b"n,,n=a=3Db=2Cc,r=r");
    }
}
