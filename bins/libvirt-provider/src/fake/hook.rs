//! What the image's hooks do in a fake guest, and how they misbehave where that is asked for (contract §12.3).

use std::time::Duration;

use libvirt_rpc::fake::Files;

/// The cluster the guest is in.
const JOINED: &str = "/etc/kubernetes/cluster";

/// How hooks behave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hooks {
    /// How long they take.
    pub(super) delay: Duration,
    /// Whether some clusters make them fail.
    pub(super) faults: bool,
    /// When nobody waits any more for a bootstrap.
    pub(super) too_late: Duration,
}

/// How a hook will end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// How long after its start; never if absent.
    pub(super) after: Option<Duration>,
    pub(super) code: i32,
    pub(super) output: &'static str,
}

impl Hooks {
    /// Starts a hook: its command and its environment.
    pub(super) fn start(self, command: &[String], environment: &[String], files: &mut Files) -> End {
        let end = |code, output| End {
            after: Some(self.delay),
            code,
            output,
        };
        let cluster = environment
            .iter()
            .find_map(|pair| pair.strip_prefix("BIGFLEET_CLUSTER_ID="))
            .unwrap_or_default();
        let fault = if self.faults { cluster } else { "" };
        match command.first().map(String::as_str) {
            Some("/opt/bigfleet/bootstrap") => match fault {
                "fault-error" => end(1, "injected: the node cannot join this cluster"),
                "fault-timeout" => End {
                    after: None,
                    ..end(0, "injected: waiting for ever")
                },
                _ => {
                    files.write(JOINED, cluster);
                    let too_late = (fault == "fault-slow-ok").then_some(self.too_late);
                    End {
                        after: too_late.or(Some(self.delay)),
                        ..end(0, "joined")
                    }
                }
            },
            // Which of its hooks it is, or what stands in for a missing one, the script itself decides.
            Some("/bin/sh") if command.iter().any(|word| word.contains("/opt/bigfleet/drain")) => match fault {
                "fault-drain-error" => end(1, "injected: the node does not leave"),
                _ => {
                    files.remove(JOINED);
                    end(0, "left")
                }
            },
            _ => End {
                after: Some(Duration::ZERO),
                ..end(127, "no such hook in a fake guest")
            },
        }
    }

    /// Whether the node is Ready in a cluster; if not, why.
    pub(super) fn ready(self, cluster: &str, files: &Files) -> Result<(), String> {
        match files.text(JOINED) {
            Some("fault-readiness-block") if self.faults => {
                Err("injected: the kubelet is not posting ready".to_owned())
            }
            Some(joined) if joined == cluster => Ok(()),
            joined => Err(format!("the node is in {joined:?}")),
        }
    }
}
