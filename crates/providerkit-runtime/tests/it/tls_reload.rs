//! Certificates that are renewed while we run.

use std::{fs, os::unix::fs::symlink};

use crate::{
    desk::{Process, counted, eventually},
    pki::{Authority, Files, Leaf},
    tls::serving,
};

async fn sees(process: &Process, authority: &Authority) -> bool {
    authority.connect(process.grpc, None).await.is_ok()
}

#[tokio::test]
async fn renewed_files_are_taken_for_new_connections_and_the_open_ones_stay() {
    let (old, new) = (Authority::new(), Authority::new());
    let files = Files::new(&old.server());
    let process = serving(&files, None).await;
    let open = old.connect(process.grpc, None).await.unwrap();
    assert!(!sees(&process, &new).await);
    let renewed = new.server();
    files.write("tls.crt", &renewed.certificate.pem());
    files.write("tls.key", &renewed.key.serialize_pem());
    eventually("the new certificate", async || sees(&process, &new).await).await;
    assert!(!sees(&process, &old).await);
    open.get("m").await.unwrap();
}

#[tokio::test]
async fn half_of_a_renewal_leaves_the_old_pair_in_use() {
    let (old, new) = (Authority::new(), Authority::new());
    let files = Files::new(&old.server());
    let process = serving(&files, None).await;
    let renewed = new.server();
    let refused = || counted("test_tls_reloads_total", r#"outcome="error""#);
    let before = refused();
    files.write("tls.crt", &renewed.certificate.pem());
    eventually("the half was seen", async || refused() > before).await;
    assert!(sees(&process, &old).await);
    files.write("tls.key", &renewed.key.serialize_pem());
    eventually("the new certificate", async || sees(&process, &new).await).await;
}

#[tokio::test]
async fn the_authority_of_clients_is_renewed_too() {
    let (ours, old, new) = (Authority::new(), Authority::new(), Authority::new());
    let files = Files::new(&ours.server());
    let process = serving(&files, Some(&old)).await;
    let [leaf, newer] = [&old, &new].map(|authority| authority.client(&["bigfleet://shard/a"]));
    ours.connect(process.grpc, Some(&leaf)).await.unwrap();
    assert!(ours.connect(process.grpc, Some(&newer)).await.is_err());
    files.write("ca.crt", &new.pem());
    eventually("the new authority", async || {
        ours.connect(process.grpc, Some(&newer)).await.is_ok()
    })
    .await;
    assert!(ours.connect(process.grpc, Some(&leaf)).await.is_err());
}

/// A Secret's files are links through `..data`, a link to a folder, which is what is exchanged.
#[tokio::test]
async fn the_swap_of_a_linked_folder_is_noticed() {
    let (old, new) = (Authority::new(), Authority::new());
    let files = Files::new(&old.server());
    let folder = |name: &str, leaf: &Leaf| {
        fs::create_dir(files.path(name)).unwrap();
        fs::write(files.path(name).join("tls.crt"), leaf.certificate.pem()).unwrap();
        fs::write(files.path(name).join("tls.key"), leaf.key.serialize_pem()).unwrap();
    };
    folder("..1", &old.server());
    symlink("..1", files.path("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        fs::remove_file(files.path(name)).unwrap();
        symlink(format!("..data/{name}"), files.path(name)).unwrap();
    }
    let process = serving(&files, None).await;
    assert!(sees(&process, &old).await);
    folder("..2", &new.server());
    symlink("..2", files.path("..data_tmp")).unwrap();
    fs::rename(files.path("..data_tmp"), files.path("..data")).unwrap();
    eventually("the new certificate", async || sees(&process, &new).await).await;
}
