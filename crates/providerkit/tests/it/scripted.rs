//! A backend that does what a test says, and remembers what it was asked.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use providerkit::{
    Backend, Capabilities, CapacityType, CleanupRequest, ConfigureRequest, CreateRequest, Created, DeleteRequest,
    DeleteSupport, DrainRequest, Error, HostRef, Known, Machine, Operation, OperationId, Profile, ReadyRequest, Slot,
    Transition, async_trait,
};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

/// What a step does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Succeed,
    Fail(&'static str),
    /// Waits to be cancelled, then fails.
    UntilCancelled,
    /// Succeeds after this long, cancelled or not.
    After(Duration),
    /// Never ends, cancelled or not.
    Never,
    Panic,
    /// Succeeds once the gate is open.
    Gate,
}

/// The calls a backend gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Do(Transition),
    Ready,
    Cleanup,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) step: Step,
    pub(crate) machine: String,
    pub(crate) operation: OperationId,
    pub(crate) attempt: u32,
    pub(crate) budget: Duration,
}

#[derive(Debug)]
pub(crate) struct Scripted {
    /// What a look that is held answers is decided when it begins.
    look_gate: watch::Sender<bool>,
    pub(crate) slots: Mutex<Result<Vec<Slot>, &'static str>>,
    pub(crate) delete: DeleteSupport,
    acts: Mutex<HashMap<Step, Act>>,
    asked: watch::Sender<Vec<Asked>>,
    /// What the last look was told.
    known: watch::Sender<Vec<Known>>,
    /// When looks began.
    looks: watch::Sender<Vec<Instant>>,
    change: Notify,
    gate: watch::Sender<bool>,
    under_way: Arc<AtomicUsize>,
    pub(crate) full: Mutex<bool>,
}

pub(crate) fn profile() -> Profile {
    Profile::new("type-4", "zone-a", CapacityType::OnDemand)
        .price_per_hour(0.5)
        .resource("cpu", "4")
}

/// The host of the `made`th Create that a backend was asked for, as this machine's.
pub(crate) fn host(machine: impl std::fmt::Display, made: usize) -> HostRef {
    HostRef::new("scripted", format!("{machine}#{made}"))
}

impl Scripted {
    pub(crate) fn new(machines: usize) -> Self {
        let shared = Arc::new(profile());
        let slots = (0..machines)
            .map(|n| Slot::new(format!("m-{n}"), Arc::clone(&shared)))
            .collect();
        Self {
            slots: Mutex::new(Ok(slots)),
            delete: DeleteSupport::Always,
            acts: Mutex::default(),
            asked: watch::Sender::default(),
            known: watch::Sender::default(),
            looks: watch::Sender::default(),
            change: Notify::new(),
            gate: watch::Sender::new(false),
            look_gate: watch::Sender::new(true),
            under_way: Arc::default(),
            full: Mutex::new(false),
        }
    }

    pub(crate) fn delete(mut self, support: DeleteSupport) -> Self {
        self.delete = support;
        self
    }

    pub(crate) fn act(&self, step: Step, act: Act) {
        self.acts.lock().unwrap().insert(step, act);
    }

    /// What the last look was told of this slot.
    pub(crate) fn known(&self, slot: &str) -> Known {
        self.known
            .borrow()
            .iter()
            .find(|known| &*known.slot == slot)
            .cloned()
            .unwrap()
    }

    /// How many calls have neither ended nor been dropped.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// What the next looks find: slots of one profile, some with the reason why they are withheld.
    pub(crate) fn offer(&self, slots: &[(&str, Option<&str>)]) {
        let slots = slots.iter().map(|(name, withheld)| {
            let slot = Slot::new(*name, profile());
            match withheld {
                Some(reason) => slot.withheld(*reason),
                None => slot,
            }
        });
        *self.slots.lock().unwrap() = Ok(slots.collect());
    }

    /// Holds looks between what they see and their answer, until they are let go.
    pub(crate) fn hold_looks(&self, hold: bool) {
        self.look_gate.send_replace(!hold);
    }

