//! Makes a volume of a file: `upload URI POOL FILE`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::path::PathBuf;

use libvirt_rpc::{Connection, wire::constant::storage::StorageVolCreateFlags};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    match run().await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(uri), Some(pool), Some(path)) = (args.next(), args.next(), args.next().map(PathBuf::from)) else {
        return Err("usage: upload URI POOL FILE".into());
    };
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or("the file's name is no text")?;
    let file = tokio::fs::File::open(&path).await?;
    let size = file.metadata().await?.len();

    // A connection of its own, as bulk data deserves, and time for a large file.
    let connection = Connection::open(&uri).await?.with_deadline(None);
    let pool = connection.storage_pool_lookup_by_name(&pool).await?;
    let escaped = name.replace('&', "&amp;").replace('<', "&lt;");
    let xml = format!("<volume><name>{escaped}</name><capacity>{size}</capacity></volume>");
    let volume = connection
        .volume_create(&pool, &xml, StorageVolCreateFlags::empty())
        .await?;
    let sent = connection.volume_upload(&volume, file, Some(size)).await?;
    println!("{sent} bytes are in {}", connection.volume_path(&volume).await?);
    Ok(())
}
