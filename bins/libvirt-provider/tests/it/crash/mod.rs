//! The provider is killed at random moments under load, and must have lost nothing it acknowledged (issue 2, point 9).
//!
//! `LP_CRASH_ROUNDS` says how often it is killed, `LP_CRASH_SEED` where the randomness starts. The seed repeats what is
//! asked and how long each round lasts; which call meets the kill is up to the machine.

mod caller;
mod ledger;
mod machine;
mod verify;

use std::{
    env,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tempfile::TempDir;
use tokio::{task::JoinSet, time::sleep};

use self::{caller::Caller, ledger::Ledger, verify::Anchor};
use crate::harness::{Client, Launch, Provider, Random, fresh_port};

/// Few enough for every run of the suite.
const DEFAULT_ROUNDS: u64 = 8;
/// Rounds between two words that it is still alive.
const REPORT_EVERY: u64 = 50;
const CALLERS: usize = 8;
/// Machines that only one caller touches, for each.
const OWN: usize = 4;
/// Machines that all of them touch.
const SHARED: usize = 4;
/// Machines that nobody touches.
const IDLERS: usize = 6;
/// How long a transition takes; some end before the kill, some do not.
const DELAYS: [u64; 4] = [0, 5, 40, 150];

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_provider_is_killed() {
    let rounds = number("LP_CRASH_ROUNDS").unwrap_or(DEFAULT_ROUNDS);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number("LP_CRASH_SEED").unwrap_or_else(|| u64::from(now.subsec_nanos()));
    println!("crash: LP_CRASH_SEED={seed} LP_CRASH_ROUNDS={rounds}");
    let mut test = Test::new(seed).await;
    for round in 0..rounds {
        test.round(round).await;
        if round % REPORT_EVERY == REPORT_EVERY - 1 {
            println!("crash: {}", test.ledger.lock().unwrap().summary());
        }
        if !test.ledger.lock().unwrap().violations.is_empty() {
            break;
        }
    }
    let ledger = test.ledger.lock().unwrap();
    println!("crash: {}", ledger.summary());
    assert!(
        ledger.violations.is_empty(),
        "LP_CRASH_SEED={seed}: {:#?}",
        ledger.violations
    );
    assert!(ledger.counts.acknowledged > rounds, "hardly anything was acknowledged");
}

struct Test {
    random: Random,
    ledger: Arc<Mutex<Ledger>>,
    callers: Vec<Caller>,
    provider: Option<Provider>,
    anchors: Vec<Anchor>,
    _directory: TempDir,
}

impl Test {
    async fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let directory = TempDir::new().unwrap();
        let launch = Launch::on(directory.path().join("state.json"));
        let provider = launch.seeds(CALLERS * OWN + SHARED + IDLERS).start().await;
        let mut ids: Vec<String> = provider.fleet().await.into_keys().collect();
        let shared = ids.split_off(ids.len() - SHARED);
        let ledger = Arc::new(Mutex::new(Ledger::new(ids.iter().chain(&shared), &shared)));
        let callers = (0..CALLERS)
            .map(|number| {
                let own = ids[number * OWN..(number + 1) * OWN].to_vec();
                Caller::new(number, own, shared.clone(), random.fork())
            })
            .collect();
        let first = Anchor::take(&provider, &ledger).await;
        Self {
            random,
            ledger,
            callers,
            provider: Some(provider),
            anchors: vec![first],
            _directory: directory,
        }
    }

    /// Load, a kill in the middle of it, a start on the same file, and a look at everything.
    async fn round(&mut self, round: u64) {
        let provider = self.provider.take().unwrap();
        let epoch = i64::try_from(round / 3).unwrap();
        let mut calls = JoinSet::new();
        for mut caller in self.callers.drain(..) {
            let (client, ledger) = (Client::lazily(provider.address()), Arc::clone(&self.ledger));
            calls.spawn(async move {
                caller.run(&client, &ledger, epoch).await;
                caller
            });
        }
        // The random moment is what is tested: these are not waits for something.
        sleep(Duration::from_millis(self.random.below(100) as u64)).await;
        self.anchors.truncate(1);
        self.anchors.push(Anchor::take(&provider, &self.ledger).await);
        sleep(Duration::from_millis(self.random.below(150) as u64)).await;
        let launch = if self.random.once_in(6) {
            self.ask_to_end(provider).await
        } else {
            provider.kill()
        };
        self.callers = calls.join_all().await;
        self.callers.sort_by_key(|caller| caller.number);

        let launch = launch.delay(Duration::from_millis(*self.random.pick(&DELAYS)));
        if self.random.once_in(3) {
            self.kill_while_starting(&launch).await;
        }
        let provider = launch.start().await;
        verify::all(&provider, &self.ledger, &self.anchors).await;
        self.ledger.lock().unwrap().counts.rounds += 1;
        self.provider = Some(provider);
    }

    /// The other way to go: what is acknowledged then is worth as much.
    async fn ask_to_end(&mut self, provider: Provider) -> Launch {
        self.ledger.lock().unwrap().ending = true;
        let (exit, launch) = provider.terminate().await;
        let mut ledger = self.ledger.lock().unwrap();
        ledger.ending = false;
        ledger.counts.terminated += 1;
        if exit.code() != Some(0) {
            ledger.violation("provider", format!("SIGTERM ended it with {}", exit.status));
        }
        launch
    }

    /// A start is as good a moment to be killed as any.
    async fn kill_while_starting(&mut self, launch: &Launch) {
        let mut starting = launch.spawn(fresh_port());
        sleep(Duration::from_millis(self.random.below(80) as u64)).await;
        starting.kill();
        self.ledger.lock().unwrap().counts.starts_killed += 1;
    }
}
