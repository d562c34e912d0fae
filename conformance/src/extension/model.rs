//! Kills under load, held against a model of what was acknowledged (contract §4 to §7).

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use super::{
    crash::{Step, settles},
    ledger::{Call, Entry, Ids},
};
use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour, Capability, Lane, Profile},
    call::{Binding, Shard, free},
    client::Client,
    context::speculative,
    expect::{fenced, operation, said},
    launch::{Provider, Start},
    outcome::{Stop, ensure, ensure_eq},
    random::Random,
    walk::AWAIT,
};

const HOW: &str = "4 callers lead 3 machines each through random lives with rising tokens; SIGKILL after a random 50 to \
                   350 ms, start, compare: every acknowledged transition is there, under way or FAILED with last_error; \
                   bindings verbatim; the last acknowledged token is fenced; operation ids are repeated for the same \
                   call and new for another; no machine is missing";

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "X506",
        Area::Durability,
        [
            "What was acknowledged survives 6 kills under load",
            "a kill at rest hides what a kill in a write shows",
            HOW,
        ],
        |cx| Box::pin(x506(cx)),
    )
    .machines(0)
    .lane(Lane::Own)
    .needs(Capability::Durable)
    .extension(),
    Behaviour::new(
        "X901",
        Area::Scale,
        [
            "What was acknowledged survives kills for the whole soak time",
            "what happens once in a thousand kills happens to somebody",
            HOW,
        ],
        |cx| Box::pin(x901(cx)),
    )
    .machines(0)
    .lane(Lane::Soak)
    .needs(Capability::Durable)
    .profiles(&[Profile::Soak]),
];

const CALLERS: usize = 4;
const EACH: usize = 3;

type Book = BTreeMap<String, Entry>;

async fn x506(cx: &Context) -> Outcome {
    rounds(cx, "x506", |round, _| round < 6).await
}

async fn x901(cx: &Context) -> Outcome {
    let soak = cx.sizes.soak;
    rounds(cx, "x901", |round, began| round == 0 || began.elapsed() < soak).await
}

async fn rounds(cx: &Context, name: &str, go_on: impl Fn(usize, Instant) -> bool) -> Outcome {
    let start = Start::new(name).state(cx.scratch.join(format!("{name}.json")));
    let (shard, mut random, ids) = (cx.shard(), cx.random(), Arc::new(Mutex::new(Ids::default())));
    let mut provider = cx.launch(&start).await?;
    let mut client = cx.client_of(&provider)?;
    let fleet: Vec<String> = client.fleet().await?.into_keys().collect();
    let mut books = Vec::new();
    for chunk in speculative(&client, CALLERS * EACH).await?.chunks(EACH) {
        books.push(chunk.iter().map(|id| (id.clone(), Entry::new())).collect::<Book>());
    }
    let (began, mut sequence) = (Instant::now(), 0);
    let mut round = 0;
    while go_on(round, began) {
        books = load(&provider, &client, books, &shard, &mut random, &mut sequence, &ids).await?;
        cx.trace_note(format!("SIGKILL of round {round}"));
        provider = cx.launch(&start).await?;
        client = cx.client_of(&provider)?;
        let now: Vec<String> = client.fleet().await?.into_keys().collect();
        ensure_eq!("the fleet's ids after the kill", now, fleet);
        for (id, entry) in books.iter_mut().flatten() {
            if !entry.failed {
                verify(&client, id, entry, &shard).await?;
            }
        }
        top_up(&client, &mut books).await?;
        round += 1;
    }
    Ok(())
}

/// Lets the callers work, and kills the provider meanwhile.
async fn load(
    provider: &Provider,
    client: &Client,
    books: Vec<Book>,
    shard: &Shard,
    random: &mut Random,
    sequence: &mut i64,
    ids: &Arc<Mutex<Ids>>,
) -> Outcome<Vec<Book>> {
    let mut callers = JoinSet::new();
    for (number, book) in books.into_iter().enumerate() {
        let lot = i64::try_from(number).unwrap_or(0) * 1_000_000;
        let caller = Caller {
            client: client.clone(),
            shard: shard.clone(),
            random: random.fork(),
            sequence: *sequence + lot,
            ids: Arc::clone(ids),
        };
        callers.spawn(caller.work(book));
    }
    // Machines belong to one caller each, so that the lots only need to rise from round to round.
    *sequence += 10_000_000;
    let pause = u64::try_from(random.within(50, 350)).unwrap_or(50);
    // The random moment is what is tested.
    tokio::time::sleep(Duration::from_millis(pause)).await;
    provider.kill();
    callers.join_all().await.into_iter().collect()
}

struct Caller {
    client: Client,
    shard: Shard,
    random: Random,
    sequence: i64,
    ids: Arc<Mutex<Ids>>,
}

