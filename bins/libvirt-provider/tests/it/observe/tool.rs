//! Generated files, and programs that judge them.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The file of that name in the repository.
pub(super) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Holds a file to its text; with `BLESS` set it is written instead.
pub(super) fn generated(path: &str, text: &str) {
    let file = repository(path);
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        return;
    }
    let there = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        there == text,
        "{path} is not up to date; run `BLESS=1 cargo nextest run -p libvirt-provider observe`"
    );
}

/// Holds the part of a file between two marks to its text, likewise.
pub(super) fn generated_part(path: &str, mark: &str, text: &str) {
    let whole = fs::read_to_string(repository(path)).unwrap();
    let (begin, end) = (format!("<!-- {mark}: begin -->\n"), format!("<!-- {mark}: end -->\n"));
    let (before, rest) = whole.split_once(&begin).expect("the mark of the beginning");
    let (_, after) = rest.split_once(&end).expect("the mark of the end");
    generated(path, &format!("{before}{begin}{text}{end}{after}"));
}

/// The labels of a metric, by the table in the docs.
pub(super) fn documented_labels(metric: &str) -> Vec<String> {
    let docs = fs::read_to_string(repository("docs/observability.md")).unwrap();
    let row = docs
        .lines()
        .find_map(|line| line.strip_prefix(&format!("| `{metric}` | ")))
        .unwrap();
    let labels = row.split(" | ").nth(1).unwrap();
    labels
        .split(", ")
        .map(|label| label.trim_matches('`').to_owned())
        .collect()
}

/// Runs promtool on this input; what it printed, and whether it was content. `None`, with a line that says so, where
/// it is not installed and nothing demands it.
pub(super) fn promtool(arguments: &[&str], input: &str) -> Option<(bool, String)> {
    promtool_in(Path::new("."), arguments, input)
}

/// The same, in a folder.
pub(super) fn promtool_in(folder: &Path, arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let child = Command::new("promtool")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) if std::env::var_os("CI").is_none() => {
            eprintln!(
                "SKIPPED promtool {}: {error} (install Debian's `prometheus`)",
                arguments.join(" ")
            );
            return None;
        }
        Err(error) => panic!("promtool: {error}; install Debian's `prometheus`"),
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Some((output.status.success(), said))
}
