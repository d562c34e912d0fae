//! The four mutating calls: what is refused, what is repeated, what begins (contract §3, §5, §7).

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bigfleet_proto::{HostRef, Machine, MachineState as S, TransitionAck};
use tonic::Status;

use super::{
    Rules, fence, work,
    world::{Kind, Store, World},
};

/// A mutating call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) kind: Kind,
    pub(super) id: String,
    pub(super) shard: String,
    pub(super) token: (i64, i64),
    pub(super) cluster: String,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) grace: i64,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) world: Mutex<World>,
    pub(super) store: Option<Store>,
    pub(super) rules: Rules,
    pub(super) provider: String,
    pub(super) timeout: Duration,
    pub(super) delay: Duration,
    pub(super) turn: AtomicU64,
    pub(super) creates: AtomicUsize,
    pub(super) unreadable: Mutex<Option<(String, Instant)>>,
}

impl Shared {
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn save(&self, world: &World) -> std::io::Result<()> {
        match &self.store {
            Some(store) => store.write(world),
            None => Ok(()),
        }
    }

    /// Carries out a call, or refuses it; either is on disk before it is answered.
    pub(super) fn mutate(self: &Arc<Self>, call: &Call, caller: Option<SocketAddr>) -> Result<TransitionAck, Status> {
        let mut world = self.world();
        let before = self.store.is_some().then(|| world.clone());
        let mut result = self.decide(&mut world, call, caller);
        match &result {
            Ok(_) => fence::succeeded(&mut world, call, &self.rules),
            Err(status) => {
                if self.rules.breaks("refusals-move-revision") {
                    world.touch(&call.id);
                }
                if status.code() == tonic::Code::FailedPrecondition && self.rules.breaks("fence-reads") {
                    let mut unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
                    *unreadable = Some((call.id.clone(), Instant::now()));
                }
            }
        }
        if !self.rules.breaks("persist-late")
            && let Err(error) = self.save(&world)
            && !self.rules.breaks("disk-errors-ignored")
        {
            if let Some(before) = before {
                *world = before;
            }
            return Err(Status::unavailable(format!("the state cannot be written: {error}")));
        }
        if let Ok((_, Some(operation))) = &result {
            work::begin(self, call, operation.clone());
        }
        if let Err(status) = &mut result
            && self.rules.breaks("misleading-errors")
        {
            *status = Status::new(status.code(), format!("expected Idle: {}", status.message()));
        }
        result.map(|(ack, _)| ack)
    }

    /// The ack, and the operation that begins where one does.
    fn decide(
        &self,
        world: &mut World,
        call: &Call,
        caller: Option<SocketAddr>,
    ) -> Result<(TransitionAck, Option<String>), Status> {
        let rules = &self.rules;
        if call.id.is_empty() {
            return Err(match rules.breaks("empty-id-not-found") {
                true => Status::not_found("no machine"),
                false => Status::invalid_argument("a machine id is needed"),
            });
        }
        if call.kind == Kind::Delete && rules.breaks("delete-unsupported") {
            return Err(Status::unimplemented("machines cannot be given back"));
        }
        if rules.breaks("fence-reveals-ghosts") {
            known(world, call, rules)?;
        }
        fence::check(world, call, rules)?;
        if call.kind == Kind::Delete
            && rules.breaks("unknown-delete-succeeds")
            && !world.machines.contains_key(&call.id)
        {
            let operation_id = "op-nothing".into();
            return Ok((
                TransitionAck {
                    operation_id,
                    machine: None,
                },
                None,
            ));
        }
        known(world, call, rules)?;
        self.arguments(call)?;
        let state = world.machines.get(&call.id).map(|record| record.machine.state());
        let state = state.unwrap_or_default();
        let stored = world.operations.get(&(call.id.clone(), call.kind)).cloned();
        let stale = world.machines.get(&call.id).map(|record| record.machine.clone());
        if let Some(first) = stored.clone()
            && (state == call.kind.running() || state == call.kind.target())
        {
            if let Some(ack) = self.replay(world, call, state, first)? {
                return Ok((ack, None));
            }
        } else {
            self.position(call, state)?;
        }
        let operation = match stored {
            Some(first)
                if rules.breaks("ids-for-ever") || rules.breaks("replay-restarts") && state == call.kind.target() =>
            {
                first
            }
            _ => self.mint(world, call.kind),
        };
        self.accept(world, call, &operation, caller);
        let mut ack = self.ack(world, call, operation.clone());
        if rules.breaks("ack-stale") {
            ack.machine = stale;
        }
        Ok((ack, Some(operation)))
    }

