//! Log lines on standard error.

use std::io::{self, IsTerminal as _};

use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;

use super::Error;
use crate::settings::{Log, LogFormat};

/// Begins to log to standard error, for the whole process.
///
/// # Errors
/// When logging was begun before.
pub fn init(log: &Log) -> Result<(), Error> {
    let terminal = io::stderr().is_terminal();
    tracing::subscriber::set_global_default(subscriber(log, terminal, io::stderr))
        .map_err(|error| Error::new("logging", error))
}

fn subscriber<W>(log: &Log, terminal: bool, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt()
        .with_env_filter(log.filter())
        .with_writer(writer);
    let text = match log.format {
        LogFormat::Auto => terminal,
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    if text {
        let colours = terminal && std::env::var_os("NO_COLOR").is_none();
        Box::new(lines.with_ansi(colours).finish())
    } else {
        Box::new(lines.json().flatten_event(true).with_current_span(false).finish())
    }
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
        let subscriber = subscriber(&settings.log, false, move || writer.clone());
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
}
