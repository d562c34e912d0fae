//! `/bin/sh` of a fake guest: it knows the backend's scripts, and does to the guest's files what they would do. What it
//! does not know fails, so that a script that changed is noticed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libvirt_rpc::fake::{Exec, ExecResult, Files};
use serde::{Deserialize, Serialize};

use super::{
    guest::{BOOT, MACHINE_ID},
    hook::Hooks,
};

/// Where the script that runs hooks keeps what is secret, and what is not (`guest/run.sh` of the backend).
const SECRET: &str = "/run/bigfleet-provider/";
const KEPT: &str = "/var/lib/bigfleet-provider/";

pub(super) fn run(exec: &Exec, files: &mut Files, hooks: Hooks) -> ExecResult {
    let words: Vec<&str> = exec.args.iter().map(String::as_str).collect();
    let done = match *words.as_slice() {
        ["-c", script, "bigfleet", verb, run, ..] if script.contains(KEPT.trim_end_matches('/')) => {
            let arguments = exec.args.get(5..).unwrap_or_default();
            Run::new(run, files).step(verb, arguments, hooks)
        }
        ["-c", script, "bigfleet", cluster] if script.contains("/opt/bigfleet/ready") => {
            hooks.ready(cluster, files).map(|()| "ready".to_owned())
        }
        ["-c", script, "bigfleet"] if script.contains("/run/cloud-init/result.json") => {
            Ok(r#"{"v1": {"datasource": "DataSourceNoCloud", "errors": []}}"#.to_owned())
        }
        ["-c", script, "bigfleet"] if script.contains(MACHINE_ID) => {
            Ok(files.text(MACHINE_ID).unwrap_or_default().to_owned())
        }
        _ => {
            return ExecResult {
                exit: 127,
                stderr: b"a fake guest does not know this script".to_vec(),
                ..ExecResult::default()
            };
        }
    };
    match done {
        Ok(output) => ExecResult {
            stdout: output.into_bytes(),
            ..ExecResult::default()
        },
        Err(output) => ExecResult {
            exit: 1,
            stdout: output.into_bytes(),
            ..ExecResult::default()
        },
    }
}

/// Milliseconds since 1970: a hook goes on while nobody looks.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// A hook that was started, as its file says.
#[derive(Debug, Deserialize, Serialize)]
struct Started {
    boot: String,
    /// When it ends; never if absent.
    ends: Option<u64>,
    code: i32,
    output: String,
    killed: bool,
}

/// One run of a hook.
struct Run<'a> {
    files: &'a mut Files,
    /// Below which its blob is.
    secret: String,
    /// What is known of it.
    kept: String,
}

impl<'a> Run<'a> {
    fn new(run: &str, files: &'a mut Files) -> Self {
        Self {
            files,
            secret: format!("{SECRET}{run}/"),
            kept: format!("{KEPT}{run}/run"),
        }
    }

    fn step(&mut self, verb: &str, arguments: &[String], hooks: Hooks) -> Result<String, String> {
        match (verb, arguments) {
            ("begin", []) => Ok(self.begin()),
            ("seal", [size, _]) => self.seal(size),
            ("start", [count, rest @ ..]) => {
                let count = count.parse().unwrap_or(0).min(rest.len());
                let (environment, command) = rest.split_at(count);
                self.start(environment, command, hooks);
                Ok("started".to_owned())
            }
            ("poll", []) => Ok(self.poll()),
            ("tail", [count]) => {
                let output = self.started().map(|started| started.output).unwrap_or_default();
                let from = output.len().saturating_sub(count.parse().unwrap_or(0));
                Ok(output.get(from..).unwrap_or_default().to_owned())
            }
            ("stop", []) => {
                if let Some(started) = self.started().filter(|started| started.is_running()) {
                    self.note(&Started {
                        killed: true,
                        ..started
                    });
                }
                Ok(String::new())
            }
            ("forget", []) => Ok(remove_below(self.files, &self.secret)),
            ("clear", []) => Ok(remove_below(self.files, SECRET) + &remove_below(self.files, KEPT)),
            _ => Err(format!("a fake guest does not know `{verb}`")),
        }
    }

    fn begin(&mut self) -> String {
        if self.started().is_some() {
            return "started".to_owned();
        }
        remove_below(self.files, &self.secret);
        let part = format!("{}blob.part", self.secret);
        self.files.write(part.clone(), "");
        self.files.set_mode(&part, 0o600);
        part
    }

    fn seal(&mut self, size: &str) -> Result<String, String> {
        let part = format!("{}blob.part", self.secret);
        let there = self.files.read(&part).map_or(0, <[u8]>::len);
        if there.to_string() != size {
            return Err(format!("the guest has {there} bytes of {size}"));
        }
        let blob = format!("{}blob", self.secret);
        self.files.rename(&part, blob.clone());
        Ok(blob)
    }

    fn start(&mut self, environment: &[String], command: &[String], hooks: Hooks) {
        if self.started().is_some() {
            return;
        }
        let end = hooks.start(command, environment, self.files);
        let millis = |after: Duration| u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.note(&Started {
            boot: self.files.text(BOOT).unwrap_or_default().to_owned(),
            ends: end.after.map(|after| now().saturating_add(millis(after))),
            code: end.code,
            output: end.output.to_owned(),
            killed: false,
        });
    }

    fn poll(&self) -> String {
        let Some(started) = self.started() else {
            return "none".to_owned();
        };
        let boot = self.files.text(BOOT).unwrap_or_default();
        let booted = boot
            .rsplit(' ')
            .next()
            .and_then(|since| since.parse().ok())
            .unwrap_or(0);
        match started.ends {
            _ if started.killed => "gone".to_owned(),
            // Whatever would have come after the guest went down never came.
            ends if started.boot != boot && ends.is_none_or(|ends| ends > booted) => "rebooted".to_owned(),
            _ if started.is_running() => "running".to_owned(),
            _ => format!("code={}", started.code),
        }
    }

    fn started(&self) -> Option<Started> {
        serde_json::from_slice(self.files.read(&self.kept)?).ok()
    }

    fn note(&mut self, started: &Started) {
        // invariant: text and numbers can always be written.
        let text = serde_json::to_vec(started).unwrap_or_default();
        self.files.write(self.kept.clone(), text);
    }
}

impl Started {
    fn is_running(&self) -> bool {
        !self.killed && self.ends.is_none_or(|ends| ends > now())
    }
}

/// Says nothing, as `rm` does.
fn remove_below(files: &mut Files, folder: &str) -> String {
    let paths: Vec<String> = files.below(folder).map(str::to_owned).collect();
    for path in paths {
        files.remove(&path);
    }
    String::new()
}
