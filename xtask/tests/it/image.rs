//! The image's Dockerfile. What it builds is run by the tests of libvirt-provider.

use std::process::Command;

use crate::support::{read, root, run, tool};

const DOCKERFILE: &str = "images/provider/Dockerfile";

#[test]
fn hadolint_has_nothing_to_say() {
    let Some(hadolint) = tool("hadolint") else { return };
    let said = run(Command::new(hadolint)
        .arg("--failure-threshold=style")
        .arg(root().join(DOCKERFILE)));
    assert_eq!(said.as_deref(), Ok(""));
}

#[test]
fn both_bases_are_pinned_by_their_content() {
    let text = read(DOCKERFILE);
    let bases: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("ARG RUST=") || line.starts_with("ARG BASE="))
        .collect();
    assert_eq!(bases.len(), 2);
    for base in bases {
        let digest = base.split_once("@sha256:").unwrap().1;
        assert!(
            digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{base}"
        );
    }
    for from in text.lines().filter_map(|line| line.strip_prefix("FROM ")) {
        let source = from.split_whitespace().next().unwrap();
        assert!(["${RUST}", "${BASE}", "tools"].contains(&source), "{from}");
    }
}

#[test]
fn the_image_runs_as_a_number_and_says_what_it_is() {
    let text = read(DOCKERFILE);
    assert_eq!(text.matches("\nUSER ").count(), 1);
    assert!(text.contains("\nUSER 65532:65532\n"));
    assert!(text.contains("\nHEALTHCHECK "));
    for label in [
        "title",
        "description",
        "source",
        "documentation",
        "licenses",
        "version",
        "revision",
    ] {
        assert!(text.contains(&format!("org.opencontainers.image.{label}=")), "{label}");
    }
}

#[test]
fn what_is_copied_is_there() {
    for line in read("images/provider/Dockerfile.dockerignore").lines() {
        if let Some(path) = line.strip_prefix('!') {
            assert!(root().join(path).exists(), "{path}");
        }
    }
}