    /// Says that another look would find something new.
    pub(crate) fn change(&self) {
        self.change.notify_one();
    }

    /// When looks began, the one at a first start included.
    pub(crate) fn looks(&self) -> Vec<Instant> {
        self.looks.borrow().clone()
    }

    /// Waits until another look has begun.
    pub(crate) async fn wait_look(&self) {
        let before = self.looks().len();
        let more = |looks: &Vec<Instant>| looks.len() > before;
        self.looks.subscribe().wait_for(more).await.unwrap();
    }

    pub(crate) fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    pub(crate) fn asked(&self, step: Step) -> Vec<Asked> {
        self.asked
            .borrow()
            .iter()
            .filter(|asked| asked.step == step)
            .cloned()
            .collect()
    }

    /// Waits until it was asked this often.
    pub(crate) async fn wait_asked(&self, step: Step, times: usize) -> Asked {
        let enough = |all: &Vec<Asked>| all.iter().filter(|asked| asked.step == step).count() >= times;
        self.asked.subscribe().wait_for(enough).await.unwrap();
        self.asked(step)[times - 1].clone()
    }

    async fn perform(&self, step: Step, operation: &Operation, machine: &Machine) -> Result<(), Error> {
        let _under_way = UnderWay::begin(&self.under_way);
        self.asked.send_modify(|all| {
            all.push(Asked {
                step,
                machine: machine.id.to_string(),
                operation: operation.id,
                attempt: operation.attempt,
                budget: operation.budget,
            });
        });
        let act = self.acts.lock().unwrap().get(&step).cloned().unwrap_or(Act::Succeed);
        match act {
            Act::Succeed => Ok(()),
            Act::Fail(text) => Err(Error::new(text)),
            Act::UntilCancelled => {
                operation.cancellation.cancelled().await;
                Err(Error::new("cancelled"))
            }
            Act::After(pause) => {
                tokio::time::sleep(pause).await;
                Ok(())
            }
            Act::Never => std::future::pending().await,
            Act::Panic => panic!("scripted panic"),
            Act::Gate => {
                self.gate.subscribe().wait_for(|open| *open).await.unwrap();
                Ok(())
            }
        }
    }
}

struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl Backend for Scripted {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default().delete(self.delete).readiness(true)
    }

    async fn describe(&self, known: &[Known]) -> Result<Vec<Slot>, Error> {
        let found = self.slots.lock().unwrap().clone().map_err(Error::new);
        self.known.send_replace(known.to_vec());
        self.looks.send_modify(|looks| looks.push(Instant::now()));
        self.look_gate.subscribe().wait_for(|open| *open).await.unwrap();
        found
    }

    async fn changed(&self) {
        self.change.notified().await;
    }

    fn admit(&self, machine: &Machine, _: Transition) -> Result<(), Error> {
        if *self.full.lock().unwrap() {
            Err(Error::exhausted(format!("no room for {}", machine.id)))
        } else {
            Ok(())
        }
    }

    async fn create(&self, request: CreateRequest) -> Result<Created, Error> {
        self.perform(Step::Do(Transition::Create), &request.operation, &request.machine)
            .await?;
        let made = self.asked(Step::Do(Transition::Create)).len();
        Ok(Created::new(host(&request.machine.id, made)))
    }

    async fn configure(&self, request: ConfigureRequest) -> Result<(), Error> {
        self.perform(Step::Do(Transition::Configure), &request.operation, &request.machine)
            .await
    }

    async fn ready(&self, request: ReadyRequest) -> Result<(), Error> {
        self.perform(Step::Ready, &request.operation, &request.machine).await
    }

    async fn drain(&self, request: DrainRequest) -> Result<(), Error> {
        self.perform(Step::Do(Transition::Drain), &request.operation, &request.machine)
            .await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<(), Error> {
        self.perform(Step::Do(Transition::Delete), &request.operation, &request.machine)
            .await
    }

    async fn cleanup(&self, request: CleanupRequest) -> Result<(), Error> {
        self.perform(Step::Cleanup, &request.operation, &request.machine).await
    }
}
