//! A provider process and those who share it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bigfleet_proto::{Machine, MachineState as S};
use tokio::sync::{Notify, watch};

use crate::{
    Outcome,
    call::free,
    client::{Client, Session},
    expect::is,
    launch::{Launcher, Provider, Start},
    outcome::Stop,
};

/// What a provider showed that it can do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Abilities {
    pub(crate) delete: bool,
    pub(crate) revisions: bool,
}

impl Abilities {
    /// Walks one machine to IDLE and back (contract §12.5).
    pub(crate) async fn probe(client: &Client, id: &str) -> Outcome<Self> {
        let before = client.revision().await?;
        client.make_idle(id).await?;
        let after = client.revision().await?;
        let answer = client.delete(id, &free()).await;
        let delete = !is(&answer, tonic::Code::Unimplemented);
        if answer.is_ok() {
            client.reach(id, S::Speculative).await?;
        }
        Ok(Self {
            delete,
            revisions: !after.is_empty() && before != after,
        })
    }
}

/// What a kill and a start were like.
#[derive(Clone, Debug)]
pub(crate) struct Reboot {
    /// A connection to the new process.
    pub(crate) client: Client,
    /// All operation ids that the lane was given before the kill.
    pub(crate) heard: Arc<BTreeSet<String>>,
    /// The fleet right before the kill, when everybody had stopped.
    pub(crate) before: Arc<BTreeMap<String, Machine>>,
    /// The fleet right after the start.
    pub(crate) after: Arc<BTreeMap<String, Machine>>,
}

/// Kills the provider when all who use it wait for that.
#[derive(Debug)]
pub(crate) struct Reboots {
    meeting: Mutex<Meeting>,
    changed: Notify,
    done: watch::Sender<Option<Result<Reboot, String>>>,
}

#[derive(Debug, Default)]
struct Meeting {
    active: usize,
    waiting: usize,
}

impl Reboots {
    /// Of so many behaviours.
    pub(crate) fn new(active: usize) -> Self {
        Self {
            meeting: Mutex::new(Meeting { active, waiting: 0 }),
            changed: Notify::new(),
            done: watch::Sender::new(None),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Meeting)) {
        change(&mut self.meeting.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }

    /// One behaviour has ended.
    pub(crate) fn leave(&self) {
        self.change(|meeting| meeting.active -= 1);
    }

    pub(crate) async fn wait(&self) -> Outcome<Reboot> {
        let mut done = self.done.subscribe();
        done.borrow_and_update();
        self.change(|meeting| meeting.waiting += 1);
        if done.changed().await.is_err() {
            return Err(Stop::failed("a reboot", "nobody drives reboots"));
        }
        match &*done.borrow() {
            Some(Ok(reboot)) => Ok(reboot.clone()),
            Some(Err(why)) => Err(Stop::failed("the provider to start again on its state", why.as_str())),
            None => Err(Stop::failed("a reboot", "none happened")),
        }
    }

    /// Drives reboots until nobody is left.
    pub(crate) async fn drive(&self, provider: Provider, launcher: &Launcher, start: &Start, session: &Arc<Session>) {
        let mut provider = Some(provider);
        loop {
            let (active, all_wait) = {
                let meeting = self.meeting.lock().unwrap_or_else(PoisonError::into_inner);
                (meeting.active, meeting.waiting == meeting.active)
            };
            if active == 0 {
                return;
            }
            if !all_wait {
                self.changed.notified().await;
                continue;
            }
            let (next, result) = match provider.take() {
                Some(provider) => once(provider, launcher, start, session).await,
                None => (None, Err("it did not start again the time before".into())),
            };
            provider = next;
            self.change(|meeting| meeting.waiting = 0);
            self.done.send_replace(Some(result));
        }
    }
}

async fn once(
    provider: Provider,
    launcher: &Launcher,
    start: &Start,
    session: &Arc<Session>,
) -> (Option<Provider>, Result<Reboot, String>) {
    let before = match fleet_of(&provider, session).await {
        Ok((_, before)) => before,
        Err(why) => return (Some(provider), Err(why)),
    };
    let heard = Arc::new(session.heard.of(session.lane));
    provider.kill();
    drop(provider);
    let provider = match launcher.start(start).await {
        Ok(provider) => provider,
        Err(error) => return (None, Err(error.to_string())),
    };
    match fleet_of(&provider, session).await {
        Ok((client, after)) => {
            let reboot = Reboot {
                client,
                heard,
                before: Arc::new(before),
                after: Arc::new(after),
            };
            (Some(provider), Ok(reboot))
        }
        Err(why) => (Some(provider), Err(why)),
    }
}

async fn fleet_of(provider: &Provider, session: &Arc<Session>) -> Result<(Client, BTreeMap<String, Machine>), String> {
    let client = Client::connect(&provider.address.to_string(), session).map_err(|stop| said(&stop))?;
    let fleet = client.fleet().await.map_err(|stop| said(&stop))?;
    Ok((client, fleet))
}

pub(crate) fn said(stop: &Stop) -> String {
    match stop {
        Stop::Failed(failure) => failure.to_string(),
        Stop::Skipped(why) => why.clone(),
    }
}

/// How long a lane's setup may take on top of a start.
pub(crate) const DURABLE_CALL: Duration = Duration::from_secs(10);
/// How long any other call may take.
pub(crate) const CALL: Duration = Duration::from_secs(30);
