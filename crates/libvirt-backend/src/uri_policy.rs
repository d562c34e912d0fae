//! Which libvirt URIs are used at all: those that nobody on the way can read or answer instead.

use libvirt_rpc::uri::{Transport, Uri};

/// Checks a host's URI.
///
/// # Errors
/// A sentence that says what is wrong with it and what to write instead; a password in it is not repeated.
pub fn check(text: &str) -> Result<Uri, String> {
    let uri: Uri = text
        .parse()
        .map_err(|error: libvirt_rpc::uri::Error| error.to_string())?;
    if uri.driver() == "test" {
        return Err("the test driver has no machines; use a `qemu` URI".to_owned());
    }
    if uri.driver() != "qemu" {
        return Err(format!("driver `{}` is not supported; use a `qemu` URI", uri.driver()));
    }
    let on = |name| {
        uri.switch(name)
            .map_err(|error: libvirt_rpc::uri::Error| error.to_string())
    };
    match uri.transport() {
        Transport::Tcp => {
            return Err(
                "plaintext tcp lets anybody on the way run machines on the host; use qemu+tls or qemu+ssh".to_owned(),
            );
        }
        Transport::Tls if on("no_verify")? => {
            return Err(
                "`no_verify` accepts any server that answers; put the host's authority into `pkipath` instead"
                    .to_owned(),
            );
        }
        Transport::Ssh | Transport::Libssh | Transport::Libssh2 => {
            if on("no_verify")? {
                return Err(
                    "`no_verify` accepts any host key; put the host's key into `known_hosts` instead".to_owned(),
                );
            }
            match uri.parameter("known_hosts_verify") {
                None | Some("normal") => {}
                Some(other) => {
                    return Err(format!(
                        "`known_hosts_verify={other}` trusts a host that nobody has checked; put its key into \
                         `known_hosts` and leave the parameter out"
                    ));
                }
            }
        }
        Transport::Ext => {
            return Err("the ext transport runs any command; use qemu+ssh".to_owned());
        }
        _ => {}
    }
    if uri.is_session() {
        return Err(
            "`/session` is one user's own daemon, without networks, and ends with the login; use `/system`".to_owned(),
        );
    }
    if uri.path() != "/system" {
        return Err(format!(
            "the path is `{}`, but machines are made on `/system`",
            uri.path()
        ));
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_safe_passes() {
        for uri in [
            "qemu:///system",
            "qemu+unix:///system?socket=/run/libvirt/libvirt-sock",
            "qemu+ssh://bigfleet@host-a/system?keyfile=/etc/k&known_hosts=/etc/kh",
            "qemu+libssh://bigfleet@host-a/system?known_hosts_verify=normal",
            "qemu+tls://host-a/system?pkipath=/etc/pki",
            "qemu://host-a/system",
        ] {
            assert!(check(uri).is_ok(), "{uri}: {:?}", check(uri));
        }
    }

    #[test]
    fn what_anybody_could_read_or_answer_is_refused_with_the_reason() {
        for (uri, word) in [
            ("qemu+tcp://host/system", "plaintext"),
            ("qemu+tls://host/system?no_verify=1", "no_verify"),
            ("qemu+ssh://host/system?no_verify=1", "no_verify"),
            (
                "qemu+libssh://host/system?known_hosts_verify=auto",
                "known_hosts_verify=auto",
            ),
            (
                "qemu+ssh://host/system?known_hosts_verify=ignore",
                "known_hosts_verify=ignore",
            ),
            ("qemu+ext:///system?command=/bin/x", "ext"),
            ("qemu:///session", "/session"),
            ("qemu+ssh://host/", "/system"),
            ("test:///default", "test driver"),
            ("xen:///system", "xen"),
            ("qemu//system", "no libvirt URI"),
        ] {
            let error = check(uri).unwrap_err();
            assert!(error.contains(word), "{uri}: {error}");
        }
    }
}
