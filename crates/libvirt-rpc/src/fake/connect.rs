//! Opening, and who is there.

use super::{call::Call, network_update::CORRECT_ORDER};
use crate::wire::remote::{
    auth::{AuthList, AuthListRet},
    connect::{
        ConnectClose, ConnectGetHostname, ConnectGetHostnameRet, ConnectGetLibVersion, ConnectGetLibVersionRet,
        ConnectGetType, ConnectGetTypeRet, ConnectGetUri, ConnectGetUriRet, ConnectGetVersion, ConnectGetVersionRet,
        ConnectIsSecure, ConnectIsSecureRet, ConnectOpen, ConnectSupportsFeature, ConnectSupportsFeatureRet,
    },
    record::AuthType,
};

/// The feature of daemons that take the arguments of a network's update in their right order.
const UPDATE_HAS_CORRECT_ORDER: i32 = 16;

pub(super) fn answer(call: &mut Call<'_>) {
    call.on::<AuthList>(|_, ()| {
        Ok(AuthListRet {
            types: vec![AuthType::NONE],
        })
    });
    call.on::<ConnectOpen>(|_, _| Ok(()));
    call.on::<ConnectClose>(|_, ()| Ok(()));
    call.on::<ConnectSupportsFeature>(|world, args| {
        let supported = args.feature != UPDATE_HAS_CORRECT_ORDER || world.host.version >= CORRECT_ORDER;
        Ok(ConnectSupportsFeatureRet {
            supported: supported.into(),
        })
    });
    call.on::<ConnectGetType>(|_, ()| Ok(ConnectGetTypeRet { kind: "QEMU".into() }));
    call.on::<ConnectGetVersion>(|_, ()| Ok(ConnectGetVersionRet { hv_ver: 10_000_000 }));
    call.on::<ConnectGetLibVersion>(|world, ()| {
        Ok(ConnectGetLibVersionRet {
            lib_ver: world.host.version,
        })
    });
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
}
