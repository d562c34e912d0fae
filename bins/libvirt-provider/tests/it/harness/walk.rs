//! Leading machines from state to state and watching them.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bigfleet_proto::{HostRef, ListFilter, Machine, MachineList, MachineState, TransitionAck};
use tokio::time::sleep;
use tonic::Status;

use super::{Binding, Client, Token, expect_ok, only, operation};

/// The pause between two looks at something awaited.
const POLL: Duration = Duration::from_millis(10);
/// How long an awaited state may take unless a behaviour says otherwise (contract §12.5).
pub(crate) const AWAIT: Duration = Duration::from_secs(15);
/// How long a state that must not change is watched.
pub(crate) const HOLD: Duration = Duration::from_millis(250);

impl Client {
    pub(crate) async fn get(&self, id: &str) -> Machine {
        expect_ok(self.try_get(id).await)
    }

    pub(crate) async fn state(&self, id: &str) -> MachineState {
        self.get(id).await.state()
    }

    pub(crate) async fn list(&self, filter: ListFilter) -> MachineList {
        expect_ok(self.try_list(filter).await)
    }

    /// All machines, by id.
    pub(crate) async fn fleet(&self) -> BTreeMap<String, Machine> {
        by_id(self.list(ListFilter::default()).await.machines)
    }

    /// The cursor of now.
    pub(crate) async fn revision(&self) -> bytes::Bytes {
        self.list(ListFilter::default()).await.revision
    }

    /// Machines that could be created, taken as the certification takes them: by a capped list.
    pub(crate) async fn pick<const N: usize>(&self) -> [String; N] {
        let filter = ListFilter {
            max_results: i32::try_from(N).unwrap(),
            ..only(&[MachineState::Speculative])
        };
        let ids: Vec<_> = by_id(self.list(filter).await.machines).into_keys().collect();
        ids.try_into().expect("fewer SPECULATIVE machines than asked for")
    }

    pub(crate) async fn pick_one(&self) -> String {
        let [id] = self.pick().await;
        id
    }

    /// Waits for a state.
    pub(crate) async fn reach_within(&self, id: &str, state: MachineState, limit: Duration) -> Machine {
        let deadline = Instant::now() + limit;
        loop {
            let machine = self.get(id).await;
            if machine.state() == state {
                return machine;
            }
            assert!(
                Instant::now() < deadline,
                "`{id}` is not {state:?} within {limit:?}: {machine:?}"
            );
            sleep(POLL).await;
        }
    }

    pub(crate) async fn reach(&self, id: &str, state: MachineState) -> Machine {
        self.reach_within(id, state, AWAIT).await
    }

    /// Watches that a machine keeps its state.
    pub(crate) async fn stays(&self, id: &str, state: MachineState, duration: Duration) {
        let end = Instant::now() + duration;
        while Instant::now() < end {
            let machine = self.get(id).await;
            assert_eq!(machine.state(), state, "{machine:?}");
            sleep(POLL).await;
        }
    }

    /// Watches that a machine is never seen in a state.
    pub(crate) async fn never(&self, id: &str, states: &[MachineState], duration: Duration) {
        let end = Instant::now() + duration;
        while Instant::now() < end {
            let machine = self.get(id).await;
            assert!(!states.contains(&machine.state()), "{machine:?}");
            sleep(POLL).await;
        }
    }

    /// Every record seen from an ack on, looking each millisecond, until the machine is in a state; equal neighbours are
    /// one. The ack's own record comes first, so that the transition is seen however slow this side is.
    pub(crate) async fn trace(&self, answer: Result<TransitionAck, Status>, until: MachineState) -> Vec<Machine> {
        let deadline = Instant::now() + AWAIT;
        operation(answer.clone());
        let mut seen = Vec::from_iter(answer.unwrap().machine);
        let id = seen[0].id.clone();
        loop {
            let machine = self.get(&id).await;
            let done = machine.state() == until;
            if seen.last() != Some(&machine) {
                seen.push(machine);
            }
            if done {
                return seen;
            }
            assert!(Instant::now() < deadline, "never {until:?}: {seen:?}");
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// A machine walked to IDLE.
    pub(crate) async fn idle(&self) -> String {
        let [id] = self.idles().await;
        id
    }

    /// Machines walked to IDLE, all at once.
    pub(crate) async fn idles<const N: usize>(&self) -> [String; N] {
        let ids: [String; N] = self.pick().await;
        for id in &ids {
            operation(self.create(id, &Token::unfenced()).await);
        }
        for id in &ids {
            self.reach(id, MachineState::Idle).await;
        }
        ids
    }

    /// A machine walked to CONFIGURED.
    pub(crate) async fn configured(&self, binding: &Binding) -> String {
        let id = self.idle().await;
        self.bind(&id, binding).await;
        id
    }

    /// Walks an IDLE machine to CONFIGURED; answers the operation id.
    pub(crate) async fn bind(&self, id: &str, binding: &Binding) -> String {
        let operation = operation(self.configure(id, binding, &Token::unfenced()).await);
        self.reach(id, MachineState::Configured).await;
        operation
    }

    /// Walks a CONFIGURED machine back to IDLE; answers the operation id.
    pub(crate) async fn release(&self, id: &str, grace: i64) -> String {
        let operation = operation(self.drain(id, grace, &Token::unfenced()).await);
        self.reach(id, MachineState::Idle).await;
        operation
    }

    /// Walks an IDLE machine back to SPECULATIVE; answers the operation id.
    pub(crate) async fn give_back(&self, id: &str) -> String {
        let operation = operation(self.delete(id, &Token::unfenced()).await);
        self.reach(id, MachineState::Speculative).await;
        operation
    }
}

/// The machines by id, each once.
#[track_caller]
pub(crate) fn by_id(machines: Vec<Machine>) -> BTreeMap<String, Machine> {
    let count = machines.len();
    let map: BTreeMap<_, _> = machines
        .into_iter()
        .map(|machine| (machine.id.clone(), machine))
        .collect();
    assert_eq!(map.len(), count, "a machine is in the list twice");
    map
}

/// The machine's host, where it has one.
pub(crate) fn host_of(machine: &Machine) -> Option<&HostRef> {
    machine
        .host
        .as_ref()
        .filter(|host| !host.provider.is_empty() || !host.r#ref.is_empty())
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, limit: Duration, mut so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !so().await {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        sleep(POLL).await;
    }
}
