//! Where certificates are, and what is in them.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, pem, pem::PemObject};

use crate::uri::{self, Uri};

/// What a connection needs of the disk.
pub(super) struct Credentials {
    pub(super) roots: Vec<CertificateDer<'static>>,
    pub(super) roots_file: File,
    pub(super) revoked: Vec<CertificateRevocationListDer<'static>>,
    pub(super) identity: Option<Identity>,
}

/// Who this client is.
pub(super) struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) file: File,
}

/// A path, for what is said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File(PathBuf);

impl File {
    pub(super) fn bad(&self, problem: impl fmt::Display) -> uri::Error {
        uri::Error::File {
            path: self.0.clone(),
            problem: problem.to_string(),
        }
    }

    fn exists(&self) -> bool {
        self.0.exists()
    }

    fn read(&self) -> Result<Option<Vec<u8>>, uri::Error> {
        match std::fs::read(&self.0) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.bad(error)),
        }
    }

    /// Everything of one sort in the file.
    fn all<T: PemObject>(&self, bytes: &[u8]) -> Result<Vec<T>, uri::Error> {
        let found: Result<Vec<T>, pem::Error> = T::pem_slice_iter(bytes).collect();
        match found {
            Ok(found) if found.is_empty() => Err(self.bad("it holds nothing of the sort needed")),
            Ok(found) => Ok(found),
            Err(error) => Err(self.bad(error)),
        }
    }
}

impl Credentials {
    /// Reads what is there. The authority may be missing only when nobody asks it.
    pub(super) fn read(uri: &Uri, needs_roots: bool) -> Result<Self, uri::Error> {
        let home = (!rustix::process::getuid().is_root())
            .then(|| std::env::var_os("HOME"))
            .flatten();
        let places = Places::of(uri.parameter("pkipath"), home.as_ref().map(Path::new));
        let roots = match places.authority.read()? {
            Some(bytes) => places.authority.all(&bytes)?,
            None if needs_roots => {
                return Err(places
                    .authority
                    .bad("the certificate of the authority is missing; put it there or set `pkipath`"));
            }
            None => Vec::new(),
        };
        let revoked = match places.revoked.read()? {
            Some(bytes) => places.revoked.all(&bytes)?,
            None => Vec::new(),
        };
        let identity = match (places.certificate.read()?, places.key.read()?) {
            (None, None) => None,
            (Some(chain), Some(key)) => Some(Identity {
                chain: places.certificate.all(&chain)?,
                key: PrivateKeyDer::from_pem_slice(&key).map_err(|e| places.key.bad(e))?,
                file: places.certificate,
            }),
            (Some(_), None) => return Err(places.key.bad("the certificate has no key here")),
            (None, Some(_)) => {
                return Err(places.certificate.bad("the key has no certificate here"));
            }
        };
        Ok(Self {
            roots,
            roots_file: places.authority,
            revoked,
            identity,
        })
    }
}

/// libvirt's four files.
#[derive(Debug, PartialEq, Eq)]
struct Places {
    authority: File,
    revoked: File,
    certificate: File,
    key: File,
}

impl Places {
    /// With a `pkipath` all four are there. Otherwise those of the user come first, file by file, the certificate and
    /// its key together.
    fn of(pkipath: Option<&str>, home: Option<&Path>) -> Self {
        let below = |folder: &Path| Self {
            authority: File(folder.join("cacert.pem")),
            revoked: File(folder.join("cacrl.pem")),
            certificate: File(folder.join("clientcert.pem")),
            key: File(folder.join("clientkey.pem")),
        };
        if let Some(folder) = pkipath {
            return below(Path::new(folder));
        }
        let system = Self {
            authority: File("/etc/pki/CA/cacert.pem".into()),
            revoked: File("/etc/pki/CA/cacrl.pem".into()),
            certificate: File("/etc/pki/libvirt/clientcert.pem".into()),
            key: File("/etc/pki/libvirt/private/clientkey.pem".into()),
        };
        let Some(home) = home else {
            return system;
        };
        let own = below(&home.join(".pki/libvirt"));
        let first = |own: File, system| if own.exists() { own } else { system };
        let (certificate, key) = if own.certificate.exists() && own.key.exists() {
            (own.certificate, own.key)
        } else {
            (system.certificate, system.key)
        };
        Self {
            authority: first(own.authority, system.authority),
            revoked: first(own.revoked, system.revoked),
            certificate,
            key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pkipath_is_not_mixed_with_anything_and_the_users_files_are_file_by_file() {
        let only = Places::of(Some("/p"), Some(Path::new("/root")));
        assert_eq!(only.authority, File("/p/cacert.pem".into()));
        assert_eq!(only.key, File("/p/clientkey.pem".into()));

        let home = tempfile::tempdir().unwrap();
        let own = home.path().join(".pki/libvirt");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("cacert.pem"), "").unwrap();
        // A certificate without its key does not count.
        std::fs::write(own.join("clientcert.pem"), "").unwrap();
        let mixed = Places::of(None, Some(home.path()));
        assert_eq!(mixed.authority, File(own.join("cacert.pem")));
        assert_eq!(mixed.revoked, File("/etc/pki/CA/cacrl.pem".into()));
        let system = File("/etc/pki/libvirt/clientcert.pem".into());
        assert_eq!(mixed.certificate, system);
        std::fs::write(own.join("clientkey.pem"), "").unwrap();
        let both = Places::of(None, Some(home.path()));
        assert_eq!(both.key, File(own.join("clientkey.pem")));
        assert_eq!(Places::of(None, None).certificate, system);
    }
}