impl Caller {
    /// Works until the provider is gone.
    async fn work(mut self, mut book: Book) -> Outcome<Book> {
        loop {
            let alive: Vec<String> = book
                .iter()
                .filter(|(_, entry)| !entry.failed)
                .map(|(id, _)| id.clone())
                .collect();
            let Some(id) = self.random.pick(&alive).cloned() else {
                return Ok(book);
            };
            let Some(entry) = book.get_mut(&id) else {
                return Ok(book);
            };
            if !self.step(&id, entry).await? {
                return Ok(book);
            }
        }
    }

    /// One transition, awaited; whether the provider is still there.
    async fn step(&mut self, id: &str, entry: &mut Entry) -> Outcome<bool> {
        let legal: Vec<Step> = Step::ALL
            .into_iter()
            .filter(|step| step.start() == entry.rest)
            .collect();
        let Some(step) = self.random.pick(&legal).copied() else {
            return Err(Stop::failed("a stable state", format!("{:?}", entry.rest)));
        };
        self.sequence += 1;
        let number = self.random.below(1000).to_string();
        let binding = Binding::to(format!("cluster-{number}")).with("k", number);
        entry.call = Some(Call {
            step,
            binding: binding.clone(),
            sequence: self.sequence,
            operation: None,
        });
        let answer = step
            .call(&self.client, id, &binding, &self.shard.at(1, self.sequence))
            .await;
        let operation_id = match answer {
            Ok(ack) => ack.operation_id,
            Err(status) if gone(&status) => return Ok(false),
            // As good as a provider without Delete: this machine's life is over.
            Err(status) if status.code() == tonic::Code::Unimplemented && step == Step::Delete => {
                entry.call = None;
                entry.failed = true;
                return Ok(true);
            }
            refusal => return Err(Stop::failed(format!("{step:?} to be accepted"), said(&refusal))),
        };
        self.ids
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fresh(&operation_id)?;
        entry.mark = Some(self.sequence);
        if let Some(call) = &mut entry.call {
            call.operation = Some(operation_id);
        }
        // Some are left under way when the kill comes.
        let end = Instant::now() + self.client.session.limit(AWAIT);
        while Instant::now() < end {
            match self.client.try_get(id).await {
                Ok(machine) if machine.state() == step.target() => {
                    entry.rests(&machine);
                    return Ok(true);
                }
                Ok(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(_) => return Ok(false),
            }
        }
        let expected = format!("{step:?} of `{id}` to end within {AWAIT:?}");
        Err(Stop::failed(expected, "it did not"))
    }
}

/// The connection broke, as it must when the process is killed.
fn gone(status: &tonic::Status) -> bool {
    use tonic::Code::{Cancelled, Internal, Unavailable, Unknown};
    matches!(status.code(), Unavailable | Unknown | Cancelled | Internal)
}

async fn verify(client: &Client, id: &str, entry: &mut Entry, shard: &Shard) -> Outcome {
    entry.allows(&client.get(id).await?)?;
    if let Some(mark) = entry.mark {
        let answer = client.create(id, &shard.at(1, mark)).await;
        fenced(&answer, &format!("the last acknowledged token (1, {mark}) of `{id}`"))?;
    }
    let call = entry.call.clone();
    let machine = match &call {
        Some(call) => match settled(client, id, call, entry).await? {
            Some(machine) => machine,
            None => client.get(id).await?,
        },
        None => client.get(id).await?,
    };
    entry.rests(&machine);
    if entry.failed {
        return Ok(());
    }
    let Some(call) = call.filter(|call| machine.state() == call.step.target()) else {
        return Ok(());
    };
    if let Some(first) = &call.operation {
        let answer = call.step.call(client, id, &call.binding, &free()).await;
        let again = operation(answer, &format!("a repeated {:?}", call.step))?;
        ensure_eq!("operation id after the kill", &again, first);
    }
    ensure!(call.sequence > 0, "a sequence", call.sequence);
    Ok(())
}

/// Waits for the end of a transition that was under way; none where a lost call never began.
async fn settled(client: &Client, id: &str, call: &Call, entry: &Entry) -> Outcome<Option<bigfleet_proto::Machine>> {
    let machine = client.get(id).await?;
    if call.operation.is_none() && machine.state() == entry.rest {
        return Ok(None);
    }
    settles(client, id, call.step).await.map(Some)
}

/// Other machines for those that the kill has failed.
async fn top_up(client: &Client, books: &mut [Book]) -> Outcome {
    let known: Vec<String> = books.iter().flat_map(|book| book.keys().cloned()).collect();
    let list = client
        .map(crate::call::only(&[bigfleet_proto::MachineState::Speculative]))
        .await?;
    let mut others = list.into_keys().filter(|id| !known.contains(id));
    for book in books {
        let alive = book.values().filter(|entry| !entry.failed).count();
        for id in others.by_ref().take(EACH.saturating_sub(alive)) {
            book.insert(id, Entry::new());
        }
    }
    Ok(())
}
