//! Opening, and the host as a whole.

use super::call::Call;
use crate::wire::{
    remote::{
        auth::{AuthList, AuthListRet},
        connect::{
            ConnectClose, ConnectGetCapabilities, ConnectGetCapabilitiesRet, ConnectGetDomainCapabilities,
            ConnectGetDomainCapabilitiesRet, ConnectGetHostname, ConnectGetHostnameRet, ConnectGetLibVersion,
            ConnectGetLibVersionRet, ConnectGetType, ConnectGetTypeRet, ConnectGetUri, ConnectGetUriRet,
            ConnectGetVersion, ConnectGetVersionRet, ConnectIsSecure, ConnectIsSecureRet, ConnectOpen,
            ConnectSupportsFeature, ConnectSupportsFeatureRet,
        },
        node::{NodeGetFreeMemory, NodeGetFreeMemoryRet, NodeGetInfo, NodeGetInfoRet},
        record::AuthType,
    },
    xdr::CharArray,
};

/// 11.3.0.
const VERSION: u64 = 11_003_000;

pub(super) fn answer(call: &mut Call<'_>) {
    call.on::<AuthList>(|_, ()| {
        Ok(AuthListRet {
            types: vec![AuthType::NONE],
        })
    });
    call.on::<ConnectOpen>(|_, _| Ok(()));
    call.on::<ConnectClose>(|_, ()| Ok(()));
    call.on::<ConnectSupportsFeature>(|_, _| Ok(ConnectSupportsFeatureRet { supported: 1 }));
    call.on::<ConnectGetType>(|_, ()| Ok(ConnectGetTypeRet { kind: "QEMU".into() }));
    call.on::<ConnectGetVersion>(|_, ()| Ok(ConnectGetVersionRet { hv_ver: 10_000_000 }));
    call.on::<ConnectGetLibVersion>(|_, ()| Ok(ConnectGetLibVersionRet { lib_ver: VERSION }));
    call.on::<ConnectGetHostname>(|_, ()| {
        Ok(ConnectGetHostnameRet {
            hostname: "fake".into(),
        })
    });
    call.on::<ConnectGetUri>(|_, ()| {
        Ok(ConnectGetUriRet {
            uri: "qemu:///system".into(),
        })
    });
    call.on::<ConnectIsSecure>(|_, ()| Ok(ConnectIsSecureRet { secure: 1 }));
    call.on::<ConnectGetCapabilities>(|_, ()| {
        let arch =
            "<guest><os_type>hvm</os_type><arch name='x86_64'><domain type='kvm'/><domain type='qemu'/></arch></guest>";
        let xml = format!("<capabilities><host><cpu><arch>x86_64</arch></cpu></host>{arch}</capabilities>");
        Ok(ConnectGetCapabilitiesRet {
            capabilities: xml.into(),
        })
    });
    call.on::<ConnectGetDomainCapabilities>(|_, _| {
        let xml = "<domainCapabilities><domain>kvm</domain><arch>x86_64</arch></domainCapabilities>";
        Ok(ConnectGetDomainCapabilitiesRet {
            capabilities: xml.into(),
        })
    });
    call.on::<NodeGetInfo>(|world, ()| {
        let mut model = CharArray::default();
        for (to, from) in model.0.iter_mut().zip(b"x86_64") {
            *to = *from;
        }
        Ok(NodeGetInfoRet {
            model,
            memory: world.memory_kib,
            cpus: world.cpus,
            mhz: 3000,
            nodes: 1,
            sockets: 1,
            cores: world.cpus,
            threads: 1,
        })
    });
    call.on::<NodeGetFreeMemory>(|world, ()| {
        let free = world.memory_kib.saturating_sub(world.used_kib());
        Ok(NodeGetFreeMemoryRet { free_mem: free << 10 })
    });
}
