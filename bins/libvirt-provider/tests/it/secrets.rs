//! Bootstrap blobs are kept only while they are needed, and never shown (issue 2, points 4 and 7).

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use bigfleet_proto::MachineState as S;
use tempfile::TempDir;

use crate::harness::{AWAIT, Binding, Launch, Provider, Token, eventually, operation};

const MARKER: &str = "bootstrap-token-7f3a9c51e2";

/// A blob that shows in a file whatever part of it is left there.
fn secret() -> Binding {
    Binding::to("c").with("k", "v").blob(MARKER.repeat(2000))
}

/// The state file and its companions, whatever they are called.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// The files that hold the secret now.
fn holders(directory: &Path) -> Vec<PathBuf> {
    let mut files = files(directory);
    // The log before the file it is copied into: read the other way round, a copy in between would hide from both.
    files.sort_by(|a, b| b.cmp(a));
    files.retain(|path| fs::read(path).is_ok_and(|bytes| holds(&bytes, MARKER)));
    files
}

async fn erased(directory: &TempDir) {
    eventually("no trace of the blob on disk", AWAIT, async || {
        holders(directory.path()).is_empty()
    })
    .await;
}

/// In no form in which a log could show bytes.
fn assert_not_logged(provider: &Provider) {
    let log = provider.log_text();
    assert!(!log.is_empty(), "the provider logs nothing at all");
    let hex: String = MARKER.bytes().take(8).map(|byte| format!("{byte:02x}")).collect();
    let list = MARKER
        .bytes()
        .take(4)
        .map(|byte| byte.to_string())
        .collect::<Vec<_>>()
        .join(", ");
    // The first nine bytes in base64, which is whole groups of three.
    let base64 = "Ym9vdHN0cmFw";
    for form in [MARKER, &hex, &list, base64] {
        assert!(!log.contains(form), "the log shows the blob as {form:?}");
    }
}

fn launch(directory: &TempDir, delay: Duration) -> Launch {
    Launch::on(directory.path().join("state.json"))
        .delay(delay)
        .flag("--log-level=trace")
}

#[tokio::test]
async fn a_blob_is_on_disk_only_while_its_transition_runs_and_never_in_the_log() {
    let directory = TempDir::new().unwrap();
    let provider = launch(&directory, Duration::from_millis(500)).start().await;
    let id = provider.idle().await;
    operation(provider.configure(&id, &secret(), &Token::unfenced()).await);
    assert_eq!(provider.state(&id).await, S::Configuring);
    assert!(
        !holders(directory.path()).is_empty(),
        "where is what a restart would need?"
    );
    provider.reach(&id, S::Configured).await;
    erased(&directory).await;
    assert_not_logged(&provider);
}

#[tokio::test]
async fn a_blob_is_erased_after_a_kill_too() {
    let directory = TempDir::new().unwrap();
    let provider = launch(&directory, Duration::from_millis(500)).start().await;
    let id = provider.idle().await;
    operation(provider.configure(&id, &secret(), &Token::unfenced()).await);
    let provider = provider.restart().await;
    assert!(!holders(directory.path()).is_empty());
    provider.reach(&id, S::Configured).await;
    erased(&directory).await;
    assert_not_logged(&provider);
}

#[tokio::test]
async fn a_blob_is_erased_when_its_transition_fails() {
    let directory = TempDir::new().unwrap();
    let launch = launch(&directory, Duration::from_secs(5)).flag("--on-restart=fail");
    let provider = launch.clone().delay(Duration::ZERO).start().await;
    let id = provider.idle().await;
    drop(provider);
    let provider = launch.start().await;
    operation(provider.configure(&id, &secret(), &Token::unfenced()).await);
    let provider = provider.restart().await;
    assert_eq!(provider.state(&id).await, S::Failed);
    erased(&directory).await;
    assert!(!provider.get(&id).await.last_error.contains(MARKER));
    assert_not_logged(&provider);
}

/// A refused call leaves nothing: not on disk, not in the log, not in the answer.
#[tokio::test]
async fn a_blob_of_a_refused_call_is_kept_nowhere() {
    let directory = TempDir::new().unwrap();
    let provider = launch(&directory, Duration::ZERO).start().await;
    let id = provider.pick_one().await;
    let status = provider
        .configure(&id, &secret(), &Token::unfenced())
        .await
        .unwrap_err();
    assert!(!status.message().contains(MARKER));
    assert_eq!(holders(directory.path()), Vec::<PathBuf>::new());
    assert_not_logged(&provider);
}
