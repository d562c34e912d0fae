//! SASL against real libvirtd, with users in a throw-away database.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use libvirt_rpc::{Connection, Error, Kind, Options};

use crate::{
    libvirtd::{Libvirtd, is_installed},
    support::soon,
};

const PASSWORD: &str = "it's 123456, = or so";

/// A folder with a user `fred`, or nothing where there are no tools to make one.
fn users(test: &str, mechanisms: &str) -> Option<tempfile::TempDir> {
    if !is_installed("saslpasswd2") {
        assert!(
            std::env::var_os("CI").is_none(),
            "{test} needs saslpasswd2: install sasl2-bin and libsasl2-modules"
        );
        eprintln!("SKIPPED {test}: saslpasswd2 is missing (install sasl2-bin, libsasl2-modules)");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("users");
    let conf = format!("mech_list: {mechanisms}\nsasldb_path: {}\n", database.display());
    std::fs::write(folder.path().join("libvirt.conf"), conf).unwrap();
    let mut child = Command::new("saslpasswd2")
        .args(["-p", "-c", "-a", "libvirt", "-f"])
        .arg(&database)
        .arg("fred")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(PASSWORD.as_bytes()).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
    Some(folder)
}

async fn daemon(test: &str, folder: &Path) -> Option<Libvirtd> {
    Libvirtd::start_sasl(test, "auth_unix_rw = \"sasl\"\n", false, folder).await
}

async fn open(daemon: &Libvirtd, more: &str, password: &str) -> Result<Connection, Error> {
    let uri = format!("{}{more}", daemon.uri("test", "/default"));
    let options = Options::new().credentials("fred", password);
    soon(Connection::open_with(&uri, options)).await
}

#[tokio::test]
async fn every_mechanism_logs_in_and_a_wrong_password_does_not() {
    let Some(folder) = users("sasl", "plain scram-sha-1 scram-sha-256") else {
        return;
    };
    let Some(daemon) = daemon("sasl", folder.path()).await else {
        return;
    };
    for more in [
        "",
        "&auth=sasl",
        "&auth=sasl.SCRAM-SHA-256",
        "&auth=sasl.SCRAM-SHA-1",
        "&auth=sasl.PLAIN",
    ] {
        let opened = open(&daemon, more, PASSWORD).await;
        let c = opened.unwrap_or_else(|e| panic!("{more}: {e:?}"));
        assert_eq!(c.uri().await.unwrap(), "test:///default", "{more}");
        c.close().await;
        let refused = open(&daemon, more, "wrong").await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Auth, "{more}: {refused}");
    }
    let unknown = open(&daemon, "&auth=sasl.EXTERNAL", PASSWORD).await;
    let unknown = unknown.unwrap_err().to_string();
    assert!(
        unknown.contains("SCRAM-SHA-256") && unknown.contains("EXTERNAL"),
        "{unknown}"
    );

    let nobody = soon(Connection::open(&daemon.uri("test", "/default"))).await;
    let nobody = nobody.unwrap_err();
    assert!(nobody.to_string().contains("credentials"), "{nobody}");

    let file = folder.path().join("auth.conf");
    let text = format!("[credentials-x]\nauthname=fred\npassword={PASSWORD}\n[auth-libvirt-default]\ncredentials=x\n");
    std::fs::write(&file, text).unwrap();
    let uri = daemon.uri("test", "/default");
    let uri = format!("{uri}&authfile={}", file.display());
    soon(Connection::open(&uri)).await.unwrap().close().await;
}

#[tokio::test]
async fn a_command_carries_a_proof_but_not_a_password() {
    if !is_installed("nc") {
        assert!(std::env::var_os("CI").is_none(), "install netcat-openbsd");
        eprintln!("SKIPPED sasl-ext: nc is missing (install netcat-openbsd)");
        return;
    }
    let Some(folder) = users("sasl-ext", "plain scram-sha-256") else {
        return;
    };
    let Some(daemon) = daemon("sasl-ext", folder.path()).await else {
        return;
    };
    // Not by this process: a test that forks meanwhile would keep the file open for writing, and so busy.
    let relay = folder.path().join("relay");
    let script = "printf '#!/bin/sh\\nexec nc -U %s\\n' \"$1\" >\"$0\" && chmod 755 \"$0\"";
    let written = Command::new("sh")
        .args(["-c", script])
        .args([&relay, &daemon.socket()])
        .status();
    assert!(written.unwrap().success());
    let uri = format!("test+ext:///default?command={}", relay.display());
    let with = || Options::new().credentials("fred", PASSWORD);
    let c = soon(Connection::open_with(&uri, with())).await;
    c.unwrap().close().await;
    let plain = format!("{uri}&auth=sasl.PLAIN");
    let refused = soon(Connection::open_with(&plain, with())).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), Kind::Auth);
    assert!(refused.to_string().contains("over ext"), "{refused}");
}

/// Row 21: go-libvirt#221, terraform#810.
#[tokio::test]
async fn terraform_810_what_is_offered_and_what_could_be_used_is_said() {
    let Some(folder) = users("sasl-offer", "digest-md5") else {
        return;
    };
    let Some(daemon) = daemon("sasl-offer", folder.path()).await else {
        return;
    };
    let text = open(&daemon, "", PASSWORD).await.unwrap_err().to_string();
    assert!(text.contains("DIGEST-MD5") && text.contains("SCRAM-SHA-256"), "{text}");
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn sasl_over_tls_adds_the_user_to_the_certificate() {
    use crate::tls::{Tls, authority::Authority};

    let authority = Authority::new("ca");
    authority.sign("server", "whoever", &["localhost"]);
    authority.sign("client", "me", &[]);
    let Some(folder) = users("sasl-tls", "plain scram-sha-256") else {
        return;
    };
    let Some(daemon) = Tls::start_sasl("sasl-tls", &authority, folder.path()).await else {
        return;
    };
    let uri = daemon.uri("localhost", authority.path(), "");
    for more in ["", "&auth=sasl.PLAIN"] {
        let with = |password| Options::new().credentials("fred", password);
        let uri = format!("{uri}{more}");
        let c = soon(Connection::open_with(&uri, with(PASSWORD))).await;
        c.unwrap().close().await;
        let refused = soon(Connection::open_with(&uri, with("wrong"))).await;
        assert_eq!(refused.unwrap_err().kind(), Kind::Auth);
    }
    // Whoever does not check the daemon's certificate does not get to send a password in the clear.
    let careless = format!("{uri}&no_verify=1&auth=sasl.PLAIN");
    let options = Options::new().credentials("fred", PASSWORD);
    let careless = soon(Connection::open_with(&careless, options)).await;
    let careless = careless.unwrap_err();
    assert_eq!(careless.kind(), Kind::Auth);
    assert!(careless.to_string().contains("PLAIN is for"), "{careless}");
}
