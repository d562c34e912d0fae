//! The one task that changes anything. It takes what has queued up while the last commit ran, decides it on a draft,
//! commits the draft, publishes it and only then answers: callers share a commit, and nobody hears of what is not
//! durable.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, SystemTime},
};

use providerkit_backend::{MachineId, OperationId, ShardId};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use crate::{
    engine::{
        Shared,
        accept::{self, Accepted, Call, Rules},
        draft::Draft,
        finish::{self, Finding, Outcome},
        record::Record,
        view::Effects,
        work,
    },
    refusal::{Refusal, RefusalKind},
    store::{self, Change, Store},
};

/// Commands that share a commit, at most.
const GROUP: usize = 1024;
/// How long erased inputs may stay in the store's log.
const SETTLE_AFTER: Duration = Duration::from_millis(250);
/// Between tries to commit what may not be lost.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(2);

/// Answers to a call.
pub(crate) type Reply = oneshot::Sender<Result<Accepted, Refusal>>;

/// What the writer is asked to do. A call and a look's findings may fail with the store; what ends a transition is
/// tried until it is durable.
#[derive(Debug)]
pub(crate) enum Command {
    Call(Call, Reply),
    Finish {
        machine: MachineId,
        operation: OperationId,
        outcome: Outcome,
        done: oneshot::Sender<Option<Arc<Record>>>,
    },
    Cleaned {
        machine: MachineId,
        operation: OperationId,
    },
    Recycle {
        machine: MachineId,
        operation: OperationId,
    },
    Adopt {
        findings: Vec<Finding>,
        done: oneshot::Sender<Result<(), store::Error>>,
    },
    ForgetShapes,
    Close(oneshot::Sender<Result<(), store::Error>>),
}

