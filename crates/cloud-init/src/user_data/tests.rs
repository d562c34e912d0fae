use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;

use super::*;

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

const MESSAGE: &str = "Content-Type: multipart/mixed;\n boundary=\"xx\"\nMIME-Version: 1.0\n\n--xx\n\
                       Content-Type: text/x-shellscript\n\n#!/bin/sh\n--xx--\n";

#[test]
fn the_first_line_tells_what_it_is() {
    for (document, format) in [
        ("#cloud-config\npackages: [jq]\n", Format::CloudConfig),
        ("#cloud-config", Format::CloudConfig),
        ("#cloud-config # ours\n", Format::CloudConfig),
        ("#Cloud-Config\r\na: 1\r\n", Format::CloudConfig),
        ("#cloud-config-archive\n- content: x\n", Format::CloudConfigArchive),
        ("#cloud-config-jsonp\n[]\n", Format::CloudConfigPatch),
        ("#!/bin/sh\n", Format::Script),
        ("#cloud-boothook\n#!/bin/sh\n", Format::Boothook),
        ("#include\nhttps://example.org/x\n", Format::Include),
        ("#include https://example.org/x\n", Format::Include),
        ("#include-once\nhttps://example.org/x\n", Format::Include),
        ("#part-handler\n", Format::PartHandler),
        (
            "## template: jinja\n#cloud-config\na: {{ ds.meta_data.zone }}\n",
            Format::Jinja,
        ),
        (MESSAGE, Format::Mime),
        (
            "MIME-Version: 1.0\nContent-Type: text/cloud-config\n\na: 1\n",
            Format::Mime,
        ),
    ] {
        assert_eq!(UserData::new(document).unwrap().format(), format, "{document}");
        assert_eq!(
            UserData::new(gzip(document.as_bytes())).unwrap().format(),
            format,
            "compressed: {document}"
        );
    }
}

#[test]
fn a_document_that_cloud_init_would_ignore_is_refused_with_its_beginning() {
    for (document, remedy) in [
        ("packages:\n- jq\n", "begin it with"),
        ("", "begin it with"),
        ("#cloud-configuration\n", "begin it with"),
        ("\n#cloud-config\n", "remove the blank"),
        ("\u{feff}#cloud-config\n", "byte order mark"),
        ("I2Nsb3VkLWNvbmZpZwpwYWNrYWdlczogW2pxXQo=", "base64"),
        ("H4sIAAAAAAAAA1NOzskvTdFNzs9Ly0znAgAyhoFRDgAAAA==", "base64"),
        ("{\"ignition\": {}}", "Ignition"),
    ] {
        let error = UserData::new(document).unwrap_err();
        assert!(error.to_string().contains(remedy), "{document}: {error}");
    }
    let long = format!("x{}", "\t\"y".repeat(40));
    let Error::UnknownUserData { start, .. } = UserData::new(long).unwrap_err() else {
        panic!()
    };
    assert_eq!(
        start,
        b"x\t\"y\t\"y\t\"y\t\"y\t\"y\t\"y\t\"y\t\"y\t\"y\t\"y\t\"y\t\"y\t\"y"
            .escape_ascii()
            .to_string()
    );
}

#[test]
fn a_document_that_breaks_its_promise_is_refused() {
    for (document, reason) in [
        ("#cloud-config\n- a\n", "not a map"),
        ("#cloud-config\nhello\n", "not a map"),
        ("#cloud-config\na: 1\n\tb: 2\n", "line 2"),
        ("#cloud-config\na: [1\n", "cloud-config"),
        ("#cloud-config-archive\na: 1\n", "not a list"),
        ("## template: jinja\npackages: [jq]\n", "second line"),
        ("#!/bin/sh\necho MIME-Version: 1.0\n", "MIME message"),
        (
            "Content-Type: multipart/mixed; boundary=x\n\n--x\n\n--x--\n",
            "MIME-Version",
        ),
        (
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--y\n--x--\n",
            "no part begins",
        ),
        (
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\nhello\n",
            "missing at its end",
        ),
        (
            "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n--x\n",
            "no boundary",
        ),
        ("MIME-Version: 1.0\n\nhello\n", "no Content-Type"),
    ] {
        let error = UserData::new(document).unwrap_err();
        assert!(error.to_string().contains(reason), "{document}: {error}");
    }
    assert!(
        UserData::new(&b"#cloud-config\na: \xff\n"[..])
            .unwrap_err()
            .to_string()
            .contains("utf-8")
    );
}

#[test]
fn damaged_or_swollen_gzip_is_refused() {
    let mut damaged = gzip(b"#cloud-config\na: 1\n");
    damaged.truncate(damaged.len() - 6);
    assert!(matches!(
        UserData::new(damaged),
        Err(Error::BrokenUserData { kind: "gzip", .. })
    ));
    let mut bomb = b"#!/bin/sh\n".to_vec();
    bomb.resize(UserData::PLAIN_LIMIT + 1, b'#');
    assert!(matches!(
        UserData::new(gzip(&bomb)),
        Err(Error::BrokenUserData { kind: "gzip", .. })
    ));
}

#[test]
fn more_than_a_mebibyte_is_refused() {
    let mut document = b"#!/bin/sh\n".to_vec();
    document.resize(UserData::LIMIT, b'#');
    assert!(UserData::new(document.clone()).is_ok());
    document.push(b'#');
    assert!(matches!(UserData::new(document), Err(Error::UserDataTooLarge { .. })));
}

#[test]
fn without_parts_of_ours_the_document_is_untouched() {
    for document in [
        b"#cloud-config\r\na: 1\r\n".to_vec(),
        gzip(b"#!/bin/sh\n"),
        MESSAGE.into(),
    ] {
        assert_eq!(UserData::new(document.clone()).unwrap().to_bytes(), document);
    }
}

#[test]
fn debug_does_not_show_the_document() {
    let shown = format!("{:?}", UserData::new("#cloud-config\ntoken: canary\n").unwrap());
    assert!(!shown.contains("canary") && shown.contains("28 bytes"), "{shown}");
}

proptest! {
    #[test]
    fn no_bytes_panic_the_check(bytes in prop::collection::vec(any::<u8>(), 0..200), head in 0..8_usize) {
        let heads: [&[u8]; 8] = [b"", b"#cloud-config\n", b"## template: jinja\n", GZIP, b"MIME-Version: 1.0\n",
            b"#cloud-config-archive\n", b"Content-Type: multipart/mixed; boundary=x\nmime-version: 1\n\n", b"#!"];
        let document = [heads[head], &bytes].concat();
        if let Ok(data) = UserData::new(document.clone()) {
            drop(data.secrets());
            prop_assert_eq!(data.to_bytes(), document);
        }
    }
}
