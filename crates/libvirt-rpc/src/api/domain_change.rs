//! Domains: changing what they have and are called, saving them, their streams.

use std::os::fd::OwnedFd;

use super::calls;
use crate::{
    Connection, Error,
    stream::Stream,
    wire::{
        constant::domain::{
            DomainBlockResizeFlags, DomainChannelFlags, DomainConsoleFlags, DomainDeviceModifyFlags,
            DomainDiskErrorCode, DomainMemoryModFlags, DomainMetadataType, DomainModificationImpact,
            DomainOpenGraphicsFlags, DomainSaveRestoreFlags, DomainVcpuFlags,
        },
        remote::{
            domain::{
                DomainAttachDeviceFlags, DomainAttachDeviceFlagsArgs, DomainBlockResize, DomainBlockResizeArgs,
                DomainDetachDeviceFlags, DomainDetachDeviceFlagsArgs, DomainGetBlockInfo, DomainGetBlockInfoArgs,
                DomainGetBlockInfoRet, DomainGetDiskErrors, DomainGetDiskErrorsArgs, DomainGetMetadata,
                DomainGetMetadataArgs, DomainHasManagedSaveImage, DomainHasManagedSaveImageArgs, DomainManagedSave,
                DomainManagedSaveArgs, DomainManagedSaveRemove, DomainManagedSaveRemoveArgs, DomainOpenChannel,
                DomainOpenChannelArgs, DomainOpenConsole, DomainOpenConsoleArgs, DomainOpenGraphicsFd,
                DomainOpenGraphicsFdArgs, DomainRename, DomainRenameArgs, DomainScreenshot, DomainScreenshotArgs,
                DomainSetMemoryFlags, DomainSetMemoryFlagsArgs, DomainSetMetadata, DomainSetMetadataArgs,
                DomainSetVcpusFlags, DomainSetVcpusFlagsArgs, DomainUpdateDeviceFlags, DomainUpdateDeviceFlagsArgs,
            },
            record::{DomainDiskError, DomainRef},
        },
        xdr::Text,
    },
};

calls! {
    /// Metadata of a sort; for elements `namespace` is their XML namespace.
    domain_metadata(domain: &DomainRef, sort: DomainMetadataType, namespace: Option<&str>, impact: DomainModificationImpact)
        -> String
        = DomainGetMetadata (DomainGetMetadataArgs {
            dom: domain.clone(),
            kind: sort.0,
            uri: namespace.map(Text::from),
            flags: impact.bits(),
        }) => |r| r.metadata.into_string_lossy();
    /// Sets metadata of a sort; `None` removes it. Elements need a prefix (`key`) and a namespace.
    domain_set_metadata(
        domain: &DomainRef, sort: DomainMetadataType, metadata: Option<&str>, key: Option<&str>,
        namespace: Option<&str>, impact: DomainModificationImpact,
    ) = DomainSetMetadata (DomainSetMetadataArgs {
        dom: domain.clone(),
        kind: sort.0,
        metadata: metadata.map(Text::from),
        key: key.map(Text::from),
        uri: namespace.map(Text::from),
        flags: impact.bits(),
    });
    /// Gives a stopped domain another name.
    domain_rename(domain: &DomainRef, name: &str) = DomainRename (DomainRenameArgs {
        dom: domain.clone(),
        new_name: Some(name.into()),
        flags: 0,
    }) => |_r| ();
    /// Sets the memory, in KiB.
    domain_set_memory(domain: &DomainRef, memory_kib: u64, flags: DomainMemoryModFlags)
        = DomainSetMemoryFlags (DomainSetMemoryFlagsArgs { dom: domain.clone(), memory: memory_kib, flags: flags.bits() });
    /// Sets the number of virtual CPUs.
    domain_set_vcpus(domain: &DomainRef, vcpus: u32, flags: DomainVcpuFlags)
        = DomainSetVcpusFlags (DomainSetVcpusFlagsArgs { dom: domain.clone(), nvcpus: vcpus, flags: flags.bits() });
    /// Adds a device.
    domain_attach_device(domain: &DomainRef, xml: &str, flags: DomainDeviceModifyFlags)
        = DomainAttachDeviceFlags (DomainAttachDeviceFlagsArgs { dom: domain.clone(), xml: xml.into(), flags: flags.bits() });
    /// Takes a device away; from a running domain it is gone when the guest has let it go, which an event tells.
    domain_detach_device(domain: &DomainRef, xml: &str, flags: DomainDeviceModifyFlags)
        = DomainDetachDeviceFlags (DomainDetachDeviceFlagsArgs { dom: domain.clone(), xml: xml.into(), flags: flags.bits() });
    /// Changes a device.
    domain_update_device(domain: &DomainRef, xml: &str, flags: DomainDeviceModifyFlags)
        = DomainUpdateDeviceFlags (DomainUpdateDeviceFlagsArgs { dom: domain.clone(), xml: xml.into(), flags: flags.bits() });
    /// Sizes of a disk: capacity, allocation and physical size in bytes.
    domain_block_info(domain: &DomainRef, disk: &str) -> DomainGetBlockInfoRet
        = DomainGetBlockInfo (DomainGetBlockInfoArgs { dom: domain.clone(), path: disk.into(), flags: 0 }) => |r| r;
    /// Changes the size of a disk of a running domain; in KiB, unless the flags say bytes.
    domain_block_resize(domain: &DomainRef, disk: &str, size: u64, flags: DomainBlockResizeFlags)
        = DomainBlockResize (DomainBlockResizeArgs { dom: domain.clone(), disk: disk.into(), size, flags: flags.bits() });
    /// Stops a domain and keeps its memory for the next start.
    domain_managed_save(domain: &DomainRef, flags: DomainSaveRestoreFlags)
        = DomainManagedSave (DomainManagedSaveArgs { dom: domain.clone(), flags: flags.bits() });
    /// Throws the kept memory away.
    domain_managed_save_remove(domain: &DomainRef)
        = DomainManagedSaveRemove (DomainManagedSaveRemoveArgs { dom: domain.clone(), flags: 0 });
    /// Whether there is kept memory.
    domain_has_managed_save(domain: &DomainRef) -> bool
        = DomainHasManagedSaveImage (DomainHasManagedSaveImageArgs { dom: domain.clone(), flags: 0 }) => |r| r.result != 0;
}

