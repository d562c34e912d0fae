//! What an operator wants of every machine at its first boot.

use crate::ignition::{Ignition, IgnitionError};

/// What an operator wants of every machine at its first boot, checked, for whatever the image reads it with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum UserData {
    /// For cloud-init: on a seed disk (NoCloud).
    CloudInit(cloud_init::UserData),
    /// For Ignition: by the firmware's configuration device, or a disk of its own where there is none.
    Ignition(Ignition),
}

impl UserData {
    /// Nothing, for cloud-init.
    #[must_use]
    pub fn none() -> Self {
        Self::CloudInit(cloud_init::UserData::none())
    }

    /// A document for cloud-init.
    ///
    /// # Errors
    /// What cloud-init would ignore: see [`cloud_init::UserData::new`].
    pub fn cloud_init(document: impl Into<Vec<u8>>) -> Result<Self, cloud_init::Error> {
        cloud_init::UserData::new(document.into()).map(Self::CloudInit)
    }

    /// A configuration for Ignition.
    ///
    /// # Errors
    /// What Ignition would refuse at boot: see [`Ignition::new`].
    pub fn ignition(configuration: impl Into<Vec<u8>>) -> Result<Self, IgnitionError> {
        Ignition::new(configuration).map(Self::Ignition)
    }

    /// What looks like a secret, each with where it is.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        match self {
            Self::CloudInit(document) => document.secrets().iter().map(ToString::to_string).collect(),
            Self::Ignition(configuration) => configuration.secrets(),
        }
    }
}
