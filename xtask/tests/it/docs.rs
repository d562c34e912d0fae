//! What pages about installing show, and whether that is what one sees.

use std::{env, fs, os::unix::fs as unix, path::Path, process::Command};

use tempfile::TempDir;

use crate::support::{provider, read, root, tool};

const PAGES: [&str; 1] = ["docs/install.md"];

/// A command, and what it prints.
fn shown(page: &str) -> Vec<(String, String)> {
    let text = read(page);
    let blocks = text.split("```console\n").skip(1);
    let blocks = blocks.map(|block| block.split_once("\n```").unwrap().0);
    let shown = blocks.map(|block| {
        let (command, output) = block.split_once('\n').unwrap();
        (command.strip_prefix("$ ").unwrap().to_owned(), output.to_owned())
    });
    shown.collect()
}

/// What a shell shows, with these programs in front of all others.
fn seen(command: &str, programs: &Path) -> String {
    let path = format!("{}:{}", programs.display(), env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &format!("{command} 2>&1")])
        .current_dir(root())
        .env("PATH", path)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn trimmed(text: &str) -> Vec<&str> {
    text.trim().lines().map(str::trim_end).collect()
}

#[test]
fn every_console_shows_what_one_sees() {
    let (Some(provider), Some(helm)) = (provider(), tool("helm")) else {
        return;
    };
    let programs = TempDir::new().unwrap();
    unix::symlink(provider, programs.path().join("libvirt-provider")).unwrap();
    unix::symlink(helm, programs.path().join("helm")).unwrap();
    let mut count = 0;
    for page in PAGES {
        for (command, output) in shown(page) {
            let seen = seen(&command, programs.path());
            assert_eq!(trimmed(&seen), trimmed(&output), "{page}: {command}");
            count += 1;
        }
    }
    assert!(count >= 3, "{count}");
}

#[test]
fn every_file_that_a_page_installs_is_there() {
    for page in ["docs/install.md", "docs/host-setup.md"] {
        let text = read(page);
        let words = text.split(|c: char| c.is_whitespace() || "()[]`".contains(c));
        let paths: Vec<_> = words
            .filter(|word| word.starts_with("images/") || word.starts_with("../"))
            .collect();
        assert!(!paths.is_empty(), "{page}");
        for path in paths {
            let path = path.split('#').next().unwrap();
            let file = root().join(path.strip_prefix("../").unwrap_or(path));
            assert!(fs::exists(&file).unwrap(), "{page}: {path}");
        }
    }
}
