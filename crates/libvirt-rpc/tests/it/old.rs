//! Daemons that are too old for the calls of today.

use libvirt_rpc::{
    Connection,
    fake::{Daemon, Effect, Fault},
    wire::constant::{
        domain::{ConnectListAllDomainsFlags as Domains, DomainCreateFlags, DomainUndefineFlags as Undefine},
        network::ConnectListAllNetworksFlags as Networks,
        storage::ConnectListAllStoragePoolsFlags as Pools,
    },
};

use crate::support::{define, volume};

async fn without(calls: &[&str]) -> (Daemon, Connection) {
    let daemon = Daemon::new();
    for call in calls {
        daemon.inject(Fault::on(*call, Effect::Unknown));
    }
    let connection = daemon.connect().await.unwrap();
    (daemon, connection)
}

const LISTS: [&str; 6] = [
    "connect_list_all_domains",
    "connect_list_all_networks",
    "connect_list_all_storage_pools",
    "connect_list_all_secrets",
    "connect_list_all_node_devices",
    "storage_pool_list_all_volumes",
];

/// Row 19: vagrant-libvirt#716, webvirtcloud#230.
#[tokio::test]
async fn what_is_there_is_listed_by_name() {
    let (daemon, c) = without(&LISTS).await;
    let new = Daemon::new().connect().await.unwrap();
    for c in [&c, &new] {
        for name in ["on", "off"] {
            define(c, name).await;
        }
        let on = c.domain_lookup_by_name("on").await.unwrap();
        c.domain_create(&on, DomainCreateFlags::empty()).await.unwrap();
        let xml = "<network><name>other</name></network>";
        c.network_define(xml).await.unwrap();
        volume(c, "vol", 1000).await;
        c.secret_define("<secret private='no'/>").await.unwrap();
    }
    let names = |mut names: Vec<String>| {
        names.sort();
        names
    };
    for flags in [
        Domains::empty(),
        Domains::ACTIVE,
        Domains::INACTIVE,
        Domains::ACTIVE | Domains::INACTIVE,
    ] {
        let of = async |c: &Connection| {
            names(
                c.domains(flags)
                    .await
                    .unwrap()
                    .iter()
                    .map(|d| d.name.to_string())
                    .collect(),
            )
        };
        assert_eq!(of(&c).await, of(&new).await, "{flags:?}");
    }
    for flags in [Networks::empty(), Networks::ACTIVE, Networks::INACTIVE] {
        let of = async |c: &Connection| {
            names(
                c.networks(flags)
                    .await
                    .unwrap()
                    .iter()
                    .map(|n| n.name.to_string())
                    .collect(),
            )
        };
        assert_eq!(of(&c).await, of(&new).await, "{flags:?}");
    }
    for flags in [Pools::empty(), Pools::ACTIVE, Pools::INACTIVE] {
        let of = async |c: &Connection| {
            names(
                c.storage_pools(flags)
                    .await
                    .unwrap()
                    .iter()
                    .map(|p| p.name.to_string())
                    .collect(),
            )
        };
        assert_eq!(of(&c).await, of(&new).await, "{flags:?}");
    }
    let pool = c.storage_pool_lookup_by_name("default").await.unwrap();
    assert_eq!(c.storage_pool_volumes(&pool).await.unwrap()[0].name, "vol");
    assert_eq!(c.secrets(Default::default()).await.unwrap().len(), 1);
    assert_eq!(c.node_devices(Default::default()).await.unwrap().len(), 3);
    for list in LISTS {
        assert!(daemon.calls(list) == 0, "{list}");
    }
    // What the old way cannot tell is not guessed.
    let filtered = c.domains(Domains::PERSISTENT).await.unwrap_err();
    assert!(filtered.is_unsupported(), "{filtered}");
}

/// Row 19 again.
#[tokio::test]
async fn what_goes_away_while_it_is_listed_is_left_out() {
    let (daemon, c) = without(&["connect_list_all_domains"]).await;
    for name in ["stays", "goes"] {
        define(&c, name).await;
    }
    let gone = libvirt_rpc::wire::constant::error::ErrorNumber::ERR_NO_DOMAIN;
    daemon.inject(
        Fault::on(
            "domain_lookup_by_name",
            Effect::Refuse(gone, "Domain not found".to_owned()),
        )
        .times(1),
    );
    assert_eq!(c.domains(Domains::empty()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_domain_is_undefined_without_the_flags_that_are_not_known() {
    let daemon = Daemon::new();
    daemon.set_version(5_000_000);
    let c = daemon.connect().await.unwrap();
    let all = Undefine::MANAGED_SAVE | Undefine::SNAPSHOTS_METADATA | Undefine::NVRAM;
    let all = all | Undefine::CHECKPOINTS_METADATA | Undefine::TPM;
    let saved = c
        .domain_create(&define(&c, "web").await, DomainCreateFlags::empty())
        .await
        .unwrap();
    c.domain_managed_save(&saved, Default::default()).await.unwrap();
    c.domain_undefine(&saved, all).await.unwrap();
    assert!(daemon.domains().is_empty());
    assert_eq!(daemon.calls("domain_undefine_flags"), 2);
    // What it does know it still refuses to do unasked.
    let saved = c
        .domain_create(&define(&c, "web").await, DomainCreateFlags::empty())
        .await
        .unwrap();
    c.domain_managed_save(&saved, Default::default()).await.unwrap();
    let refused = c.domain_undefine(&saved, Undefine::TPM).await.unwrap_err();
    assert!(refused.to_string().contains("managed save image"), "{refused}");

    let (daemon, c) = without(&["domain_undefine_flags"]).await;
    let domain = define(&c, "web").await;
    assert!(
        c.domain_undefine(&domain, Undefine::NVRAM)
            .await
            .unwrap_err()
            .is_unsupported()
    );
    c.domain_undefine(&domain, Undefine::empty()).await.unwrap();
    assert_eq!(daemon.calls("domain_undefine"), 1);
}