/// What a command came to on the draft; told to whoever asked once it is durable.
enum Verdict {
    Call(Result<Accepted, Refusal>),
    Finished(Option<Arc<Record>>),
    Done,
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    /// `None` only while a commit runs on another thread.
    store: Option<Box<dyn Store>>,
    queue: mpsc::Receiver<Command>,
    /// Commands that must be tried again.
    waiting: VecDeque<Command>,
    retry: Option<(Instant, Duration)>,
    settle: Option<Instant>,
    /// Ghost marks that had to make room, to be forgotten with the next commit.
    evicted: Vec<(MachineId, ShardId)>,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, store: Box<dyn Store>, queue: mpsc::Receiver<Command>) -> Self {
        record_size(&*store);
        let settle = store.unsettled().then(Instant::now);
        let (waiting, evicted) = (VecDeque::new(), Vec::new());
        Self {
            shared,
            store: Some(store),
            queue,
            waiting,
            retry: None,
            settle,
            evicted,
        }
    }

    /// Runs until it is told to close or nobody is left to command it.
    pub(crate) async fn run(mut self) {
        let mut group = Vec::new();
        while self.next(&mut group).await {
            let close = group.iter().position(|command| matches!(command, Command::Close(_)));
            let closing = close.map(|at| group.split_off(at));
            self.group(std::mem::take(&mut group)).await;
            if let Some(closing) = closing {
                return self.close(closing).await;
            }
        }
    }

    /// Waits for commands; `false` when none will come any more.
    async fn next(&mut self, group: &mut Vec<Command>) -> bool {
        loop {
            if self.settle.is_some_and(|at| at <= Instant::now()) {
                self.settle().await;
            }
            if self.retry.is_some_and(|(at, _)| at <= Instant::now()) {
                self.retry = self.retry.map(|(_, pause)| (Instant::now() + pause, pause));
                group.extend(self.waiting.drain(..));
                return true;
            }
            let timer = [self.settle, self.retry.map(|(at, _)| at)].into_iter().flatten().min();
            tokio::select! {
                biased;
                count = self.queue.recv_many(group, GROUP) => return count > 0,
                () = sleep_until(timer) => {}
            }
        }
    }

    /// Commits a group, and where that fails each command by itself, so that one cannot spoil the others.
    async fn group(&mut self, group: Vec<Command>) {
        if group.is_empty() {
            return;
        }
        metrics::histogram!(crate::metric::STORE_GROUP_SIZE).record(group.len() as f64);
        match self.attempt(&group).await {
            Ok(verdicts) => self.tell_all(group, verdicts),
            Err(error) => {
                let mut first = (group.len() == 1).then_some(error);
                for command in group {
                    let result = match first.take() {
                        Some(error) => Err(error),
                        None => self.attempt(std::slice::from_ref(&command)).await,
                    };
                    match result {
                        Ok(verdicts) => self.tell_all(vec![command], verdicts),
                        Err(error) => self.spoiled(command, error),
                    }
                }
            }
        }
    }

    /// Decides, commits and publishes; on an error nothing has happened.
    async fn attempt(&mut self, group: &[Command]) -> Result<Vec<Verdict>, store::Error> {
        let (verdicts, drafted) = self.decide(group);
        if let Some((mut changes, effects)) = drafted {
            let forgotten = std::mem::take(&mut self.evicted);
            changes.extend(
                forgotten
                    .iter()
                    .cloned()
                    .map(|(machine, shard)| Change::ForgetMark { machine, shard }),
            );
            if let Err(error) = self.commit(changes).await {
                self.evicted = forgotten;
                metrics::counter!(crate::metric::STORE_ERRORS).increment(1);
                return Err(error);
            }
            self.evicted = self.shared.view_mut().publish(effects);
        }
        Ok(verdicts)
    }

    fn decide(&self, group: &[Command]) -> (Vec<Verdict>, Option<(Vec<Change>, Effects)>) {
        let view = self.shared.view();
        let mut draft = Draft::new(&view);
        let now = SystemTime::now();
        let rules = Rules {
            backend: &*self.shared.backend,
            capabilities: self.shared.capabilities,
            timeouts: &self.shared.options.timeouts,
            now,
        };
        let verdicts = group
            .iter()
            .map(|command| match command {
                Command::Call(call, _) => Verdict::Call(accept::accept(&mut draft, call, &rules)),
                Command::Finish { machine, operation, outcome, .. } => {
                    Verdict::Finished(finish::finish(&mut draft, machine, *operation, outcome, now))
                }
                Command::Cleaned { machine, operation } => {
                    finish::cleaned(&mut draft, machine, *operation);
                    Verdict::Done
                }
                Command::Recycle { machine, operation } => {
                    if let Some(fresh) = finish::recycle(&mut draft, machine, *operation) {
                        metrics::counter!(crate::metric::SLOTS_RECYCLED).increment(1);
                        tracing::info!(machine_id = %machine, fresh_id = %fresh.machine.id, "failed slot comes back under a fresh id");
                    }
                    Verdict::Done
                }
                Command::Adopt { findings, .. } => {
                    findings.iter().for_each(|finding| finish::adopt(&mut draft, finding));
                    Verdict::Done
                }
                Command::ForgetShapes => {
                    draft.forget_unused_shapes();
                    Verdict::Done
                }
                Command::Close(_) => Verdict::Done,
            })
            .collect();
        let drafted = (!draft.is_empty()).then(|| draft.finish());
        (verdicts, drafted)
    }

    async fn commit(&mut self, changes: Vec<Change>) -> Result<(), store::Error> {
        let begun = Instant::now();
        let commit = move |store: &mut dyn Store| {
            let result = store.commit(&changes);
            record_size(store);
            result
        };
        let result = self.blocking(commit).await;
        metrics::histogram!(crate::metric::STORE_COMMIT_DURATION).record(begun.elapsed().as_secs_f64());
        if self.settle.is_none() && self.store.as_ref().is_some_and(|store| store.unsettled()) {
            self.settle = Some(Instant::now() + SETTLE_AFTER);
        }
        result
    }

    async fn settle(&mut self) {
        let result = self.blocking(|store| store.settle()).await;
        if let Err(error) = &result {
            tracing::warn!(
                error = error as &dyn std::error::Error,
                "the store could not settle; it will try again"
            );
        }
        let again = self.store.as_ref().is_some_and(|store| store.unsettled());
        self.settle = again.then(|| Instant::now() + LAST_RETRY);
    }

    /// Runs on a thread that may block; the store goes there and comes back.
    async fn blocking(
        &mut self,
        job: impl FnOnce(&mut dyn Store) -> Result<(), store::Error> + Send + 'static,
    ) -> Result<(), store::Error> {
        let Some(mut store) = self.store.take() else {
            return Err(gone());
        };
        let run = move || {
            let result = job(&mut *store);
            (store, result)
        };
        match tokio::task::spawn_blocking(run).await {
            Ok((store, result)) => {
                self.store = Some(store);
                result
            }
            Err(error) => Err(gone().with_source(error)),
        }
    }

    fn tell_all(&mut self, group: Vec<Command>, verdicts: Vec<Verdict>) {
        if self.waiting.is_empty() {
            self.retry = None;
        }
        for (command, verdict) in group.into_iter().zip(verdicts) {
            self.tell(command, verdict);
        }
    }

    /// A receiver that is gone has lost interest, which changes nothing.
    fn tell(&self, command: Command, verdict: Verdict) {
        match (command, verdict) {
            (Command::Call(call, reply), Verdict::Call(result)) => {
                if let Ok(accepted) = &result
                    && accepted.fresh
                {
                    tracing::info!(
                        machine_id = %call.machine,
                        op_id = %accepted.operation,
                        shard = call.token.as_ref().map(|token| tracing::field::display(&token.shard)),
                        transition = call.transition().name(),
                        "accepted"
                    );
                    work::spawn(&self.shared, &accepted.record, &call.cause);
                }
                reply.send(result).ok();
            }
            (Command::Finish { done, .. }, Verdict::Finished(record)) => {
                done.send(record).ok();
            }
            (Command::Adopt { done, .. }, _) => {
                done.send(Ok(())).ok();
            }
            _ => {}
        }
    }

    /// The store did not take a command: who can ask again is told, anything else waits for the disk to come back.
    fn spoiled(&mut self, command: Command, error: store::Error) {
        tracing::error!(error = &error as &dyn std::error::Error, "a change could not be stored");
        match command {
            Command::Call(_, reply) => {
                let text = format!("nothing was changed: {error}");
                reply.send(Err(Refusal::new(RefusalKind::Unavailable, text))).ok();
            }
            Command::Adopt { done, .. } => drop(done.send(Err(error))),
            Command::ForgetShapes => {}
            command => {
                self.waiting.push_back(command);
                let pause = self.retry.map_or(FIRST_RETRY, |(_, pause)| (pause * 2).min(LAST_RETRY));
                self.retry = Some((Instant::now() + pause, pause));
            }
        }
    }

    async fn close(mut self, closing: Vec<Command>) {
        let result = match self.store.take() {
            Some(store) => tokio::task::spawn_blocking(move || store.close())
                .await
                .unwrap_or_else(|panic| Err(gone().with_source(panic))),
            None => Ok(()),
        };
        let mut result = Some(result);
        for command in closing {
            if let Command::Close(done) = command {
                done.send(result.take().unwrap_or(Ok(()))).ok();
            }
        }
    }
}

fn record_size(store: &dyn Store) {
    if let Some(bytes) = store.size() {
        metrics::gauge!(crate::metric::STORE_SIZE).set(bytes as f64);
    }
}

fn gone() -> store::Error {
    store::Error::new(
        store::ErrorKind::Io,
        "the store is gone after a panic; restart the provider",
    )
}

/// Never, without a time.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
