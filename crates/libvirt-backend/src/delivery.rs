//! Delivery by seed (docs/image.md): for images whose agent may not run programs. The seed carries the blob, the guest is
//! started again with it, and tells on a channel of its own how its bootstrap ended.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use libvirt_rpc::{
    stream::Chunk,
    wire::{
        constant::domain::{DomainChannelFlags, DomainCreateFlags},
        remote::record::DomainRef,
    },
};
use providerkit_backend::{Bytes, ClusterId, Machine, OperationId};
use ring::digest::{SHA256, digest};

use crate::{
    configure, create,
    failure::{Doing as _, Failure},
    guest::Stuck,
    host::{Host, Lanes},
    plan::{self, Plan},
    pool::Pool,
    remove,
    xml::RESULT_CHANNEL,
};

const SCRIPT: &str = include_str!("../../../images/golden/guest/bootstrap-from-seed");
/// Longest line that is read; the guest wrote it.
const LONGEST: usize = 64 * 1024;
/// Between two tries to open the channel.
const PAUSE: Duration = Duration::from_secs(1);

/// What a seed carries for one Configure.
#[derive(Debug)]
pub(crate) struct Delivery<'a> {
    pub(crate) operation: OperationId,
    environment: String,
    blob: &'a [u8],
}

/// A blob on its way into a guest.
pub(crate) struct Parcel<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) operation: OperationId,
    pub(crate) cluster: &'a ClusterId,
    pub(crate) blob: &'a Bytes,
    /// How long the hooks may take.
    pub(crate) limit: Duration,
}

impl Delivery<'_> {
    pub(crate) fn put_into(&self, seed: cloud_init::Seed) -> Result<cloud_init::Seed, cloud_init::Error> {
        use cloud_init::{FileName, Part, VendorData};
        let script = Part::new("50-bigfleet", SCRIPT)?;
        Ok(seed
            .vendor_data(VendorData::new(vec![script]))
            .file(FileName::new("bootstrap.blob")?, Bytes::copy_from_slice(self.blob))
            .file(FileName::new("bootstrap.env")?, self.environment.clone()))
    }
}

impl Parcel<'_> {
    fn delivery<'b>(&self, blob: &'b [u8]) -> Delivery<'b> {
        let sum = digest(&SHA256, self.blob);
        let sum = sum
            .as_ref()
            .iter()
            .fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        let ours = |pair: &String| pair.starts_with("BIGFLEET_");
        let mut lines: Vec<_> = configure::environment(self.machine, self.operation, self.cluster)
            .into_iter()
            .filter(ours)
            .collect();
        lines.push(format!("BIGFLEET_TIMEOUT_SECONDS={}", self.limit.as_secs()));
        lines.push(format!("BIGFLEET_BLOB_SHA256={sum}"));
        // A line's end would begin another variable.
        let lines = lines.iter().map(|line| line.replace(['\n', '\r'], " ") + "\n");
        Delivery {
            operation: self.operation,
            environment: lines.collect(),
            blob,
        }
    }
}

/// Delivers a blob, and waits for the bootstrap and the node's readiness.
pub(crate) async fn deliver(
    lanes: &Arc<Lanes>,
    host: &Host,
    plan: &Plan,
    parcel: &Parcel<'_>,
    stuck: &Stuck,
) -> Result<(), Failure> {
    let guest = configure::guest(lanes, &plan.settings.provider, parcel.machine).await?;
    let (domain, mut owner) = (guest.domain, guest.owner);
    let mut plan = plan.clone();
    plan.owner.created_by = owner.created_by;
    plan.owner.disk_by = owner.disk_by;
    let pool = Pool::open(lanes, &owner.pool).await?;
    let seed = plan.incarnation().seed();
    if owner.seed_by != Some(parcel.operation) {
        stuck.on("the seed to be replaced");
        remove::stop(lanes, &domain, plan.settings.guest.stop_grace).await?;
        pool.make_seed(&seed, &plan.seed(Some(&parcel.delivery(parcel.blob)))?)
            .await?;
        owner.seed_by = Some(parcel.operation);
        plan::mark(lanes, &domain, &owner).await?;
    }
    create::start(lanes, &domain, DomainCreateFlags::empty()).await?;
    create::learn(lanes, host, &domain).await?;
    stuck.on("the guest to tell how its bootstrap ended");
    let result = listen(lanes, &domain, parcel.operation).await?;
    // The same seed, of the same size, with nothing in the place of the blob.
    let blank = vec![0; parcel.blob.len()];
    pool.overwrite(&seed, &plan.seed(Some(&parcel.delivery(&blank)))?)
        .await?;
    result.judge()
}

