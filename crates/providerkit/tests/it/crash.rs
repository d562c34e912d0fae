//! A crash and a failed disk at every commit.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use bigfleet_proto::MachineState::{self, Configured, Failed, Idle, Speculative};
use providerkit::{
    Engine, State, Transition,
    store::{Change, Error, ErrorKind, Memory, Snapshot, Store},
};
use tonic::{Code, Status};

use crate::{
    client::{Ack, Provider, options, refused},
    scripted::{Act, Scripted, Step},
};

/// How a commit goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    /// The process dies before it is durable.
    Lost,
    /// The process dies right after it is durable, before anybody hears of it.
    Unheard,
    /// The disk refuses it once.
    Refused,
}

/// A store that gets into trouble at one of its commits.
#[derive(Clone)]
struct Troubled {
    inner: Memory,
    trouble: Trouble,
    at: usize,
    commits: Arc<AtomicUsize>,
    dead: Arc<Mutex<bool>>,
}

impl Store for Troubled {
    fn load(&mut self) -> Result<Snapshot, Error> {
        self.inner.load()
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), Error> {
        let mut dead = self.dead.lock().unwrap();
        let now = self.commits.fetch_add(1, Ordering::Relaxed);
        let error = || Err(Error::new(ErrorKind::Io, "scripted trouble"));
        if *dead {
            return error();
        }
        if now != self.at {
            return self.inner.commit(changes);
        }
        match self.trouble {
            Trouble::Refused => error(),
            Trouble::Lost => {
                *dead = true;
                error()
            }
            Trouble::Unheard => {
                self.inner.commit(changes)?;
                *dead = true;
                error()
            }
        }
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}

const WALK: [(Transition, MachineState); 6] = [
    (Transition::Create, Idle),
    (Transition::Configure, Configured),
    (Transition::Drain, Idle),
    (Transition::Configure, Configured),
    (Transition::Drain, Idle),
    (Transition::Delete, Speculative),
];

async fn call(p: &Provider, transition: Transition, sequence: i64) -> Result<Ack, Status> {
    let token = Some(("s", 1, sequence));
    match transition {
        Transition::Create => p.create("m-0", token).await,
        Transition::Configure => {
            let notes = [("n".to_owned(), sequence.to_string())].into();
            p.configure_with("m-0", &format!("c-{sequence}"), b"blob", notes, token)
                .await
        }
        Transition::Drain => p.drain("m-0", 0, token).await,
        Transition::Delete => p.delete("m-0", token).await,
    }
}

/// Waits for the end of a transition, unless the store died on it.
async fn settled(p: &Provider, dead: &Mutex<bool>) -> bool {
    for _ in 0..10_000 {
        let state = State::from_number(p.get("m-0").await.unwrap().state).unwrap();
        if Transition::ALL.iter().all(|transition| transition.running() != state) {
            return true;
        }
        if *dead.lock().unwrap() {
            return false;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("stuck");
}

#[tokio::test(start_paused = true)]
async fn nothing_acknowledged_is_lost_by_a_crash_at_any_commit() {
    let mut crashes = 0;
    for trouble in [Trouble::Lost, Trouble::Unheard] {
        for at in 0.. {
            let store = Troubled {
                inner: Memory::default(),
                trouble,
                at,
                commits: Arc::default(),
                dead: Arc::default(),
            };
            let dead = Arc::clone(&store.dead);
            let started = Engine::start(options(), Box::new(store.clone()), Arc::new(Scripted::new(1))).await;
            // A crash at the start's own commits leaves a state that starts anew.
            let p = match started {
                Ok(engine) => Provider::new(engine),
                Err(_) => {
                    let p = Provider::start(store.inner, Arc::new(Scripted::new(1))).await;
                    p.reach_listed("m-0").await;
                    crashes += 1;
                    continue;
                }
            };
            let mut acknowledged = Vec::new();
            for (n, (transition, _)) in (1..).zip(WALK) {
                match call(&p, transition, n).await {
                    Ok((id, _)) => acknowledged.push((n, transition, id)),
                    Err(_) => break,
                }
                if !settled(&p, &dead).await {
                    break;
                }
            }
            p.stop().await;
            verify(store.inner, &acknowledged).await;
            if !*dead.lock().unwrap() {
                break;
            }
            crashes += 1;
        }
    }
    assert!(crashes > 20, "{crashes}");
}

/// A new process on what is left: every acknowledged call must be there, and the walk must go on.
async fn verify(inner: Memory, acknowledged: &[(i64, Transition, String)]) {
    let p = Provider::start(inner, Arc::new(Scripted::new(1))).await;
    for (n, _, _) in acknowledged {
        refused(call(&p, Transition::Create, *n).await, Code::FailedPrecondition, &[]);
    }
    let mut alive = settled(&p, &Mutex::new(false)).await;
    let state = p.get("m-0").await.unwrap().state();
    assert_ne!(state, Failed);
    if let Some((n, transition, id)) = acknowledged.last() {
        let reached = WALK[usize::try_from(*n).unwrap() - 1].1;
        // The call after the last acknowledged one may have become durable unheard.
        let next = WALK.get(usize::try_from(*n).unwrap()).map(|(_, state)| *state);
        assert!(
            state == reached || Some(state) == next,
            "{state:?} after {transition} number {n}"
        );
        if state == reached && next != Some(reached) {
            let (again, machine) = call(&p, *transition, 1000).await.unwrap();
            assert_eq!(again, *id);
            if state == Configured {
                assert_eq!(
                    (machine.cluster, &*machine.shard_metadata["n"]),
                    (format!("c-{n}"), &*n.to_string())
                );
            }
        }
    }
    let mut ids: Vec<_> = acknowledged.iter().map(|(_, _, id)| id.clone()).collect();
    for (n, transition) in (2000..).zip([Transition::Drain, Transition::Delete, Transition::Create]) {
        if let Ok((id, _)) = call(&p, transition, n).await {
            alive &= settled(&p, &Mutex::new(false)).await;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
    }
    assert!(alive);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_fails_its_call_and_changes_nothing() {
    let mut refusals = 0;
    for at in 2.. {
        let store = Troubled {
            inner: Memory::default(),
            trouble: Trouble::Refused,
            at,
            commits: Arc::default(),
            dead: Arc::default(),
        };
        let p = Provider::start(store.clone(), Arc::new(Scripted::new(1))).await;
        for (n, (transition, reached)) in (1..).zip(WALK) {
            let before = p.list(&[]).await;
            if let Err(status) = call(&p, transition, n).await {
                refusals += 1;
                assert_eq!(status.code(), Code::Unavailable, "{status:?}");
                assert!(status.message().contains("nothing was changed"), "{status:?}");
                assert_eq!(p.list(&[]).await, before);
                // The very same token passes: the mark did not advance either.
                call(&p, transition, n).await.unwrap();
            }
            // An end that was refused is tried again until it is durable.
            p.reach("m-0", reached).await;
        }
        if store.commits.load(Ordering::Relaxed) <= at {
            break;
        }
    }
    // The Create shares its first commit with the end of the start, so it is tried again alone.
    assert!(refusals >= WALK.len() - 1, "{refusals}");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_comes_back_finds_everything_going_on() {
    let store = Troubled {
        inner: Memory::default(),
        trouble: Trouble::Refused,
        at: usize::MAX,
        commits: Arc::default(),
        dead: Arc::default(),
    };
    let backend = Arc::new(Scripted::new(2));
    backend.act(Step::Do(Transition::Create), Act::Gate);
    let p = Provider::start(store.clone(), Arc::clone(&backend)).await;
    p.create("m-0", None).await.unwrap();
    *store.dead.lock().unwrap() = true;
    backend.open_gate();
    refused(p.create("m-1", None).await, Code::Unavailable, &["scripted trouble"]);
    assert_eq!(p.list(&[]).await.machines.len(), 2, "reads go on");
    refused(p.create("ghost", None).await, Code::NotFound, &[]);
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    *store.dead.lock().unwrap() = false;
    p.reach("m-0", Idle).await;
    p.idle("m-1").await;
}
