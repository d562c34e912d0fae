//! Packs the files of a folder into a seed disk, as they are.
//!
//! ```sh
//! cargo run -p cloud-init --example seed -- FOLDER OUT.iso
//! ```

use std::{env, error::Error, fs, path::PathBuf};

use cloud_init::{FileName, Image};

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [folder, out] = paths.as_slice() else {
        return Err("usage: seed FOLDER OUT.iso".into());
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(
            entry?
                .file_name()
                .into_string()
                .map_err(|name| format!("{} is no name", name.display()))?,
        );
    }
    names.sort();
    let mut files = Vec::new();
    for name in names {
        files.push((FileName::new(&name)?, fs::read(folder.join(&name))?.into()));
    }
    Image::new(files)?.write_to(fs::File::create(out)?)?;
    Ok(())
}