    fn arguments(&self, call: &Call) -> Result<(), Status> {
        let rules = &self.rules;
        if call.kind == Kind::Drain && call.grace < 0 {
            return Err(match rules.mutant() {
                "negative-grace-internal" => Status::internal("a negative grace period"),
                "negative-grace-fenced" if call.grace < -1_000_000 => Status::failed_precondition("grace"),
                _ => Status::invalid_argument("the grace period must not be negative"),
            });
        }
        if call.kind == Kind::Configure {
            if call.cluster.is_empty() && !rules.breaks("empty-cluster-accepted") {
                return Err(Status::invalid_argument("a cluster id is needed"));
            }
            let size: usize = call.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
            if rules.breaks("metadata-internal") && size > 256 << 10 {
                return Err(Status::internal("too much metadata"));
            }
        }
        Ok(())
    }

    /// The ack of a repeated call; none where the mutant runs it again.
    fn replay(&self, world: &mut World, call: &Call, state: S, first: String) -> Result<Option<TransitionAck>, Status> {
        let at_target = state == call.kind.target();
        let mut operation = first;
        match self.rules.mutant() {
            "replay-restarts" if at_target => return Ok(None),
            "replay-refused" if at_target => return Err(Status::aborted("already there")),
            "replay-mints" => operation = self.mint(world, call.kind),
            "race-mints" if !at_target => operation = self.mint(world, call.kind),
            "replay-rebinds" if call.kind == Kind::Configure => {
                if let Some(record) = world.machines.get_mut(&call.id) {
                    record.machine.cluster.clone_from(&call.cluster);
                    record.machine.shard_metadata.clone_from(&call.metadata);
                }
                world.touch(&call.id);
            }
            _ => {}
        }
        Ok(Some(self.ack(world, call, operation)))
    }

    fn position(&self, call: &Call, state: S) -> Result<(), Status> {
        let allowed = match self.rules.mutant() {
            "create-anywhere" => call.kind == Kind::Create && state == S::Configured,
            "configure-anywhere" => call.kind == Kind::Configure && state == S::Speculative,
            "drain-anywhere" => call.kind == Kind::Drain && matches!(state, S::Idle | S::Speculative),
            "delete-anywhere" => call.kind == Kind::Delete && state == S::Configured,
            "failed-restarts" => state == S::Failed,
            _ => false,
        };
        if state == call.kind.start() || allowed {
            return Ok(());
        }
        let text = format!(
            "machine `{}` is {}; {:?} begins at {}",
            call.id,
            crate::call::state_name(state),
            call.kind,
            crate::call::state_name(call.kind.start())
        );
        Err(match self.rules.breaks("position-is-fenced") {
            true => Status::failed_precondition(text),
            false => Status::aborted(text),
        })
    }

    fn mint(&self, world: &mut World, kind: Kind) -> String {
        world.counter += 1;
        match self.rules.mutant() {
            "ids-shared" => format!("op-{kind:?}"),
            "ids-empty" => String::new(),
            "ids-restart" => format!("op-{}", world.counter),
            _ => uuid::Uuid::now_v7().to_string(),
        }
    }

