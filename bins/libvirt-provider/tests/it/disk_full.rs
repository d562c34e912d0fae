//! A disk that is full, and then is not (issue 2, points 4 and 9).

use std::{
    env,
    fs::{self, OpenOptions},
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use bigfleet_proto::MachineState as S;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tonic::{Code, Status};

use crate::harness::{Binding, Launch, Provider, Shard, Token, eventually, expect_fenced, operation};

/// Large enough for the provider, small enough to fill at once.
const SIZE: &str = "32m";
/// More than any slack that the store may have in its files.
const LARGE: usize = 1 << 20;
/// How long a provider may take to find that there is space again.
const RECOVERY: Duration = Duration::from_secs(20);

/// A small file system of its own, taken down when dropped.
struct Disk {
    point: TempDir,
}

impl Disk {
    /// None where mounting is not allowed, and then the test says so; where everything must run, that is a failure.
    fn mount() -> Option<Self> {
        let point = TempDir::new().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={SIZE},mode=0700"), "tmpfs"])
            .arg(point.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self { point }),
            other => {
                eprintln!("*** SKIPPED: the disk-full test needs the right to mount a tmpfs: {other:?}");
                assert!(env::var_os("CI").is_none(), "CI must be able to mount a tmpfs");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.point.path()
    }

    /// Takes what is left.
    fn fill(&self) {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.filler())
            .unwrap();
        for block in [1 << 20, 4 << 10, 1] {
            let zeros = vec![0; block];
            let full = loop {
                if let Err(error) = file.write_all(&zeros) {
                    break error;
                }
            };
            assert_eq!(full.kind(), ErrorKind::StorageFull, "{full}");
        }
    }

    /// Gives it back.
    fn free(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(self.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

/// A refusal that is nobody's fault but the disk's.
#[track_caller]
fn assert_disk_error(status: &Status) {
    let wrong = [
        Code::Ok,
        Code::FailedPrecondition,
        Code::NotFound,
        Code::Unimplemented,
        Code::InvalidArgument,
    ];
    assert!(!wrong.contains(&status.code()), "{status:?}");
}

fn large(number: usize) -> Binding {
    Binding::to(format!("cluster-{number}")).with("large", format!("{number:08}").repeat(LARGE / 8))
}

/// A Configure that was acknowledged: the machine, the operation id, what it was bound to.
type Accepted = (String, String, Binding);

/// The one token of every call here: were a failed call to leave a mark, the next would be fenced.
fn token() -> Token {
    Shard::new("steadfast").at(1, 1)
}

/// Configures machine after machine, some at the same time, while the disk is full. What does not fit is refused and
/// changes nothing, and everything can still be read; what fits (the store has some slack in its files) is kept.
async fn configure_while_full(disk: &Disk, provider: &Provider, ids: &[String]) -> (Vec<Accepted>, Vec<String>) {
    let (mut accepted, mut refused) = (Vec::new(), Vec::new());
    for group in ids.chunks(4) {
        let before = provider.fleet().await;
        disk.fill();
        let mut calls = JoinSet::new();
        for (number, id) in group.iter().cloned().enumerate() {
            let client = provider.client();
            calls.spawn(async move {
                let binding = large(number);
                let answer = client.configure(&id, &binding, &token()).await;
                (id, binding, answer)
            });
        }
        for (id, binding, answer) in calls.join_all().await {
            match answer {
                Ok(ack) => accepted.push((id, operation(Ok(ack)), binding)),
                Err(status) => {
                    assert_disk_error(&status);
                    assert_eq!(provider.get(&id).await, before[&id]);
                    assert_eq!(provider.fleet().await[&id], before[&id]);
                    refused.push(id);
                }
            }
        }
    }
    (accepted, refused)
}

async fn assert_kept(provider: &Provider, accepted: &[(String, String, Binding)]) {
    for (id, operation_id, binding) in accepted {
        let machine = provider.reach(id, S::Configured).await;
        assert_eq!(
            (&machine.cluster, &machine.shard_metadata),
            (&binding.cluster, &binding.metadata)
        );
        let replay = operation(provider.configure(id, binding, &Token::unfenced()).await);
        assert_eq!(&replay, operation_id);
        expect_fenced(&provider.configure(id, binding, &token()).await);
    }
}

#[tokio::test]
async fn a_full_disk_fails_calls_changes_nothing_and_is_recovered_from() {
    let Some(disk) = Disk::mount() else {
        return;
    };
    let provider = Launch::on(disk.path().join("state.json")).start().await;
    let ids: [String; 24] = provider.idles().await;
    let (mut accepted, refused) = configure_while_full(&disk, &provider, &ids).await;
    assert!(
        refused.len() >= 5,
        "{} of {} large calls fit on a full disk",
        accepted.len(),
        ids.len()
    );

    disk.free();
    let first = refused[0].clone();
    let mut recovered = None;
    eventually("calls succeed again", RECOVERY, async || {
        recovered = provider.configure(&first, &large(99), &token()).await.ok();
        recovered.is_some()
    })
    .await;
    accepted.push((first, operation(Ok(recovered.unwrap())), large(99)));
    assert_kept(&provider, &accepted).await;
    let fleet = provider.fleet().await;
    let provider = provider.restart().await;
    assert_eq!(provider.fleet().await, fleet);
    assert_kept(&provider, &accepted).await;
}

/// Work that was acknowledged before the disk filled up ends while it is full or after, but not in FAILED.
#[tokio::test]
async fn a_transition_that_runs_into_a_full_disk_still_ends_well() {
    let Some(disk) = Disk::mount() else {
        return;
    };
    let delay = Duration::from_millis(500);
    let provider = Launch::on(disk.path().join("state.json")).delay(delay).start().await;
    let ids: [String; 8] = provider.pick().await;
    let mut operations = Vec::new();
    for id in &ids {
        operations.push(operation(provider.create(id, &Token::unfenced()).await));
    }
    disk.fill();
    provider.never(&ids[0], &[S::Failed], 3 * delay).await;
    disk.free();
    for (id, operation_id) in ids.iter().zip(&operations) {
        provider.reach_within(id, S::Idle, RECOVERY).await;
        assert_eq!(&operation(provider.create(id, &Token::unfenced()).await), operation_id);
    }
    let fleet = provider.fleet().await;
    let provider = provider.restart().await;
    assert_eq!(provider.fleet().await, fleet);
}
