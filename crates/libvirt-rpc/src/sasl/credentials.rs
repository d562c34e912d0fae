//! Names and passwords, and libvirt's file of them.

use std::{fmt, io, path::PathBuf};

use crate::uri::{self, Uri};

/// A name and its password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    name: String,
    password: String,
}

impl Credentials {
    pub(crate) fn new(name: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            password: password.into(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn password(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What the first of libvirt's files that exists has for the host: `authfile`, that of the environment, the user's, the
/// machine's.
pub(crate) fn find(uri: &Uri) -> Result<Option<Credentials>, uri::Error> {
    let named = uri.parameter("authfile").map(PathBuf::from);
    let is_named = named.is_some();
    let own = || {
        let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        config.or_else(|| std::env::home_dir().map(|home| home.join(".config")))
    };
    let candidates = match named {
        Some(path) => vec![path],
        None => [
            std::env::var_os("LIBVIRT_AUTH_FILE").map(PathBuf::from),
            own().map(|config| config.join("libvirt/auth.conf")),
            Some("/etc/libvirt/auth.conf".into()),
        ]
        .into_iter()
        .flatten()
        .collect(),
    };
    for path in candidates {
        match std::fs::read_to_string(&path) {
            Ok(text) => return Ok(look_up(&text, uri.host().unwrap_or("localhost"))),
            // A file nobody named counts only where it can be read.
            Err(error)
                if !is_named && [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied].contains(&error.kind()) => {}
            Err(error) => {
                return Err(uri::Error::File {
                    path,
                    problem: error.to_string(),
                });
            }
        }
    }
    Ok(None)
}

/// `[auth-libvirt-HOST]`, or that of `default`, names a `[credentials-NAME]`.
fn look_up(text: &str, host: &str) -> Option<Credentials> {
    let value = |group: &str, key: &str| {
        let mut inside = false;
        text.lines().map(str::trim).find_map(|line| {
            if let Some(name) = line.strip_prefix('[') {
                inside = name.strip_suffix(']') == Some(group);
                return None;
            }
            let (name, value) = line.split_once('=')?;
            (inside && name.trim() == key).then(|| value.trim().to_owned())
        })
    };
    let group = [host, "default"]
        .iter()
        .find_map(|host| value(&format!("auth-libvirt-{host}"), "credentials"))?;
    let group = format!("credentials-{group}");
    Some(Credentials::new(value(&group, "authname")?, value(&group, "password")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_own_credentials_come_before_the_default() {
        let file = "# ours\n[credentials-a]\nauthname=fred\npassword=1=2\n\n[credentials-b]\nauthname = bob\n\
                    password = x\n[auth-libvirt-h.example]\ncredentials=a\n[auth-libvirt-default]\ncredentials=b\n";
        let a = look_up(file, "h.example").unwrap();
        assert_eq!((a.name(), a.password()), ("fred", "1=2"));
        assert_eq!(look_up(file, "other").unwrap().name(), "bob");
        assert!(look_up("[credentials-a]\nauthname=x\n", "h").is_none());
        assert!(!format!("{a:?}").contains("1=2"));
    }
}
