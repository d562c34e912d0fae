//! The whole process of a provider: the engine on its store, behind the port.

use std::{convert::Infallible, error::Error as StdError, future::Future, path::Path, sync::Arc, time::Duration};

use providerkit::{
    Backend, Engine, Options,
    store::{Memory, Sqlite, Store},
};
use tonic::service::Routes;

use crate::{
    Operator,
    serve::{self, Ended, Signals, Work},
    settings::{FailedSlots, OnRestart, Settings, Transitions},
    status::Board,
    telemetry::{self, Metrics, names},
};

/// Serves a backend until a signal comes. The operator is the binary's own part; `Arc::new(())` where it has none.
///
/// # Errors
/// When a port cannot be bound, the state cannot be opened or TLS cannot be set up; or when the server fails.
pub async fn run(
    settings: &Settings,
    metrics: Option<Metrics>,
    signals: Signals,
    backend: Arc<dyn Backend>,
    operator: Arc<dyn Operator>,
) -> Result<Ended, serve::Error> {
    run_with(
        settings,
        metrics,
        signals,
        async { Ok::<_, Infallible>(backend) },
        operator,
    )
    .await
}

/// Serves a backend that is made once the state is open: for one that keeps something beside it, which must not be
/// touched while the state is another process's, or refused.
///
/// # Errors
/// As [`run`]'s, or when the backend cannot be made.
pub async fn run_with<E>(
    settings: &Settings,
    metrics: Option<Metrics>,
    signals: Signals,
    backend: impl Future<Output = Result<Arc<dyn Backend>, E>>,
    operator: Arc<dyn Operator>,
) -> Result<Ended, serve::Error>
where
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    let board = Board::default();
    let (gauges, shown) = (metrics.clone(), board.clone());
    let start = async move {
        providerkit::metric::describe();
        let store = open(settings.state.as_deref()).await?;
        let backend = backend.await.map_err(Into::into)?;
        let engine = Engine::start(options(settings), store, backend).await?;
        let build = gauges.as_ref().and_then(Metrics::build);
        shown.show(&settings.provider, build, &engine, &operator);
        if let Some(metrics) = gauges {
            let (engine, operator) = (engine.clone(), Arc::clone(&operator));
            metrics.before_render(move || {
                engine.record_gauges();
                operator.record_gauges();
            });
        }
        Ok::<_, Box<dyn StdError + Send + Sync>>(Provider { engine, operator })
    };
    serve::serve_with(settings, metrics, signals, board, start).await
}

/// What answers behind the port, and what the binary adds.
struct Provider {
    engine: Engine,
    operator: Arc<dyn Operator>,
}

impl Work for Provider {
    fn routes(&self) -> Routes {
        Routes::new(providerkit::server(self.engine.clone()))
    }

    async fn reload(&self) {
        let operator = Arc::clone(&self.operator);
        let reloaded = tokio::task::spawn_blocking(move || operator.reload()).await;
        let reloaded = reloaded.unwrap_or_else(|panic| Err(vec![panic.to_string()]));
        names::configuration_was_read(reloaded.is_ok());
        match reloaded {
            Ok(reloaded) => {
                telemetry::set_log_level(&reloaded.log);
                tracing::info!("the configuration was read again and is in force");
                for key in reloaded.needs_restart {
                    tracing::warn!(key, "a change of this key is only in force after a restart");
                }
            }
            Err(findings) => {
                tracing::error!(
                    mistakes = findings.len(),
                    "the configuration was read again and is not valid; the one before stays in force"
                );
                for finding in findings {
                    tracing::error!("{finding}");
                }
            }
        }
    }

    fn refuse_mutations(&self) {
        self.engine.refuse_mutations();
    }

    async fn stop(&self, grace: Duration) {
        match self.engine.stop(grace).await {
            Ok(stopped) => tracing::info!(
                left_running = stopped.left_running,
                "the state is closed; what was left running goes on at the next start"
            ),
            Err(error) => tracing::warn!(
                cause = error.source(),
                "the state was not closed cleanly; what was acknowledged is safe: {error}"
            ),
        }
    }
}

/// Opening waits for the disk, so it is done apart.
async fn open(path: Option<&Path>) -> Result<Box<dyn Store>, Box<dyn StdError + Send + Sync>> {
    let Some(path) = path.map(Path::to_owned) else {
        tracing::warn!("there is no state file: everything is forgotten when this process ends; name one with `state`");
        return Ok(Box::new(Memory::default()));
    };
    let opened = tokio::task::spawn_blocking(move || Sqlite::open(path)).await?;
    Ok(Box::new(opened?))
}

fn options(settings: &Settings) -> Options {
    let mut options = Options::new(Arc::clone(&settings.provider));
    let Transitions {
        create,
        configure,
        drain,
        delete,
        describe,
        on_restart,
        failed_slots,
        failed_hold,
        cancel_grace,
        reconcile_interval,
        ghost_marks,
    } = settings.transitions;
    options.timeouts.create = create;
    options.timeouts.configure = configure;
    options.timeouts.drain = drain;
    options.timeouts.delete = delete;
    options.timeouts.describe = describe;
    options.on_restart = match on_restart {
        OnRestart::Resume => providerkit::OnRestart::Resume,
        OnRestart::Fail => providerkit::OnRestart::Fail,
    };
    options.failed_slots = match failed_slots {
        FailedSlots::Cleanup => providerkit::FailedSlots::Cleanup,
        FailedSlots::Keep => providerkit::FailedSlots::Keep,
    };
    options.failed_hold = failed_hold;
    options.cancel_grace = cancel_grace;
    options.reconcile_interval = reconcile_interval;
    options.ghost_marks = ghost_marks;
    options
}
