//! Which event is asked for under which number.

use super::{Class, Subject};
use crate::wire::{
    constant::{
        domain::DomainEventID, network::NetworkEventID, nodedev::NodeDeviceEventID, secret::SecretEventID,
        storage::StoragePoolEventID,
    },
    procedure::EventMessage,
    remote::record::{DomainRef, NetworkRef, NodeDeviceRef, SecretRef, StoragePoolRef},
};

/// An event that can be subscribed to.
pub trait Topic: EventMessage + Send + 'static {
    /// What it happens to.
    type Subject: Subject;
    /// Its number among the events of such objects.
    const ID: i32;
    /// The sort of object.
    const CLASS: Class = <Self::Subject as Subject>::CLASS;
}

macro_rules! topics {
    ($subject:ident, $ids:ident, { $($message:path = $id:ident as $name:ident,)* }) => {
        $(
            pub use $message as $name;

            impl super::Topic for $message {
                type Subject = super::$subject;
                const ID: i32 = super::$ids::$id.0;
            }
        )*
    };
}

/// Events of domains.
pub mod domain {
    use crate::wire::remote::domain_event as wire;

    topics!(DomainRef, DomainEventID, {
        wire::DomainEventCallbackLifecycleMsg = LIFECYCLE as Lifecycle,
        wire::DomainEventCallbackRebootMsg = REBOOT as Reboot,
        wire::DomainEventCallbackRtcChangeMsg = RTC_CHANGE as RtcChange,
        wire::DomainEventCallbackWatchdogMsg = WATCHDOG as Watchdog,
        wire::DomainEventCallbackIoErrorMsg = IO_ERROR as IoError,
        wire::DomainEventCallbackGraphicsMsg = GRAPHICS as Graphics,
        wire::DomainEventCallbackIoErrorReasonMsg = IO_ERROR_REASON as IoErrorReason,
        wire::DomainEventCallbackControlErrorMsg = CONTROL_ERROR as ControlError,
        wire::DomainEventCallbackBlockJobMsg = BLOCK_JOB as BlockJob,
        wire::DomainEventCallbackDiskChangeMsg = DISK_CHANGE as DiskChange,
        wire::DomainEventCallbackTrayChangeMsg = TRAY_CHANGE as TrayChange,
        wire::DomainEventCallbackPmwakeupMsg = PMWAKEUP as Wakeup,
        wire::DomainEventCallbackPmsuspendMsg = PMSUSPEND as Suspend,
        wire::DomainEventCallbackBalloonChangeMsg = BALLOON_CHANGE as BalloonChange,
        wire::DomainEventCallbackPmsuspendDiskMsg = PMSUSPEND_DISK as SuspendToDisk,
        wire::DomainEventCallbackDeviceRemovedMsg = DEVICE_REMOVED as DeviceRemoved,
        wire::DomainEventBlockJob2Msg = BLOCK_JOB_2 as BlockJob2,
        wire::DomainEventCallbackTunableMsg = TUNABLE as Tunable,
        wire::DomainEventCallbackAgentLifecycleMsg = AGENT_LIFECYCLE as AgentLifecycle,
        wire::DomainEventCallbackDeviceAddedMsg = DEVICE_ADDED as DeviceAdded,
        wire::DomainEventCallbackMigrationIterationMsg = MIGRATION_ITERATION as MigrationIteration,
        wire::DomainEventCallbackJobCompletedMsg = JOB_COMPLETED as JobCompleted,
        wire::DomainEventCallbackDeviceRemovalFailedMsg = DEVICE_REMOVAL_FAILED as DeviceRemovalFailed,
        wire::DomainEventCallbackMetadataChangeMsg = METADATA_CHANGE as MetadataChange,
        wire::DomainEventBlockThresholdMsg = BLOCK_THRESHOLD as BlockThreshold,
        wire::DomainEventMemoryFailureMsg = MEMORY_FAILURE as MemoryFailure,
        wire::DomainEventMemoryDeviceSizeChangeMsg = MEMORY_DEVICE_SIZE_CHANGE as MemoryDeviceSizeChange,
        wire::DomainEventNicMacChangeMsg = NIC_MAC_CHANGE as NicMacChange,
    });
}

/// Events of networks.
pub mod network {
    use crate::wire::remote::network as wire;

    topics!(NetworkRef, NetworkEventID, {
        wire::NetworkEventLifecycleMsg = LIFECYCLE as Lifecycle,
        wire::NetworkEventCallbackMetadataChangeMsg = METADATA_CHANGE as MetadataChange,
    });
}

/// Events of storage pools.
pub mod storage_pool {
    use crate::wire::remote::storage_pool as wire;

    topics!(StoragePoolRef, StoragePoolEventID, {
        wire::StoragePoolEventLifecycleMsg = LIFECYCLE as Lifecycle,
        wire::StoragePoolEventRefreshMsg = REFRESH as Refresh,
    });
}

/// Events of node devices.
pub mod node_device {
    use crate::wire::remote::node_device as wire;

    topics!(NodeDeviceRef, NodeDeviceEventID, {
        wire::NodeDeviceEventLifecycleMsg = LIFECYCLE as Lifecycle,
        wire::NodeDeviceEventUpdateMsg = UPDATE as Update,
    });
}

/// Events of secrets.
pub mod secret {
    use crate::wire::remote::secret as wire;

    topics!(SecretRef, SecretEventID, {
        wire::SecretEventLifecycleMsg = LIFECYCLE as Lifecycle,
        wire::SecretEventValueChangedMsg = VALUE_CHANGED as ValueChanged,
    });
}
