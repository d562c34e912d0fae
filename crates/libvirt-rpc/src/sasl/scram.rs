//! SCRAM (RFC 5802, RFC 7677) without channel binding.

use std::num::NonZeroU32;

use ring::{
    digest, hmac, pbkdf2,
    rand::{SecureRandom as _, SystemRandom},
};

use super::Mechanism;
use crate::{Error, base64, connection::options::Credentials};

/// Iterations above which a server only wants to keep us busy.
const MAX_ITERATIONS: u32 = 1_000_000;
/// The client's first words: no channel binding, no other identity.
const BARE: &str = "n,,";

pub(super) struct Scram {
    hash: (pbkdf2::Algorithm, hmac::Algorithm, &'static digest::Algorithm),
    user: String,
    password: String,
    nonce: String,
    step: Step,
}

enum Step {
    First,
    Proof,
    Verdict { signature: Vec<u8> },
    Done,
}

impl Scram {
    pub(super) fn sha256(credentials: &Credentials) -> Result<Self, Error> {
        Self::new(
            (pbkdf2::PBKDF2_HMAC_SHA256, hmac::HMAC_SHA256, &digest::SHA256),
            credentials,
            nonce()?,
        )
    }

    pub(super) fn sha1(credentials: &Credentials) -> Result<Self, Error> {
        let hash = (
            pbkdf2::PBKDF2_HMAC_SHA1,
            hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            &digest::SHA1_FOR_LEGACY_USE_ONLY,
        );
        Self::new(hash, credentials, nonce()?)
    }

    fn new(
        hash: (pbkdf2::Algorithm, hmac::Algorithm, &'static digest::Algorithm),
        credentials: &Credentials,
        nonce: String,
    ) -> Result<Self, Error> {
        let user = credentials.user.replace('=', "=3D").replace(',', "=2C");
        Ok(Self {
            hash,
            user,
            password: credentials.password.clone(),
            nonce,
            step: Step::First,
        })
    }

    fn prove(&mut self, challenge: &str) -> Result<Vec<u8>, Error> {
        let (derive, sign, hash) = self.hash;
        let nonce = attribute(challenge, "r").filter(|r| r.starts_with(&self.nonce) && *r != self.nonce);
        let salt = attribute(challenge, "s").and_then(base64::decode);
        let rounds = attribute(challenge, "i")
            .and_then(|i| i.parse().ok())
            .filter(|i| *i <= MAX_ITERATIONS);
        let (Some(nonce), Some(salt), Some(rounds)) = (nonce, salt, rounds.and_then(NonZeroU32::new)) else {
            return Err(refused("the daemon's challenge makes no sense"));
        };
        let mut salted = vec![0; hash.output_len()];
        pbkdf2::derive(derive, rounds, &salt, self.password.as_bytes(), &mut salted);
        let salted = hmac::Key::new(sign, &salted);
        let client = hmac::sign(&salted, b"Client Key");
        let stored = digest::digest(hash, client.as_ref());
        let bare = format!("c={},r={nonce}", base64::encode(BARE.as_bytes()));
        let all = format!("n={},r={},{challenge},{bare}", self.user, self.nonce);
        let signature = hmac::sign(&hmac::Key::new(sign, stored.as_ref()), all.as_bytes());
        let proof: Vec<u8> = client
            .as_ref()
            .iter()
            .zip(signature.as_ref())
            .map(|(a, b)| a ^ b)
            .collect();
        let server = hmac::sign(&salted, b"Server Key");
        let server = hmac::sign(&hmac::Key::new(sign, server.as_ref()), all.as_bytes());
        self.step = Step::Verdict {
            signature: server.as_ref().to_vec(),
        };
        Ok(format!("{bare},p={}", base64::encode(&proof)).into_bytes())
    }
}

impl Mechanism for Scram {
    fn first(&mut self) -> Option<Vec<u8>> {
        self.step = Step::Proof;
        Some(format!("{BARE}n={},r={}", self.user, self.nonce).into_bytes())
    }

    fn next(&mut self, challenge: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let challenge = std::str::from_utf8(challenge).map_err(|_| refused("the daemon's challenge is no text"))?;
        match &self.step {
            Step::Proof => self.prove(challenge).map(Some),
            Step::Verdict { signature } => {
                let shown = attribute(challenge, "v").and_then(base64::decode);
                if shown.as_ref() != Some(signature) {
                    return Err(refused("the daemon does not know the password either"));
                }
                self.step = Step::Done;
                Ok(None)
            }
            Step::First | Step::Done => Ok(None),
        }
    }

    fn is_satisfied(&self) -> bool {
        matches!(self.step, Step::Done)
    }
}

fn nonce() -> Result<String, Error> {
    let mut bytes = [0; 18];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| refused("there is no randomness"))?;
    Ok(base64::encode(&bytes))
}

fn attribute<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message
        .split(',')
        .find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn refused(what: &str) -> Error {
    Error::auth(format!("SASL SCRAM: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    #[test]
    fn the_published_example_holds() {
        let credentials = Credentials {
            user: "user".to_owned(),
            password: "pencil".to_owned(),
        };
        let mut scram = Scram::sha256(&credentials).unwrap();
        scram.nonce = "rOprNGfwEbeRWgbNEkqO".to_owned();
        assert_eq!(scram.first().unwrap(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let proof = scram.next(challenge).unwrap().unwrap();
        assert_eq!(
            String::from_utf8(proof).unwrap(),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert!(!scram.is_satisfied());
        assert!(scram.next(b"v=AAAA").is_err());
        assert!(
            scram
                .next(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
                .unwrap()
                .is_none()
        );
        assert!(scram.is_satisfied());
    }

    #[test]
    fn a_challenge_with_another_nonce_or_endless_work_is_refused() {
        let credentials = Credentials {
            user: "u,=".to_owned(),
            password: "p".to_owned(),
        };
        for challenge in [
            "r=other,s=AAAA,i=1",
            "r=NONCE,s=AAAA,i=1",
            "r=NONCEx,s=AAAA,i=2000000000",
            "e=nope",
        ] {
            let mut scram = Scram::sha1(&credentials).unwrap();
            let first = String::from_utf8(scram.first().unwrap()).unwrap();
            assert!(first.contains("n=u=2C=3D,"), "{first}");
            let challenge = challenge.replace("NONCE", &scram.nonce);
            assert!(scram.next(challenge.as_bytes()).is_err(), "{challenge}");
        }
    }
}
