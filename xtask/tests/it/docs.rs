//! What the pages show, and whether that is what one sees.
//!
//! In a block ```` ```console ```` each line that begins with `$ ` is a command, and what follows is what it prints. There
//! `…` stands for whatever differs from one run to the next; alone on a line, for any lines. The commands of a page run in
//! one shell, in a folder of its own with a network of its own, in which the top folder's `charts` and `images` are.

use std::{
    env,
    fmt::Write as _,
    fs,
    os::unix::fs as unix,
    path::Path,
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::support::{provider, read, root, tool};

/// A command, and what it prints.
fn shown(text: &str) -> Vec<(String, String)> {
    let blocks = text.split("```console\n").skip(1);
    let blocks = blocks.map(|block| block.split_once("\n```").unwrap().0);
    let commands = blocks.flat_map(|block| block.strip_prefix("$ ").unwrap().split("\n$ "));
    let shown = commands.map(|command| {
        let (command, output) = command.split_once('\n').unwrap_or((command, ""));
        (command.to_owned(), output.to_owned())
    });
    shown.collect()
}

/// What a shell shows of each command, with these programs in front of all others. What the commands started ends with it.
fn seen(commands: &[&str], programs: &Path) -> Vec<String> {
    let folder = TempDir::new().unwrap();
    for name in ["charts", "images"] {
        unix::symlink(root().join(name), folder.path().join(name)).unwrap();
    }
    let outputs = TempDir::new().unwrap();
    let output = |number: usize| outputs.path().join(number.to_string());
    let mut script = "ip link set lo up; trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n".to_owned();
    for (number, command) in commands.iter().enumerate() {
        writeln!(script, "{{ {command}\n}} >'{}' 2>&1", output(number).display()).unwrap();
    }
    let path = format!("{}:{}", programs.display(), env::var("PATH").unwrap());
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "bash", "-c", &script])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .status();
    status.unwrap();
    (0..commands.len())
        .map(|number| fs::read_to_string(output(number)).unwrap())
        .collect()
}

/// Whether the lines are as shown.
fn is_shown(seen: &[&str], shown: &[&str]) -> bool {
    match (seen, shown) {
        (_, ["…", rest @ ..]) => (0..=seen.len()).any(|skipped| is_shown(&seen[skipped..], rest)),
        ([], []) => true,
        ([line, seen @ ..], [pattern, shown @ ..]) => fits(line, pattern) && is_shown(seen, shown),
        _ => false,
    }
}

fn fits(line: &str, pattern: &str) -> bool {
    match pattern.split_once('…') {
        None => line == pattern,
        Some((before, after)) => line.strip_prefix(before).is_some_and(|rest| {
            let mut places = rest.char_indices().map(|(place, _)| place).chain([rest.len()]);
            places.any(|place| fits(&rest[place..], after))
        }),
    }
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
    for (page, text) in pages() {
        let shown = shown(&text);
        let commands: Vec<&str> = shown.iter().map(|(command, _)| command.as_str()).collect();
        for ((command, shown), seen) in shown.iter().zip(seen(&commands, programs.path())) {
            assert!(is_shown(&trimmed(&seen), &trimmed(shown)), "{page}: {command}\n{seen}");
            count += 1;
        }
    }
    assert!(count >= 3, "{count}");
}

/// Every page with a console.
fn pages() -> Vec<(String, String)> {
    let folders = ["", "docs", "conformance", "charts/libvirt-provider"];
    let entries = folders
        .iter()
        .flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    let texts = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let pages = texts.map(|path| (path.display().to_string(), fs::read_to_string(path).unwrap()));
    pages.filter(|(_, text)| text.contains("```console\n")).collect()
}

#[test]
fn what_differs_from_run_to_run_is_passed_over() {
    assert!(is_shown(&["a 1 b", "x", "y", "c"], &["a … b", "…", "c"]));
    assert!(!is_shown(&["a 1 c", "c"], &["a … b", "c"]));
    assert!(!is_shown(&["a", "b"], &["a"]));
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
