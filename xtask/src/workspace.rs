//! Where things are.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// The workspace's top folder.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The path as seen from the workspace's top folder, with `/` between its parts.
pub(crate) fn relative(path: &Path) -> String {
    let root = root();
    let inside = path.strip_prefix(&root).unwrap_or(path);
    let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

/// All files people wrote, in a fixed order: neither git's nor cargo's own, nor generated ones.
///
/// # Errors
/// When a folder cannot be read.
pub(crate) fn files() -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() && !skipped(&entry.file_name().to_string_lossy()) {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

fn skipped(folder: &str) -> bool {
    matches!(folder, ".git" | "target" | "generated" | "node_modules")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_not_among_those_people_wrote() {
        let files: Vec<String> = files().unwrap().iter().map(|path| relative(path)).collect();
        assert!(files.contains(&"crates/bigfleet-proto/src/lib.rs".to_owned()));
        assert!(files.contains(&".cargo/config.toml".to_owned()));
        assert!(
            !files
                .iter()
                .any(|file| file.contains("generated") || file.starts_with("target/"))
        );
    }
}
