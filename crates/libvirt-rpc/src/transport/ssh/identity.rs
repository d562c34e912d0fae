//! Who we are: private keys in files, and the agent's.

use std::{path::PathBuf, sync::Arc};

use russh::{
    client::{AuthResult, Handle, Handler},
    keys::{
        self, HashAlg, PrivateKey, PrivateKeyWithHashAlg,
        agent::{AgentIdentity, client::AgentClient},
        ssh_key,
    },
};

use super::{Proof, proofs};
use crate::{Error, connection::options::Options, uri::Uri};

/// Keys ssh looks for when it is told none.
const DEFAULT_KEYS: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];

/// Logs in as `user` with all there is, and says what there was if none of it is taken.
pub(super) async fn log_in<H>(session: &mut Handle<H>, user: &str, uri: &Uri, options: &Options) -> Result<(), Error>
where
    H: Handler<Error = Error>,
{
    let mut login = Login {
        session,
        user,
        tried: Vec::new(),
        accepted: String::new(),
    };
    let named = uri.parameter("keyfile").map(PathBuf::from);
    let mut order = proofs(uri)?;
    if order.is_empty() {
        // A key that is named is meant before all an agent may have: servers count how often they are asked.
        order = match named {
            Some(_) => vec![Proof::Key, Proof::Agent],
            None => vec![Proof::Agent, Proof::Key],
        };
    }
    for proof in order {
        let done = match proof {
            Proof::Agent => login.with_agent(options).await?,
            Proof::Key => login.with_files(named.clone(), options).await?,
        };
        if done {
            return Ok(());
        }
    }
    Err(login.refused())
}

struct Login<'a, H: Handler> {
    session: &'a mut Handle<H>,
    user: &'a str,
    tried: Vec<String>,
    /// What the server would take.
    accepted: String,
}

impl<H: Handler<Error = Error>> Login<'_, H> {
    async fn with_files(&mut self, named: Option<PathBuf>, options: &Options) -> Result<bool, Error> {
        let candidates = match named {
            Some(path) => vec![path],
            None => {
                let folder = std::env::home_dir().unwrap_or_default().join(".ssh");
                let keys = DEFAULT_KEYS.map(|name| folder.join(name)).into_iter();
                let found: Vec<_> = keys.filter(|path| path.exists()).collect();
                if found.is_empty() {
                    let list = DEFAULT_KEYS.join(", ");
                    self.tried
                        .push(format!("there is none of {list} in {}", folder.display()));
                }
                found
            }
        };
        for path in candidates {
            let shown = path.display().to_string();
            match read(&path, options) {
                Ok(key) => {
                    let hash = self.hash(&key.algorithm()).await?;
                    let key = PrivateKeyWithHashAlg::new(Arc::new(key), hash);
                    let answer = self.session.authenticate_publickey(self.user, key).await;
                    let answer = answer.map_err(Error::from)?;
                    if self.judge(&answer, &format!("key {shown}")) {
                        return Ok(true);
                    }
                }
                Err(problem) => self.tried.push(format!("key {shown}: {problem}")),
            }
        }
        Ok(false)
    }

    async fn with_agent(&mut self, options: &Options) -> Result<bool, Error> {
        let usual = || std::env::var_os("SSH_AUTH_SOCK").filter(|socket| !socket.is_empty());
        let Some(socket) = options.agent.clone().or_else(|| usual().map(PathBuf::from)) else {
            self.tried
                .push("there is no agent (SSH_AUTH_SOCK is not set)".to_owned());
            return Ok(false);
        };
        let shown = socket.display().to_string();
        let mut agent = match AgentClient::connect_uds(&socket).await {
            Ok(agent) => agent,
            Err(error) => {
                self.tried.push(format!("agent {shown}: {error}"));
                return Ok(false);
            }
        };
        let identities = match agent.request_identities().await {
            Ok(identities) => identities,
            Err(error) => {
                self.tried.push(format!("agent {shown}: {error}"));
                return Ok(false);
            }
        };
        if identities.is_empty() {
            self.tried.push(format!("agent {shown} has no keys"));
        }
        for identity in identities {
            let AgentIdentity::PublicKey { key, comment } = identity else {
                continue;
            };
            let hash = self.hash(&key.algorithm()).await?;
            let signed = self
                .session
                .authenticate_publickey_with(self.user, key, hash, &mut agent);
            let what = format!("key `{comment}` of agent {shown}");
            match signed.await {
                Ok(answer) => {
                    if self.judge(&answer, &what) {
                        return Ok(true);
                    }
                }
                Err(error) => self.tried.push(format!("{what}: {error}")),
            }
        }
        Ok(false)
    }

    /// How an RSA key signs: as well as the server understands.
    async fn hash(&self, algorithm: &ssh_key::Algorithm) -> Result<Option<HashAlg>, Error> {
        if !matches!(algorithm, ssh_key::Algorithm::Rsa { .. }) {
            return Ok(None);
        }
        let best = self.session.best_supported_rsa_hash().await;
        let best = best.map_err(Error::from)?;
        // Not SHA-1, which is all that is left when the server names none of these and is refused by all of today's.
        Ok(Some(best.flatten().unwrap_or(HashAlg::Sha512)))
    }

    fn judge(&mut self, answer: &AuthResult, what: &str) -> bool {
        match answer {
            AuthResult::Success => true,
            AuthResult::Failure {
                remaining_methods,
                partial_success,
            } => {
                let names: Vec<_> = remaining_methods.iter().map(<&'static str>::from).collect();
                self.accepted = names.join(", ");
                let answer = if *partial_success {
                    "is not enough"
                } else {
                    "is refused"
                };
                self.tried.push(format!("{what} {answer}"));
                false
            }
        }
    }

    fn refused(self) -> Error {
        let (user, tried) = (self.user, self.tried.join("; "));
        let accepted = match self.accepted.as_str() {
            "" => String::new(),
            methods => format!("; the server takes {methods}"),
        };
        Error::auth(format!("ssh does not let user `{user}` in: {tried}{accepted}"))
    }
}

fn read(path: &std::path::Path, options: &Options) -> Result<PrivateKey, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("it cannot be read: {error}"))?;
    match keys::decode_secret_key(&text, None) {
        Ok(key) => Ok(key),
        Err(keys::Error::KeyIsEncrypted) => {
            let Some(passphrase) = options.passphrase.as_ref() else {
                return Err(
                    "it is encrypted; give its passphrase with `Options::passphrase`, or use an agent".to_owned(),
                );
            };
            keys::decode_secret_key(&text, Some(passphrase.text()))
                .map_err(|error| format!("it cannot be decrypted with the passphrase given: {error}"))
        }
        Err(error) => Err(format!("it cannot be understood: {error}")),
    }
}
