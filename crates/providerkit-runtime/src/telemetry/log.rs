//! Log lines on standard error.

use std::{
    error::Error as StdError,
    io::{self, IsTerminal as _},
};

use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::{FilterExt as _, FilterFn, filter_fn},
    fmt::MakeWriter,
    layer::SubscriberExt as _,
    reload,
};

use crate::settings::{Log, LogFormat};

/// The target of lines that tell which change was granted to whom.
const AUDIT: &str = "audit";

pub(super) type Boxed = Box<dyn Layer<Registry> + Send + Sync>;

/// Decides what is logged, and may be told otherwise.
pub(super) struct Level(reload::Handle<EnvFilter, Registry>);

impl Level {
    pub(super) fn set(&self, log: &Log) -> Result<(), Box<dyn StdError + Send + Sync>> {
        self.0.reload(log.filter()).map_err(Into::into)
    }
}

/// Lines on standard error, and `more`.
pub(super) fn subscriber(log: &Log, more: Option<Boxed>) -> (impl tracing::Subscriber + Send + Sync, Level) {
    let (mut layers, level) = lines(log, io::stderr().is_terminal(), io::stderr);
    layers.extend(more);
    (Registry::default().with(layers), level)
}

fn lines<W>(log: &Log, terminal: bool, writer: W) -> (Vec<Boxed>, Level)
where
    W: for<'a> MakeWriter<'a> + Clone + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(log.filter());
    let filter = filter.and(FilterFn::new(|metadata| metadata.target() != AUDIT));
    let text = match log.format {
        LogFormat::Auto => terminal,
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let base = tracing_subscriber::fmt::layer().with_writer(writer.clone());
    let lines: Boxed = if text {
        let colours = terminal && std::env::var_os("NO_COLOR").is_none();
        Box::new(base.with_ansi(colours).with_filter(filter))
    } else {
        Box::new(json(base).with_filter(filter))
    };
    let mut layers = vec![lines];
    if log.audit {
        let base = tracing_subscriber::fmt::layer().with_writer(writer);
        layers.push(Box::new(json(base).with_current_span(false).with_filter(filter_fn(
            |metadata| metadata.is_event() && metadata.target() == AUDIT,
        ))));
    }
    (layers, Level(handle))
}

type Json<W> = tracing_subscriber::fmt::Layer<
    Registry,
    tracing_subscriber::fmt::format::JsonFields,
    tracing_subscriber::fmt::format::Format<tracing_subscriber::fmt::format::Json>,
    W,
>;

/// One object a line, with what is known of the transition it belongs to.
fn json<W>(
    layer: tracing_subscriber::fmt::Layer<
        Registry,
        tracing_subscriber::fmt::format::DefaultFields,
        tracing_subscriber::fmt::format::Format,
        W,
    >,
) -> Json<W> {
    layer
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::{
        config::Loader,
        settings::{Config, Settings},
    };

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What two events look like with these flags, off a terminal.
    fn logged(flags: &[(&str, &str)]) -> String {
        let loader = Loader::<Config>::new();
        let loader = flags
            .iter()
            .fold(loader, |loader, (key, text)| loader.flag(key, key, text));
        let settings = loader.load().finish(Settings::parse).unwrap();
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let (layers, _level) = lines(&settings.log, false, move || writer.clone());
        let subscriber = Registry::default().with(layers);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(machine_id = "m-1", "created");
            tracing::debug!("detail");
        });
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn lines_off_a_terminal_are_json_objects() {
        let lines = logged(&[]);
        let line: serde_json::Value = serde_json::from_str(lines.trim_end()).unwrap();
        assert_eq!(
            (&line["message"], &line["machine_id"]),
            (&"created".into(), &"m-1".into())
        );
        assert_eq!(line["level"], "INFO");
    }

    #[test]
    fn text_can_be_asked_for_and_has_no_colours_off_a_terminal() {
        let lines = logged(&[("log.format", "text")]);
        assert!(lines.contains("created machine_id=\"m-1\""), "{lines}");
        assert!(!lines.contains('\u{1b}'), "{lines}");
    }

    #[test]
    fn the_level_decides_what_is_logged() {
        assert_eq!(logged(&[("log.level", "warn")]), "");
        assert_eq!(logged(&[("log.level", "debug")]).lines().count(), 2);
        let part = logged(&[("log.level", "warn,providerkit_runtime=debug")]);
        assert_eq!(part.lines().count(), 2);
    }

    #[test]
    fn audit_lines_are_json_and_written_whatever_the_level_unless_they_are_switched_off() {
        let told = |flags: &[(&str, &str)]| {
            let loader = flags.iter().fold(Loader::<Config>::new(), |loader, (key, text)| {
                loader.flag(key, key, text)
            });
            let settings = loader.load().finish(Settings::parse).unwrap();
            let buffer = Buffer::default();
            let writer = buffer.clone();
            let (layers, _level) = lines(&settings.log, false, move || writer.clone());
            tracing::subscriber::with_default(Registry::default().with(layers), || {
                tracing::info!(target: AUDIT, method = "Create", "granted");
            });
            let bytes = buffer.0.lock().unwrap().clone();
            String::from_utf8(bytes).unwrap()
        };
        let line = told(&[("log.level", "off"), ("log.format", "text")]);
        let line: serde_json::Value = serde_json::from_str(line.trim_end()).unwrap();
        assert_eq!((&line["target"], &line["method"]), (&"audit".into(), &"Create".into()));
        assert_eq!(told(&[("log.audit", "false")]), "");
    }

    #[test]
    fn the_level_can_be_changed_while_it_logs() {
        let loaded = |level: &str| {
            let loader = Loader::<Config>::new().flag("l", "log.level", level);
            loader.load().finish(Settings::parse).unwrap().log
        };
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let (layers, level) = lines(&loaded("warn"), false, move || writer.clone());
        tracing::subscriber::with_default(Registry::default().with(layers), || {
            tracing::info!("before");
            level.set(&loaded("info")).unwrap();
            tracing::info!("after");
        });
        let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains("after") && !text.contains("before"), "{text}");
    }
}
