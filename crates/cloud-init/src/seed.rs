//! The seed as a whole.

use std::fmt;

use bytes::Bytes;

use crate::{Error, FileName, Image, MetaData, NetworkConfig, UserData, VendorData};

/// Everything a machine reads at its first boot.
///
/// ```
/// use cloud_init::{Hostname, InstanceId, MetaData, Seed, UserData};
///
/// let meta = MetaData::new(InstanceId::new("m1-1")?, Hostname::new("m1")?);
/// let image = Seed::new(meta, UserData::none()).image()?;
/// assert_eq!(image.size() % 2048, 0);
/// # Ok::<(), cloud_init::Error>(())
/// ```
#[derive(Clone)]
pub struct Seed {
    meta: MetaData,
    user: UserData,
    vendor: Option<VendorData>,
    network: Option<NetworkConfig>,
    files: Vec<(FileName, Bytes)>,
}

impl Seed {
    /// The two documents without which NoCloud does not take a disk for a seed.
    #[must_use]
    pub fn new(meta: MetaData, user: UserData) -> Self {
        Self {
            meta,
            user,
            vendor: None,
            network: None,
            files: Vec::new(),
        }
    }

    /// With `vendor-data`.
    #[must_use]
    pub fn vendor_data(mut self, vendor: VendorData) -> Self {
        self.vendor = Some(vendor);
        self
    }

    /// With `network-config`. Without it, cloud-init asks DHCP on the first network card it finds.
    #[must_use]
    pub fn network_config(mut self, network: NetworkConfig) -> Self {
        self.network = Some(network);
        self
    }

    /// With one more file beside them, whose content is shared and not copied. cloud-init leaves it alone; a script in the
    /// vendor-data may read it.
    #[must_use]
    pub fn file(mut self, name: FileName, content: impl Into<Bytes>) -> Self {
        self.files.push((name, content.into()));
        self
    }

    /// The files, in the order they have in the image.
    fn files(&self) -> Vec<(FileName, Bytes)> {
        let mut files = vec![
            (FileName::known("meta-data"), self.meta.to_yaml().into()),
            (FileName::known("user-data"), self.user.to_bytes()),
        ];
        files.extend(
            self.vendor
                .iter()
                .map(|vendor| (FileName::known("vendor-data"), vendor.to_bytes())),
        );
        let network = self
            .network
            .iter()
            .map(|network| (FileName::known("network-config"), network.to_yaml().into()));
        files.extend(network);
        files.extend(self.files.iter().cloned());
        files
    }

    /// The seed as a disk.
    ///
    /// # Errors
    /// A file that has the name of another, or more than an image holds.
    pub fn image(&self) -> Result<Image, Error> {
        Image::new(self.files())
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files: Vec<_> = self
            .files
            .iter()
            .map(|(name, content)| (name.as_str(), content.len()))
            .collect();
        f.debug_struct("Seed")
            .field("meta", &self.meta)
            .field("user", &self.user)
            .field("vendor", &self.vendor)
            .field("network", &self.network)
            .field("files", &files)
            .finish()
    }
}
