//! What a Configure asks for.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Opaque notes on a binding.
pub(crate) type Metadata = BTreeMap<String, String>;

/// The arguments of a Configure, but for the machine and the token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) cluster: String,
    pub(crate) metadata: Metadata,
    pub(crate) blob: Bytes,
}

impl Binding {
    /// To a cluster, with a small blob and no metadata.
    pub(crate) fn to(cluster: impl Into<String>) -> Self {
        Self {
            cluster: cluster.into(),
            metadata: Metadata::new(),
            blob: Bytes::from_static(b"#!/bin/sh\nexit 0\n"),
        }
    }

    pub(crate) fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    pub(crate) fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    pub(crate) fn blob(mut self, blob: impl Into<Bytes>) -> Self {
        self.blob = blob.into();
        self
    }
}
