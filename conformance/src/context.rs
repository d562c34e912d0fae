//! What a check has to work with.

use std::{
    collections::VecDeque,
    ops::Deref,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bigfleet_proto::Machine;

use crate::{
    Outcome,
    call::{Binding, Shard},
    client::{Client, Session},
    fleet::Fleet,
    lane::{Abilities, Reboot, Reboots},
    launch::{Launcher, Provider, Start},
    mapping::Fault,
    outcome::Stop,
    random::Random,
    walk::Patience,
};

/// What a check has to work with: calls are made on it.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) machines: Mutex<VecDeque<String>>,
    pub(crate) fleet: Option<Arc<Fleet>>,
    /// What was claimed on top of what was declared.
    pub(crate) extra: Mutex<Vec<String>>,
    pub(crate) random: Mutex<Random>,
    pub(crate) shards: AtomicUsize,
    pub(crate) nonce: String,
    pub(crate) address: String,
    pub(crate) abilities: Abilities,
    pub(crate) reboots: Option<Arc<Reboots>>,
    pub(crate) launcher: Option<Arc<Launcher>>,
    pub(crate) scratch: PathBuf,
    pub(crate) sizes: Sizes,
    pub(crate) fault: Fault,
}

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) scale_seed: usize,
    pub(crate) soak: Duration,
}

impl Deref for Context {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Context {
    /// The next of the machines that were set aside for this behaviour; SPECULATIVE and nobody else's.
    pub(crate) fn machine(&self) -> Outcome<String> {
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        machines
            .pop_front()
            .ok_or_else(|| Stop::failed("the harness to set aside enough machines", "it did not"))
    }

    /// All that are left of them.
    pub(crate) fn all_machines(&self) -> Vec<String> {
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        machines.drain(..).collect()
    }

    /// One more machine, for who cannot say before how many it takes.
    pub(crate) async fn another(&self) -> Outcome<String> {
        let none = || Stop::skipped("the provider has no machine left");
        let fleet = self.fleet.as_ref().ok_or_else(none)?;
        let id = fleet
            .claim(1, crate::behaviour::MachineKind::Any)
            .await?
            .pop()
            .ok_or_else(none)?;
        self.extra
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(id.clone());
        Ok(id)
    }

    /// A machine walked to IDLE.
    pub(crate) async fn idle(&self) -> Outcome<String> {
        let id = self.machine()?;
        self.make_idle(&id).await?;
        Ok(id)
    }

    /// All machines walked to IDLE, side by side.
    pub(crate) async fn idles(&self) -> Outcome<Vec<String>> {
        let ids = self.all_machines();
        for id in &ids {
            crate::expect::operation(self.create(id, &crate::call::free()).await, "Create")?;
        }
        for id in &ids {
            self.reach(id, bigfleet_proto::MachineState::Idle).await?;
        }
        Ok(ids)
    }

    /// A machine walked to CONFIGURED.
    pub(crate) async fn configured(&self, binding: &Binding) -> Outcome<String> {
        let id = self.idle().await?;
        self.bind(&id, binding).await?;
        Ok(id)
    }

    /// A shard that nobody has heard of.
    pub(crate) fn shard(&self) -> Shard {
        let number = self.shards.fetch_add(1, Ordering::Relaxed);
        Shard(format!("{}-{number}", self.nonce))
    }

    /// A name of a machine that does not exist.
    pub(crate) fn stranger(&self) -> String {
        let number = self.shards.fetch_add(1, Ordering::Relaxed);
        format!("no-such-machine-{}-{number}", self.nonce)
    }

    /// Another connection to the same provider.
    pub(crate) fn connection(&self) -> Outcome<Client> {
        Client::connect(&self.address, &self.client.session)
    }

    /// A stream of random numbers that the seed repeats.
    pub(crate) fn random(&self) -> Random {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).fork()
    }

    /// Kills the provider of the lane and starts it again, for all that wait for it.
    pub(crate) async fn reboot(&self) -> Outcome<Reboot> {
        let none = || Stop::skipped("the provider is not ours to kill; start it with --provider");
        let reboot = self.reboots.as_ref().ok_or_else(none)?.wait().await?;
        self.trace_note("SIGKILL and start on the same state");
        Ok(reboot)
    }

    fn launcher(&self) -> Outcome<&Arc<Launcher>> {
        let none = || Stop::skipped("needs a provider that the harness starts; use --provider");
        self.launcher.as_ref().ok_or_else(none)
    }

    fn can_start(&self, start: &Start) -> Outcome<&Arc<Launcher>> {
        let launcher = self.launcher()?;
        if start.fault && !launcher.has_fault_provider() {
            let none = "needs a provider that fails on demand; name one with --fault-provider";
            return Err(Stop::skipped(none));
        }
        Ok(launcher)
    }

    /// A provider of its own that listens.
    pub(crate) async fn launch(&self, start: &Start) -> Outcome<Provider> {
        let launcher = self.can_start(start)?;
        self.trace_note(format!("start of {}", start.name));
        launcher
            .start(start)
            .await
            .map_err(|error| Stop::failed("the provider to start and listen", error.to_string()))
    }

    /// A process of its own that may or may not listen.
    pub(crate) fn spawn(&self, start: &Start) -> Outcome<Provider> {
        self.trace_note(format!("start of {}", start.name));
        self.can_start(start)?
            .spawn(start)
            .map_err(|error| Stop::failed("the provider to start", error.to_string()))
    }

    /// The process ends with an error, and never answers a call before that.
    pub(crate) async fn refuses_to_start(&self, provider: &Provider, expected: &str) -> Outcome {
        let client = self.client_of(provider)?;
        let patience = Patience::new(expected, self.session().limit(Duration::from_secs(20)));
        while !provider.has_ended() {
            // One that only listens keeps a call waiting until it ends.
            let call = client.try_list(bigfleet_proto::ListFilter::default());
            let answered = tokio::time::timeout(Duration::from_millis(200), call).await;
            if answered.is_ok_and(|answer| answer.is_ok()) {
                return Err(Stop::failed(expected, "it answers calls"));
            }
            patience.more("it runs on").await?;
        }
        if provider.ended_well() {
            return Err(Stop::failed(expected, "it ended without an error"));
        }
        Ok(())
    }

    /// A connection to a provider of its own.
    pub(crate) fn client_of(&self, provider: &Provider) -> Outcome<Client> {
        Client::connect(&provider.address.to_string(), &self.client.session)
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.client.session
    }
}

/// Machines picked from a provider of one's own, by a list.
pub(crate) async fn speculative(client: &Client, count: usize) -> Outcome<Vec<String>> {
    let list = client
        .map(crate::call::only(&[bigfleet_proto::MachineState::Speculative]))
        .await?;
    let ids: Vec<String> = list.into_keys().take(count).collect();
    if ids.len() < count {
        return Err(Stop::skipped(format!(
            "the provider has no {count} SPECULATIVE machines"
        )));
    }
    Ok(ids)
}

/// Whether somebody's records equal somebody else's, by id and state.
pub(crate) fn states(fleet: &std::collections::BTreeMap<String, Machine>) -> Vec<(String, i32)> {
    fleet.iter().map(|(id, machine)| (id.clone(), machine.state)).collect()
}
