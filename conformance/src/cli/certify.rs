//! `run` and `mutants`.

use std::{process::ExitCode, sync::Arc};

use conformance::{Report, Verdict};
use tokio::signal::unix::{SignalKind, signal};

use super::{Mutants, Run, progress::Progress};

pub(super) async fn run(run: Run) -> anyhow::Result<ExitCode> {
    let options = run.options()?;
    let progress = Arc::new(Progress::new(run.quiet));
    let listener = Arc::clone(&progress);
    let report = tokio::select! {
        report = conformance::run(options, move |event| listener.take(&event)) => report?,
        () = interrupted() => anyhow::bail!("interrupted; nothing was written"),
    };
    progress.finish(&report);
    if let Some(out) = &run.out {
        report.write(out)?;
        progress.say(&format!("reports in {}", out.display()));
    }
    Ok(exit_code(&report))
}

/// Ctrl-C, or a request to end: the providers that were started are killed on the way out.
async fn interrupted() {
    let Ok(mut terminated) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}

/// A filtered run cannot certify, but can say that what it ran was kept.
fn exit_code(report: &Report) -> ExitCode {
    let good = report.verdict == Verdict::Certified || report.filtered && report.all_run_passed();
    ExitCode::from(u8::from(!good))
}

pub(super) async fn mutants(mutants: Mutants) -> anyhow::Result<ExitCode> {
    let progress = Arc::new(Progress::new(false));
    let listener = Arc::clone(&progress);
    let program = std::env::current_exe()?;
    let run = conformance::mutants::run(&program, mutants.only.as_deref(), mutants.jobs, move |line| {
        listener.say(line);
    });
    let mut table = tokio::select! {
        table = run => table?,
        () = interrupted() => anyhow::bail!("interrupted; nothing was written"),
    };
    if mutants.only.is_some() && mutants.out.exists() {
        table.fill_from(&mutants.out)?;
    }
    table.write(&mutants.out)?;
    progress.say(&format!("{}\ntable in {}", table.summary(), mutants.out.display()));
    Ok(ExitCode::from(u8::from(!table.holds())))
}
