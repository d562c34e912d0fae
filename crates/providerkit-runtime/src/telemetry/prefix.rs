//! Puts the provider's name before the names of metrics, so that libraries need not know whose process they are in.

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// Passes everything on under a longer name. `process_…` stays: Prometheus gives it to all programs alike.
#[derive(Debug)]
pub(super) struct Prefixed<R> {
    prefix: &'static str,
    inner: R,
}

impl<R> Prefixed<R> {
    pub(super) fn new(prefix: &'static str, inner: R) -> Self {
        Self { prefix, inner }
    }

    fn name(&self, name: KeyName) -> KeyName {
        let bare = name.as_str();
        if bare.starts_with("process_") || bare.starts_with(self.prefix) {
            return name;
        }
        KeyName::from(format!("{}{bare}", self.prefix))
    }

    fn key(&self, key: &Key) -> Key {
        let (name, labels) = key.clone().into_parts();
        Key::from_parts(self.name(name), labels)
    }
}

impl<R: Recorder> Recorder for Prefixed<R> {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.inner.describe_counter(self.name(key), unit, text);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.inner.describe_gauge(self.name(key), unit, text);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.inner.describe_histogram(self.name(key), unit, text);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.inner.register_counter(&self.key(key), metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.inner.register_gauge(&self.key(key), metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.inner.register_histogram(&self.key(key), metadata)
    }
}
