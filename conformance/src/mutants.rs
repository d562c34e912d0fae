//! The harness against itself: every behaviour must fail on some mutant of the [`reference`](crate::reference()), and all
//! must pass on the reference itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
    sync::Arc,
    time::Duration,
};

use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    behaviour::{Behaviour, Lane},
    error::Error,
    options::{Options, Source},
    reference::{self, MUTANTS, Mutant, Place},
    registry,
    report::Status,
    run::run as check,
};

const PLACES: [Place; 4] = [Place::Wire, Place::Process, Place::Fault, Place::Scale];

/// What caught which mutants.
#[derive(Debug)]
#[non_exhaustive]
pub struct Table {
    /// By mutant, what failed.
    pub caught: BTreeMap<&'static str, BTreeSet<String>>,
    /// What failed or was not checked on the reference itself, and why; nothing is what should be here.
    pub wrong: Vec<(String, String)>,
}

/// How behaviours are run against the reference or a mutant of it.
///
/// # Errors
/// Profiles that do not exist, which none of these is.
pub fn options(program: &Path, mutant: Option<&str>, place: Place) -> Result<Options, Error> {
    let program = program.display().to_string();
    let mut words = vec![program.as_str(), "reference"];
    words.extend(mutant.into_iter().flat_map(|name| ["--mutant", name]));
    // Long enough for what only shows on the way to be seen, on a busy machine too.
    words.extend(["--delay-ms", "80"]);
    let command = shlex::try_join(words)
        .map_err(|source| Error::because(format!("`{program}` cannot be part of a command line"), source))?;
    let (profiles, lanes, factor): (_, &[Lane], f64) = match place {
        Place::Wire => ("core,cloud,spot,extension", &[Lane::Core], 0.3),
        Place::Process => ("durable,extension,soak", &[Lane::Durable, Lane::Own, Lane::Soak], 0.3),
        // Its limits are above the 2 s that transitions may take there.
        Place::Fault => ("fault", &[Lane::Fault], 1.0),
        Place::Scale => ("scale", &[Lane::Scale], 0.3),
    };
    let mut options = Options::new(Source::Command(command.clone())).profiles(profiles)?;
    options.mapping.fault.command = Some(command);
    options.mapping.timeout_factor = Some(factor);
    options.lanes = Some(lanes.to_vec());
    options.skip_baseline = place != Place::Wire;
    // Few at a time, so that looks are close to each other.
    (options.jobs, options.seed_count) = (8, 128);
    options.scale_seed = 1500;
    options.soak = Duration::from_millis(1500);
    Ok(options)
}