impl Connection {
    /// The disks of a running domain that have failed since it last ran, by their targets.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn domain_disk_errors(&self, domain: &DomainRef) -> Result<Vec<(String, DomainDiskErrorCode)>, Error> {
        let ask = |maxerrors| DomainGetDiskErrorsArgs {
            dom: domain.clone(),
            maxerrors,
            flags: 0,
        };
        // Asked with room for none it says how many disks there are.
        let room = self.call::<DomainGetDiskErrors>(&ask(0)).await?.nerrors;
        let Some(room) = u32::try_from(room).ok().filter(|room| *room > 0) else {
            return Ok(Vec::new());
        };
        let errors = self.call::<DomainGetDiskErrors>(&ask(room)).await?.errors;
        let named = |error: DomainDiskError| (error.disk.into_string_lossy(), DomainDiskErrorCode(error.error));
        Ok(errors.into_iter().map(named).collect())
    }

    /// Opens a console, the first when `device` is `None`: what the guest writes is read, what is written it reads.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn domain_open_console(
        &self,
        domain: &DomainRef,
        device: Option<&str>,
        flags: DomainConsoleFlags,
    ) -> Result<Stream, Error> {
        let dev_name = device.map(Text::from);
        let args = DomainOpenConsoleArgs {
            dom: domain.clone(),
            dev_name,
            flags: flags.bits(),
        };
        self.open_stream::<DomainOpenConsole>(&args)
            .await
            .map(|((), stream)| stream)
    }

    /// Opens a channel to something in the guest.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn domain_open_channel(
        &self,
        domain: &DomainRef,
        name: Option<&str>,
        flags: DomainChannelFlags,
    ) -> Result<Stream, Error> {
        let name = name.map(Text::from);
        let args = DomainOpenChannelArgs {
            dom: domain.clone(),
            name,
            flags: flags.bits(),
        };
        self.open_stream::<DomainOpenChannel>(&args)
            .await
            .map(|((), stream)| stream)
    }

    /// A picture of a screen: its MIME type and the stream it comes in.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn domain_screenshot(&self, domain: &DomainRef, screen: u32) -> Result<(Option<String>, Stream), Error> {
        let args = DomainScreenshotArgs {
            dom: domain.clone(),
            screen,
            flags: 0,
        };
        let (ret, stream) = self.open_stream::<DomainScreenshot>(&args).await?;
        Ok((ret.mime.map(Text::into_string_lossy), stream))
    }

    /// A socket to a graphics device, by its place in the description. Over a UNIX socket only.
    ///
    /// # Errors
    /// When the daemon answers with an error, sends no descriptor, or no answer comes.
    pub async fn domain_open_graphics(
        &self,
        domain: &DomainRef,
        index: u32,
        flags: DomainOpenGraphicsFlags,
    ) -> Result<OwnedFd, Error> {
        let args = DomainOpenGraphicsFdArgs {
            dom: domain.clone(),
            idx: index,
            flags: flags.bits(),
        };
        let ((), files) = self.call_with_files::<DomainOpenGraphicsFd>(&args, Vec::new()).await?;
        let file = files.into_iter().next();
        file.ok_or_else(|| Error::stream("domain_open_graphics_fd: the daemon sent no descriptor", None))
    }
}