    fn accept(&self, world: &mut World, call: &Call, operation: &str, caller: Option<SocketAddr>) {
        if let Some(record) = world.machines.get_mut(&call.id) {
            let machine = &mut record.machine;
            machine.state = call.kind.running().into();
            machine.last_error.clear();
            record.running = Some((call.kind, operation.to_owned()));
            if self.rules.breaks("only-caller-drives") {
                record.caller = caller;
            }
            if call.kind == Kind::Configure {
                machine.cluster.clone_from(&call.cluster);
                machine.shard_metadata = noted(&call.metadata, &record.before, &self.rules);
            }
        }
        world
            .operations
            .insert((call.id.clone(), call.kind), operation.to_owned());
        world.touch(&call.id);
    }

    fn ack(&self, world: &World, call: &Call, operation_id: String) -> TransitionAck {
        let mut machine = world.machines.get(&call.id).map(|record| record.machine.clone());
        if let Some(machine) = &mut machine {
            spoil(machine, &self.rules);
        }
        if self.rules.breaks("ack-without-machine") {
            machine = None;
        }
        TransitionAck { operation_id, machine }
    }
}

pub(super) fn known(world: &World, call: &Call, rules: &Rules) -> Result<(), Status> {
    if world.machines.contains_key(&call.id) {
        return Ok(());
    }
    let text = format!("there is no machine `{}`", call.id);
    Err(match rules.breaks("unknown-is-internal") {
        true => Status::internal(text),
        false => Status::not_found(text),
    })
}

/// What is kept of the metadata: all of it, but by mutants.
fn noted(
    given: &BTreeMap<String, String>,
    before: &BTreeMap<String, String>,
    rules: &Rules,
) -> BTreeMap<String, String> {
    let mut kept = given.clone();
    match rules.mutant() {
        "metadata-cut-at-nul" => {
            for value in kept.values_mut() {
                if let Some(end) = value.find('\0') {
                    value.truncate(end);
                }
            }
        }
        "metadata-drops-empty" => kept.retain(|_, value| !value.is_empty()),
        "metadata-drops-unknown" => kept.retain(|key, _| !key.starts_with("nobody/")),
        "metadata-merged" => {
            kept.clone_from(before);
            kept.extend(given.clone());
        }
        "metadata-few" => {
            while kept.len() > 300 {
                kept.pop_last();
            }
        }
        "metadata-short" => {
            for value in kept.values_mut().filter(|value| value.len() > 4096) {
                *value = value.chars().take(4096).collect();
            }
        }
        _ => {}
    }
    kept
}

/// What mutants show instead of the record.
pub(super) fn spoil(machine: &mut Machine, rules: &Rules) {
    let state = machine.state();
    let millis = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    let shown = match (rules.mutant(), state) {
        ("configure-shows-creating", S::Configuring) => S::Creating,
        ("create-shows-configuring", S::Creating) => S::Configuring,
        ("drain-shows-deleting", S::Draining) => S::Deleting,
        ("delete-shows-draining", S::Deleting) => S::Draining,
        ("stable-wanders" | "scale-wanders", S::Idle | S::Configured) if millis % 400 < 60 => S::Draining,
        _ => state,
    };
    machine.state = shown.into();
    match (rules.mutant(), state) {
        ("idle-without-host", S::Idle) => machine.host = None,
        ("creating-with-host", S::Creating) => {
            let (provider, r#ref) = ("early".into(), machine.id.clone());
            machine.host = Some(HostRef { provider, r#ref });
        }
        ("cluster-late", S::Configuring) => machine.cluster.clear(),
        ("metadata-late", S::Configuring) => machine.shard_metadata.clear(),
        ("host-provider-changes", S::Configured) => {
            if let Some(host) = &mut machine.host {
                host.provider += "-other";
            }
        }
        ("last-error-empty", S::Failed) => machine.last_error.clear(),
        ("last-error-changes", S::Failed) => machine.last_error += &format!(" {}", uuid::Uuid::now_v7()),
        _ => {}
    }
}
