//! IDLE to CONFIGURED: the image's bootstrap, then the node's readiness.

use std::{sync::Arc, time::Duration};

use libvirt_rpc::wire::{constant::domain::DomainCreateFlags, remote::record::DomainRef};
use providerkit_backend::{ClusterId, Machine, OperationId};

use crate::{
    create,
    delivery::{self, Parcel},
    failure::Failure,
    guest::{Agent, Ended, Hook, Permits, Run, Stuck},
    host::{Host, Lanes},
    name::DomainName,
    owner::{Binding, Owner},
    plan::{self, Plan},
    settings::{Delivery, Readiness},
};

const BOOTSTRAP: &str = "/opt/bigfleet/bootstrap";
const READY: &str = "/opt/bigfleet/ready";
const NODE: &str = include_str!("guest/node.sh");

/// Between two questions whether the node is Ready.
const FIRST_POLL: Duration = Duration::from_millis(500);
const LAST_POLL: Duration = Duration::from_secs(5);
/// One question to the hook.
const QUESTION: Duration = Duration::from_secs(45);
/// One to the node: longer than its script lets kubectl take, so that no two of them run at a time.
const NODE_QUESTION: Duration = Duration::from_secs(90);

/// A machine's domain, as looked up for one attempt.
pub(crate) struct Guest {
    pub(crate) domain: DomainRef,
    pub(crate) owner: Owner,
}

/// The domain of a machine that has a host.
pub(crate) async fn guest(lanes: &Lanes, provider: &str, machine: &Machine) -> Result<Guest, Failure> {
    let name = DomainName::new(provider, &machine.id);
    match plan::find(lanes, &name, provider, &machine.id).await? {
        Some((seen, owner)) => Ok(Guest {
            domain: seen.domain,
            owner,
        }),
        None => Err(Failure::told(format!(
            "domain `{name}` is gone; it was removed by hand"
        ))),
    }
}

/// What every hook is told.
pub(crate) fn environment(machine: &Machine, operation: OperationId, cluster: &ClusterId) -> Vec<String> {
    let reference = machine
        .host
        .as_ref()
        .map(|host| host.reference.to_string())
        .unwrap_or_default();
    vec![
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        "HOME=/root".to_owned(),
        "LANG=C.UTF-8".to_owned(),
        format!("BIGFLEET_MACHINE_ID={}", machine.id),
        format!("BIGFLEET_CLUSTER_ID={cluster}"),
        format!("BIGFLEET_OPERATION_ID={operation}"),
        format!("BIGFLEET_ZONE={}", machine.profile.zone),
        format!("BIGFLEET_INSTANCE_TYPE={}", machine.profile.instance_type),
        format!("BIGFLEET_PROVIDER_ID={reference}"),
    ]
}

/// Delivers the blob and runs the image's bootstrap, once, whichever way the image takes it.
pub(crate) async fn bootstrap(
    lanes: Arc<Lanes>,
    host: &Host,
    plan: &Plan,
    parcel: &Parcel<'_>,
    stuck: &Stuck,
) -> Result<(), Failure> {
    let provider = &plan.settings.provider;
    let Parcel {
        machine,
        operation,
        cluster,
        blob,
        ..
    } = *parcel;
    let Guest { domain, owner } = guest(&lanes, provider, machine).await?;
    // It may have stopped by itself; nobody else brings it back while we work on it.
    create::start(&lanes, &domain, DomainCreateFlags::START_FORCE_BOOT).await?;
    let by_seed = match plan.settings.delivery() {
        Delivery::Agent => false,
        Delivery::Seed => true,
        // A guest that is being started with the blob has no agent to ask.
        Delivery::Auto => {
            owner.seed_by == Some(operation)
                || Agent::new(&lanes, &domain).permits_in_time().await? != Permits::Everything
        }
    };
    if by_seed {
        return delivery::deliver(&lanes, host, plan, parcel, stuck).await;
    }
    let run = Run::new(Agent::new(&lanes, &domain), operation);
    stuck.on("the guest to take the bootstrap blob");
    let mut environment = environment(machine, operation, cluster);
    let hook = |environment| Hook {
        name: BOOTSTRAP,
        command: vec![BOOTSTRAP, cluster.as_str()],
        environment,
    };
    if let Some(path) = run.deliver(blob).await? {
        environment.push(format!("BIGFLEET_BLOB={path}"));
        run.start(&hook(environment)).await?;
    }
    stuck.on(format!("{BOOTSTRAP} to end in the guest"));
    let ended = run.wait(&hook(Vec::new())).await;
    if !matches!(&ended, Err(failure) if failure.is_connection()) {
        run.forget().await?;
    }
    ended
}

