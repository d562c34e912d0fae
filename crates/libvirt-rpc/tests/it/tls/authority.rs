//! Throw-away certificates.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
};

/// The serial number of all that is signed.
pub(crate) const SERIAL: u64 = 7;

/// An authority, with a folder for what it signs.
pub(crate) struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cacert.pem"), certificate.pem()).unwrap();
        Self {
            folder,
            issuer: Issuer::new(params, key),
        }
    }

    /// Signs a certificate for both ends, `NAMEcert.pem` and `NAMEkey.pem` beside the authority's own.
    pub(crate) fn sign(&self, file: &str, common_name: &str, hosts: &[&str]) {
        let mut params = params(common_name, hosts);
        params.serial_number = Some(SERIAL.into());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.file(&format!("{file}cert.pem")), certificate.pem()).unwrap();
        std::fs::write(self.file(&format!("{file}key.pem")), key.serialize_pem()).unwrap();
    }

    /// Revokes what was signed with a serial number.
    pub(crate) fn revoke(&self, serial: u64) {
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2024, 1, 1),
            next_update: rcgen::date_time_ymd(2124, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: serial.into(),
                revocation_time: rcgen::date_time_ymd(2024, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).unwrap();
        std::fs::write(self.file("cacrl.pem"), list.pem().unwrap()).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn params(common_name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params
}