/// What the guest told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    done: bool,
    code: Option<i32>,
    ready: String,
    log: String,
}

impl Told {
    /// Reads a line; `None` for one of another form or operation, whoever wrote it.
    fn parse(line: &str, operation: OperationId) -> Option<Self> {
        let mut words = line.trim().strip_prefix("BIGFLEET-RESULT 1 ")?.split(' ');
        if words.next()? != operation.to_string() {
            return None;
        }
        let done = match words.next()? {
            "done" => true,
            "running" => false,
            _ => return None,
        };
        let code = words.next()?.strip_prefix("rc=")?.parse().ok();
        let ready = words.next()?.strip_prefix("ready=")?.to_owned();
        let log = BASE64.decode(words.next()?.strip_prefix("log=")?).ok()?;
        Some(Self {
            done,
            code,
            ready,
            log: String::from_utf8_lossy(&log).into_owned(),
        })
    }

    fn judge(&self) -> Result<(), Failure> {
        let output = match self.log.trim() {
            "" => "it printed nothing".to_owned(),
            log => format!("the end of its output: {log}"),
        };
        match (self.code, self.ready.as_str()) {
            (Some(0), "yes" | "none") => Ok(()),
            (Some(0), _) => Err(Failure::told(format!(
                "/opt/bigfleet/ready never said that the node is Ready; {output}"
            ))),
            (Some(125), _) => Err(Failure::told(format!("/opt/bigfleet/bootstrap was not run; {output}"))),
            (Some(124 | 137 | 143), _) => Err(Failure::told(format!(
                "/opt/bigfleet/bootstrap did not end in time; {output}"
            ))),
            (code, _) => {
                let code = code.map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}"));
                Err(Failure::told(format!(
                    "/opt/bigfleet/bootstrap failed with {code}; {output}"
                )))
            }
        }
    }
}

/// Listens until the guest says that it is done; the caller's deadline bounds it.
async fn listen(lanes: &Lanes, domain: &DomainRef, operation: OperationId) -> Result<Told, Failure> {
    let doing = || format!("open the result channel of `{}`", domain.name.to_string_lossy());
    loop {
        let opened = lanes
            .bulk
            .domain_open_channel(domain, Some(RESULT_CHANNEL), DomainChannelFlags::FORCE)
            .await;
        match opened.doing(doing) {
            Ok(mut stream) => {
                let mut line = Vec::new();
                while let Ok(Some(Chunk::Data(data))) = stream.next().await {
                    for byte in data {
                        if byte != b'\n' {
                            line.push(byte);
                            line.truncate(LONGEST);
                            continue;
                        }
                        let told = Told::parse(&String::from_utf8_lossy(&line), operation);
                        line.clear();
                        if let Some(told) = told.filter(|told| told.done) {
                            return Ok(told);
                        }
                    }
                }
            }
            Err(failure) if failure.is_connection() => return Err(failure),
            // The domain is just starting, or somebody else listens.
            Err(failure) => tracing::debug!(%failure, "the channel is tried again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_of_the_operation_count() {
        let id = OperationId::mint();
        let log = BASE64.encode("bang\n");
        let told = Told::parse(&format!("BIGFLEET-RESULT 1 {id} done rc=3 ready=- log={log}"), id).unwrap();
        assert_eq!((told.done, told.code, told.log.as_str()), (true, Some(3), "bang\n"));
        assert!(
            matches!(told.judge(), Err(Failure::Told(text)) if text.contains("exit code 3") && text.contains("bang"))
        );
        let running = Told::parse(&format!("BIGFLEET-RESULT 1 {id} running rc=- ready=- log="), id).unwrap();
        assert!(!running.done && running.code.is_none());
        for line in [
            format!("BIGFLEET-RESULT 1 {} done rc=0 ready=yes log=", OperationId::mint()),
            format!("BIGFLEET-RESULT 2 {id} done rc=0 ready=yes log="),
            format!("BIGFLEET-RESULT 1 {id} done rc=0"),
            format!("BIGFLEET-RESULT 1 {id} over rc=0 ready=yes log="),
            format!("BIGFLEET-RESULT 1 {id} done rc=0 ready=yes log=!"),
            String::new(),
        ] {
            assert_eq!(Told::parse(&line, id), None, "{line}");
        }
    }

    #[test]
    fn an_image_without_a_ready_hook_is_taken_at_its_word() {
        let told = |code, ready: &str| Told {
            done: true,
            code: Some(code),
            ready: ready.into(),
            log: String::new(),
        };
        assert!(told(0, "yes").judge().is_ok() && told(0, "none").judge().is_ok());
        assert!(told(0, "no").judge().is_err() && told(124, "none").judge().is_err());
    }
}