/// Asks until the node is Ready; the caller's deadline bounds it.
pub(crate) async fn ready(
    lanes: &Lanes,
    provider: &str,
    machine: &Machine,
    operation: OperationId,
    cluster: &ClusterId,
    readiness: Readiness,
    stuck: &Stuck,
) -> Result<(), Failure> {
    if readiness == Readiness::None {
        return Ok(());
    }
    let Guest { domain, owner } = guest(lanes, provider, machine).await?;
    if owner.seed_by == Some(operation) {
        // Its result said so already, and there is no other way to ask.
        return Ok(());
    }
    let agent = Agent::new(lanes, &domain);
    let hook = format!("if [ -x {READY} ]; then exec {READY} \"$1\"; else exit 126; fi");
    let exported = export(&environment(machine, operation, cluster));
    let hook = format!("{exported}\n{hook}");
    let mut pause = FIRST_POLL;
    loop {
        let answer = match readiness {
            Readiness::Kubelet => by_kubelet(&agent).await,
            Readiness::Hook => agent
                .run(&hook, &[cluster.as_str()], QUESTION)
                .await
                .map(|ended| Answer::from_hook(&ended)),
            _ => match agent.run(&hook, &[cluster.as_str()], QUESTION).await {
                Ok(ended) if ended.code == Some(126) => by_kubelet(&agent).await,
                asked => asked.map(|ended| Answer::from_hook(&ended)),
            },
        };
        match answer {
            Ok(Answer::Ready) => return Ok(()),
            Ok(Answer::NotYet(why)) => stuck.on(format!("the node to be Ready: {why}")),
            Ok(Answer::Never(why)) => return Err(Failure::told(why)),
            Err(failure) if failure.is_connection() => return Err(failure),
            Err(failure) => {
                stuck.on(format!("the node to be Ready; the guest could not be asked: {failure}"));
                // It may have stopped, or its host; nobody else brings it back while we work on it.
                create::start(lanes, &domain, DomainCreateFlags::START_FORCE_BOOT).await?;
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LAST_POLL);
    }
}

/// Writes down where the machine is bound.
pub(crate) async fn bind(
    lanes: &Lanes,
    host: &Host,
    provider: &str,
    machine: &Machine,
    cluster: &ClusterId,
) -> Result<(), Failure> {
    let Guest { domain, mut owner } = guest(lanes, provider, machine).await?;
    owner.binding = Some(Binding {
        cluster: cluster.clone(),
        metadata: (*machine.metadata).clone(),
    });
    plan::mark(lanes, &domain, &owner).await?;
    create::learn(lanes, host, &domain).await
}

enum Answer {
    Ready,
    NotYet(String),
    Never(String),
}

impl Answer {
    fn from_hook(ended: &Ended) -> Self {
        let said = ended.said();
        match ended.code {
            Some(0) => Self::Ready,
            Some(126) => Self::Never(format!(
                "the image has no {READY}; add it or set `guest.readiness` to another way"
            )),
            _ => Self::NotYet(format!("{READY} says: {said}")),
        }
    }
}

async fn by_kubelet(agent: &Agent<'_>) -> Result<Answer, Failure> {
    let ended = agent.run(NODE, &["ready"], NODE_QUESTION).await?;
    let said = ended.said();
    Ok(match ended.code {
        Some(0) => Answer::Ready,
        Some(2) => Answer::Never(said),
        _ => Answer::NotYet(said),
    })
}

/// Shell lines that set an environment.
pub(crate) fn export(environment: &[String]) -> String {
    let line = |pair: &String| format!("export '{}'", pair.replace('\'', r"'\''"));
    environment.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_break_out_of_its_line() {
        let line = export(&["A=it's; rm -rf /\n$(x)".to_owned()]);
        assert_eq!(line, "export 'A=it'\\''s; rm -rf /\n$(x)'");
    }
}