/// Runs all of them, or those whose name contains a text; `program` is this harness's own binary.
///
/// # Errors
/// A reference that cannot be started.
pub async fn run(
    program: &Path,
    only: Option<&str>,
    jobs: usize,
    say: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Table, Error> {
    let mut table = Table {
        caught: BTreeMap::new(),
        wrong: Vec::new(),
    };
    for place in PLACES {
        let report = check(options(program, None, place)?, |_| {}).await?;
        for row in report.rows {
            let reason = row.failure.map(|failure| failure.to_string()).or(row.reason);
            match row.status {
                Status::Failed | Status::Skipped => table.wrong.push((row.id, reason.unwrap_or_default())),
                _ => {}
            }
        }
        say(&format!(
            "the reference itself, {place:?}: {} wrong so far",
            table.wrong.len()
        ));
    }
    let say = Arc::new(say);
    table.pass(program, only, jobs, None, &say).await?;
    // What shows only in passing is looked for once more, with nothing else around.
    let idle: Vec<&str> = table.idle().iter().map(|behaviour| behaviour.id).collect();
    if only.is_none() && !idle.is_empty() {
        say(&format!("once more, alone: {}", idle.join(" ")));
        table.pass(program, None, jobs, Some(idle.join(",")), &say).await?;
    }
    Ok(table)
}

impl Table {
    /// Runs behaviours against mutants, and adds what was caught.
    async fn pass(
        &mut self,
        program: &Path,
        only: Option<&str>,
        jobs: usize,
        filter: Option<String>,
        say: &Arc<impl Fn(&str) + Send + Sync + 'static>,
    ) -> Result<(), Error> {
        let limit = Arc::new(Semaphore::new(jobs.max(1)));
        let mut tasks = JoinSet::new();
        for mutant in MUTANTS {
            if only.is_some_and(|only| !mutant.name.contains(only)) {
                continue;
            }
            let (limit, say) = (Arc::clone(&limit), Arc::clone(say));
            let mut options = options(program, Some(mutant.name), mutant.place)?;
            options.filter.clone_from(&filter);
            if !registry::all().iter().any(|behaviour| options.selects(behaviour)) {
                continue;
            }
            tasks.spawn(async move {
                let _permit = limit.acquire().await.ok();
                let caught = against(mutant, options).await?;
                let by: Vec<&str> = caught.iter().map(String::as_str).collect();
                say(&format!(
                    "{:<28} caught by {}",
                    mutant.name,
                    if by.is_empty() { "NOTHING".into() } else { by.join(" ") }
                ));
                Ok::<_, Error>((mutant.name, caught))
            });
        }
        for result in tasks.join_all().await {
            let (name, caught) = result?;
            self.caught.entry(name).or_default().extend(caught);
        }
        Ok(())
    }
}

async fn against(_: &Mutant, options: Options) -> Result<BTreeSet<String>, Error> {
    let report = check(options, |_| {}).await?;
    let failed = report.rows.into_iter().filter(|row| row.status == Status::Failed);
    Ok(failed.map(|row| row.id).collect())
}

impl Table {
    /// Takes what an earlier run wrote for mutants that were not run now.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn fill_from(&mut self, path: &Path) -> Result<(), Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::because(format!("`{}` cannot be read", path.display()), source))?;
        for line in text.lines() {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, name, _, caught, _] = cells[..] else {
                continue;
            };
            let Some(mutant) = reference::find(name.trim_matches('`')) else {
                continue;
            };
            let ids = caught
                .split(' ')
                .filter_map(registry::find)
                .map(|one| one.id.to_owned());
            self.caught.entry(mutant.name).or_insert_with(|| ids.collect());
        }
        Ok(())
    }

    /// Behaviours that no mutant fails.
    #[must_use]
    pub fn idle(&self) -> Vec<Behaviour> {
        let caught: BTreeSet<&String> = self.caught.values().flatten().collect();
        let all = registry::all().into_iter();
        all.filter(|behaviour| !caught.contains(&behaviour.id.to_owned()))
            .collect()
    }

    /// Mutants that nothing catches.
    #[must_use]
    pub fn escaped(&self) -> Vec<&'static str> {
        let mut escaped = Vec::new();
        for (name, caught) in &self.caught {
            if caught.is_empty() {
                escaped.push(*name);
            }
        }
        escaped
    }

    /// Whether the reference passed and no mutant escaped.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.wrong.is_empty() && self.escaped().is_empty()
    }

    /// In a few lines.
    #[must_use]
    pub fn summary(&self) -> String {
        let idle: Vec<&str> = self.idle().iter().map(|behaviour| behaviour.id).collect();
        format!(
            "{} mutants, {} escaped {:?}\n{} behaviours, {} failed by no mutant {idle:?}\nwrong on the reference: {:?}",
            self.caught.len(),
            self.escaped().len(),
            self.escaped(),
            registry::all().len(),
            idle.len(),
            self.wrong
        )
    }

    /// Writes it as Markdown.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        std::fs::write(path, self.markdown())
            .map_err(|source| Error::because(format!("`{}` cannot be written", path.display()), source))
    }

    fn markdown(&self) -> String {
        let registry = registry::all();
        let mut out = format!(
            "# What the conformance harness catches\n\nGenerated by `bigfleet-conformance mutants`; do not edit. Each \
             mutant is the reference provider (`bigfleet-conformance reference`) with one rule broken. The reference \
             itself passes all {} behaviours{}.\n\n{} mutants; {} caught by nothing. {} behaviours fail on no mutant.\n\n",
            registry.len(),
            if self.wrong.is_empty() {
                ""
            } else {
                ", but for those below"
            },
            self.caught.len(),
            self.escaped().len(),
            self.idle().len()
        );
        let mut add = |line: String| {
            // invariant: writing to a String cannot fail.
            writeln!(out, "{line}").unwrap_or_default();
        };
        if !self.wrong.is_empty() {
            add("## Wrong on the reference\n".into());
            for (id, why) in &self.wrong {
                add(format!("- {id}: {why}"));
            }
            add(String::new());
        }
        add("## Mutants\n\n| mutant | what it does wrong | caught by |\n|---|---|---|".into());
        for mutant in MUTANTS {
            let Some(caught) = self.caught.get(mutant.name) else {
                continue;
            };
            let by: Vec<&str> = caught.iter().map(|id| short(id)).collect();
            let by = if by.is_empty() {
                "**nothing**".into()
            } else {
                by.join(" ")
            };
            add(format!("| `{}` | {} | {by} |", mutant.name, mutant.what));
        }
        add("\n## Behaviours\n\n| behaviour | promise | mutants that fail it |\n|---|---|---|".into());
        for behaviour in registry {
            let mut mutants: Vec<&str> = Vec::new();
            for (name, caught) in &self.caught {
                if caught.contains(behaviour.id) {
                    mutants.push(name);
                }
            }
            let by = if mutants.is_empty() {
                "**none**".into()
            } else {
                mutants.join(", ")
            };
            add(format!(
                "| {} | {} | {by} |",
                short(behaviour.id),
                behaviour.title.replace('|', "\\|")
            ));
        }
        out
    }
}

fn short(id: &str) -> &str {
    id.strip_prefix("TestConformance_").unwrap_or(id)
}
