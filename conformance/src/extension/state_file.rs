//! The state file: who may have it, and what happens when the disk is full (contract §15).

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use bigfleet_proto::MachineState as S;
use tonic::Code;

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability, Lane},
    call::{Binding, free},
    client::Client,
    context::speculative,
    expect::{fenced, is, operation, said},
    launch::Start,
    outcome::{Stop, ensure, ensure_eq},
    walk::{Patience, bound},
};

const AREA: Area = Area::Durability;

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "X503",
        AREA,
        [
            "A state file belongs to one process",
            "a second process overwrites what the first has promised",
            "a second process on the same file ends with an error within 20 s and answers no call; the first goes on; once \
             it is killed another starts, and has its machines",
        ],
        |cx| Box::pin(x503(cx)),
    )
    .machines(0)
    .lane(Lane::Own)
    .needs(Capability::Durable)
    .extension(),
    Behaviour::new(
        "X504",
        AREA,
        [
            "On a full disk calls fail, change nothing, and work again when there is space",
            "a promise that could not be written is broken by the next restart",
            "state on a file system of 32 MiB that is filled up; Configures with 1 MiB of metadata on 24 idle machines: \
             refused ones change nothing and do not look like fencing, accepted ones are kept; at least 5 are refused; \
             with space again they are accepted within 20 s; all of it holds after SIGKILL and start",
        ],
        |cx| Box::pin(x504(cx)),
    )
    .machines(0)
    .lane(Lane::Own)
    .needs(Capability::Durable)
    .extension(),
];

async fn x503(cx: &Context) -> Outcome {
    let start = Start::new("x503").state(cx.scratch.join("x503.json"));
    let first = cx.launch(&start).await?;
    let client = cx.client_of(&first)?;
    let ids = speculative(&client, 1).await?;
    let id = ids.first().map_or("", String::as_str);
    client.make_idle(id).await?;
    let second = cx.spawn(&start)?;
    cx.refuses_to_start(&second, "a second process on the same file to end with an error")
        .await?;
    let binding = Binding::to("c").with("k", "v");
    client.bind(id, &binding).await?;
    first.kill();
    let third = cx.launch(&start).await?;
    bound(&cx.client_of(&third)?.get(id).await?, &binding)
}

/// A small file system, taken down when dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(cx: &Context) -> Outcome<Self> {
        let point = cx.scratch.join("x504");
        fs::create_dir_all(&point).map_err(|error| Stop::skipped(error.to_string()))?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=32m,mode=0700", "tmpfs"])
            .arg(&point)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Ok(Self(point)),
            Ok(output) => Err(Stop::skipped(format!(
                "the harness may not mount a tmpfs ({}); run it as root, or declare `X504` as not claimed",
                String::from_utf8_lossy(&output.stderr).trim()
            ))),
            Err(error) => Err(Stop::skipped(format!("there is no mount command: {error}"))),
        }
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Takes what is left.
    fn fill(&self) -> Outcome {
        let broken = |error: std::io::Error| Stop::failed("the harness to fill the disk", error.to_string());
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.filler())
            .map_err(broken)?;
        for block in [1 << 20, 4 << 10, 1] {
            let zeros = vec![0; block];
            while file.write_all(&zeros).is_ok() {}
        }
        Ok(())
    }

    fn free(&self) -> Outcome {
        let broken = |error: std::io::Error| Stop::failed("the harness to free the disk", error.to_string());
        fs::remove_file(self.filler()).map_err(broken)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, for a process may still be there; what it was mounted on is a folder that goes away.
        Command::new("umount").arg("--lazy").arg(&self.0).status().ok();
    }
}

fn large(number: usize) -> Binding {
    Binding::to(format!("cluster-{number}")).with("large", format!("{number:08}").repeat((1 << 20) / 8))
}

/// Every machine still has what was acknowledged, and the token that was spent is spent.
async fn kept(cx: &Context, client: &Client, accepted: &[(String, usize, String)]) -> Outcome {
    for (id, number, first) in accepted {
        bound(&client.reach(id, S::Configured).await?, &large(*number))?;
        let again = operation(
            client.configure(id, &large(*number), &free()).await,
            "a repeated Configure",
        )?;
        ensure_eq!("operation id", &again, first);
        let token = crate::call::Shard(cx.nonce.clone()).at(1, 1);
        fenced(&client.create(id, &token).await, "the token of an accepted call")?;
    }
    Ok(())
}

async fn x504(cx: &Context) -> Outcome {
    let disk = Disk::mount(cx)?;
    let state: &Path = &disk.0.join("state.json");
    let start = Start::new("x504").state(state);
    let provider = cx.launch(&start).await?;
    let client = cx.client_of(&provider)?;
    let ids = speculative(&client, 24).await?;
    for id in &ids {
        client.make_idle(id).await?;
    }
    // One token for all: were a refused call to leave a mark, the next would be fenced.
    let token = crate::call::Shard(cx.nonce.clone()).at(1, 1);
    let (mut accepted, mut refused) = (Vec::new(), Vec::new());
    for (number, id) in ids.iter().enumerate() {
        disk.fill()?;
        let before = client.get(id).await?;
        let answer = client.configure(id, &large(number), &token).await;
        if answer.is_ok() {
            accepted.push((id.clone(), number, operation(answer, "Configure")?));
            continue;
        }
        let codes = [
            Code::FailedPrecondition,
            Code::NotFound,
            Code::Unimplemented,
            Code::InvalidArgument,
        ];
        let misleading = codes.iter().any(|code| is(&answer, *code));
        ensure!(
            !misleading,
            "an error that speaks of the provider, not of the call",
            said(&answer)
        );
        ensure_eq!("the record after a refused call", client.get(id).await?, before);
        refused.push((id.clone(), number));
    }
    ensure!(
        refused.len() >= 5,
        "at least 5 of 24 large calls to be refused on a full disk",
        format!("{} accepted, {} refused", accepted.len(), refused.len())
    );
    disk.free()?;
    if let Some((id, number)) = refused.first() {
        let patience = Patience::new("calls to be accepted again", Duration::from_secs(20));
        let operation_id = loop {
            let answer = client.configure(id, &large(*number), &token).await;
            if answer.is_ok() {
                break operation(answer, "Configure")?;
            }
            patience.more(said(&answer)).await?;
        };
        accepted.push((id.clone(), *number, operation_id));
    }
    kept(cx, &client, &accepted).await?;
    let fleet = client.fleet().await?;
    provider.kill();
    let provider = cx.launch(&start).await?;
    let client = cx.client_of(&provider)?;
    let same = client.fleet().await? == fleet;
    ensure!(same, "the same fleet after a restart", "another");
    kept(cx, &client, &accepted).await
}
