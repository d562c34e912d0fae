//! Images as the tools and the kernel of Linux read them.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use tempfile::TempDir;

use crate::image;

type Files = BTreeMap<String, Vec<u8>>;

/// Whether `program` is there. Without it the test says so loudly, and fails in CI.
pub(crate) fn has(test: &str, program: &str, package: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|folder| folder.join(program).exists());
    if !found {
        assert!(env::var_os("CI").is_none(), "{test} needs {program}: install {package}");
        eprintln!("*** SKIPPED {test}: {program} is missing (install {package})");
    }
    found
}

/// What a program printed; it must succeed.
pub(crate) fn output(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{errors}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout)
    );
    output.stdout
}

/// A few sets of files, the same in every run, and one as large as a seed gets.
fn samples() -> Vec<Files> {
    let mut runner = TestRunner::deterministic();
    let strategy = image::files();
    let mut samples: Vec<Files> = (0..12)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect();
    samples.push(BTreeMap::from([
        ("meta-data".to_owned(), Vec::new()),
        ("bootstrap".to_owned(), vec![b'x'; 64 << 20]),
    ]));
    samples
}

fn written(files: &Files) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("seed.iso");
    image::image(files).write_to(fs::File::create(&path).unwrap()).unwrap();
    (dir, path)
}

#[test]
fn isoinfo_reads_every_file_by_its_rock_ridge_and_its_joliet_name() {
    if !has("isoinfo", "isoinfo", "genisoimage") {
        return;
    }
    for files in samples() {
        let (_dir, path) = written(&files);
        for (name, content) in &files {
            for tree in ["-R", "-J"] {
                let read = output(
                    Command::new("isoinfo")
                        .arg("-i")
                        .arg(&path)
                        .args([tree, "-x"])
                        .arg(format!("/{name}")),
                );
                assert!(
                    read == *content,
                    "{tree} {name}: {} of {} bytes",
                    read.len(),
                    content.len()
                );
            }
        }
        let listed =
            String::from_utf8(output(Command::new("isoinfo").arg("-i").arg(&path).args(["-R", "-l"]))).unwrap();
        let ours: Vec<&str> = listed
            .lines()
            .filter(|line| line.starts_with("-rw-------   1    0    0"))
            .collect();
        assert_eq!(ours.len(), files.len(), "{listed}");
        let described = String::from_utf8(output(Command::new("isoinfo").arg("-d").arg("-i").arg(&path))).unwrap();
        for expected in [
            "Volume id: cidata",
            "Joliet with UCS level 3 found",
            "Rock Ridge signatures version 1 found",
        ] {
            assert!(described.contains(expected), "{expected} in {described}");
        }
    }
}

#[test]
fn blkid_finds_the_label_that_nocloud_looks_for() {
    if !has("blkid", "blkid", "util-linux") {
        return;
    }
    for files in samples() {
        let (_dir, path) = written(&files);
        let found = String::from_utf8(output(
            Command::new("/usr/sbin/blkid").args(["-p", "-o", "export"]).arg(&path),
        ))
        .unwrap();
        for expected in ["LABEL=cidata", "TYPE=iso9660", "BLOCK_SIZE=2048"] {
            assert!(found.lines().any(|line| line == expected), "{expected} in {found}");
        }
    }
}

#[test]
fn xorriso_finds_nothing_to_complain_about() {
    if !has("xorriso", "xorriso", "xorriso") {
        return;
    }
    for files in samples() {
        let (dir, path) = written(&files);
        let out = dir.path().join("out");
        let mut command = Command::new("xorriso");
        command
            .args(["-abort_on", "WARNING", "-osirrox", "on", "-indev"])
            .arg(&path);
        command.args(["-check_media", "--", "-extract", "/"]).arg(&out);
        output(&mut command);
        assert_same(&files, &out);
    }
}

fn assert_same(files: &Files, folder: &Path) {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, files.keys().cloned().collect::<Vec<_>>());
    for (name, content) in files {
        assert!(fs::read(folder.join(name)).unwrap() == *content, "{name}");
    }
}
