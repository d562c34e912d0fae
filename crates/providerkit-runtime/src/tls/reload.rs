//! Following the files as they are renewed.

use std::{error::Error, fs, os::unix::fs::MetadataExt as _, path::Path, time::Duration};

use super::{Tls, material::Material};
use crate::{settings::TlsFiles, telemetry::names};

/// What tells one version of the files from another without reading them. Links are followed, so that the swap of a
/// directory link, as Kubernetes does it, shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp([Option<FileStamp>; 3]);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

impl Stamp {
    pub(super) fn of(files: &TlsFiles) -> Self {
        let paths = [Some(&files.cert), Some(&files.key), files.ca.as_ref()];
        Self(paths.map(|path| FileStamp::of(path?)))
    }
}

impl FileStamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

/// Looks at the files again and again. Half-written material is passed over until it is whole; each problem is
/// logged once.
pub(super) async fn watch(tls: &Tls, poll: Duration) {
    let mut seen = tls.loaded.clone();
    let mut complaint = None;
    let mut ticks = tokio::time::interval(poll);
    loop {
        ticks.tick().await;
        // Taken before the files are read: what changes in between is seen the next time.
        let stamp = Stamp::of(&tls.files);
        if stamp == seen && complaint.is_none() {
            continue;
        }
        match reload(tls).await {
            Ok(()) => {
                seen = stamp;
                complaint = None;
                metrics::counter!(names::TLS_RELOADS, "outcome" => "ok").increment(1);
                tracing::info!(certificate = %tls.files.cert.display(), "TLS files changed and were reloaded");
            }
            Err(problem) => {
                if complaint.as_ref() != Some(&problem) {
                    metrics::counter!(names::TLS_RELOADS, "outcome" => "error").increment(1);
                    tracing::warn!("TLS files changed but cannot be used, the last good ones stay in use: {problem}");
                }
                complaint = Some(problem);
            }
        }
    }
}

async fn reload(tls: &Tls) -> Result<(), String> {
    let files = tls.files.clone();
    // Cryptography and files: not on a thread that answers calls.
    let loaded = tokio::task::spawn_blocking(move || Material::load(&files)).await;
    let material = loaded
        .map_err(|panic| report(&panic))?
        .map_err(|error| report(&error))?;
    material.publish();
    tls.current.store(material.config);
    Ok(())
}

fn report(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
