//! The time from Create to IDLE (level `agent`) beside that of a shell script which does the same with virsh and
//! qemu-img, on the same host, in turns. `cargo xtask bench create` runs it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    reason = "a measurement that cannot go on has nothing better to do than to end"
)]

#[path = "../tests/it/lab.rs"]
mod lab;
#[path = "../tests/it/walk.rs"]
mod walk;

use std::{path::Path, time::Duration};

use libvirt_backend::{Libvirt, settings::IdleWhen};
use tokio::time::Instant;

use self::{
    lab::Host,
    walk::{Walk, offered, settings},
};

/// How much slower than the script the provider may be.
const GOAL: f64 = 1.05;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, usual: usize| {
        let prefix = format!("--{name}=");
        let given = arguments.iter().find_map(|argument| argument.strip_prefix(&prefix));
        given.map_or(usual, |text| text.parse().expect("a number"))
    };
    let (rounds, machines, parallel) = (
        number("rounds", 7),
        number("machines", 10),
        number("parallel-rounds", 1),
    );
    let Some(host) = Host::start("bench create").await else {
        return;
    };
    let mut settings = settings(&[("rack1", &host)]);
    settings.guest.idle_when = IdleWhen::Agent;
    settings.guest.stop_grace = Duration::ZERO;
    settings.offerings[0].instance_type.memory_mib = 128;
    settings.offerings[0].count = u32::try_from(machines).unwrap();
    settings.budget.cpu_overcommit = 100.0;
    let bench = Bench {
        backend: Libvirt::start(settings),
        template: host.dir().join("template.xml"),
        old: String::new(),
        host,
    };
    println!("{:<28} {:>10} {:>10} {:>8}", "seconds", "provider", "script", "ratio");
    let bench = bench.warm_up().await;
    bench.series("one machine", 1, rounds).await;
    bench
        .series(&format!("{machines} machines at once"), machines, parallel)
        .await;
    println!("goal: at most {GOAL:.2} times the script's time for one, and 1.00 for {machines}");
    bench.backend.stop().await;
}

struct Bench {
    host: Host,
    backend: Libvirt,
    template: std::path::PathBuf,
    /// The domain that the template was taken from.
    old: String,
}

impl Bench {
    /// One of each, not counted; the script's domains are as the provider's.
    async fn warm_up(mut self) -> Self {
        let mut walk = self.walks(1).await.remove(0);
        walk.create().await.unwrap();
        self.old = self.host.domains().remove(0);
        std::fs::write(&self.template, self.host.virsh(&["dumpxml", "--inactive", &self.old])).unwrap();
        walk.delete().await.unwrap();
        self.script(1).await;
        self
    }

    async fn series(&self, what: &str, machines: usize, rounds: usize) {
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=rounds {
            let (provider, script) = (self.provider(machines).await, self.script(machines).await);
            eprintln!("{what}, round {round}: {provider:.2} s, {script:.2} s");
            ours.push(provider);
            theirs.push(script);
            ratios.push(provider / script);
        }
        if rounds > 0 {
            let [ours, theirs, ratio] = [ours, theirs, ratios].map(median);
            println!("{what:<28} {ours:>10.2} {theirs:>10.2} {ratio:>8.3}");
        }
    }

    /// Machines that do not exist yet.
    async fn walks(&self, count: usize) -> Vec<Walk> {
        let slots = offered(&self.backend).await;
        let walk = |slot| Walk::of(self.backend.clone(), slot);
        slots.iter().take(count).map(walk).collect()
    }

    async fn provider(&self, count: usize) -> f64 {
        let walks = self.walks(count).await;
        let begun = Instant::now();
        let making = walks.into_iter().map(|mut walk| {
            tokio::spawn(async move {
                walk.create().await.unwrap();
                walk
            })
        });
        let made = futures_util::future::join_all(making.collect::<Vec<_>>()).await;
        let took = begun.elapsed().as_secs_f64();
        for walk in made {
            walk.unwrap().delete().await.unwrap();
        }
        took
    }

    async fn script(&self, count: usize) -> f64 {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/create.sh");
        let run = |verb: &str, n: usize| {
            let mut command = tokio::process::Command::from(self.host.enter());
            command.arg(&script).arg(verb).arg(format!("script-{n}"));
            command.arg(&self.template).arg(&self.old);
            async move { assert!(command.status().await.unwrap().success()) }
        };
        let begun = Instant::now();
        futures_util::future::join_all((0..count).map(|n| run("make", n))).await;
        let took = begun.elapsed().as_secs_f64();
        for n in 0..count {
            run("remove", n).await;
        }
        took
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    let middle = of.len() / 2;
    if of.len() % 2 == 1 {
        of[middle]
    } else {
        f64::midpoint(of[middle - 1], of[middle])
    }
}
