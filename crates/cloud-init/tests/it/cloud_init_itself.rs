//! Seeds as cloud-init's own code reads them.

use std::{fs, io::Write as _, path::PathBuf, process::Command};

use cloud_init::{Hostname, InstanceId, MetaData, NetworkConfig, Nic, Part, Seed, UserData, VendorData};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::{
    reader,
    tools::{has, output},
    unpacked::unpacked,
};

const SCRIPT: &str = include_str!("cloud_init_itself.py");

/// cloud-init, and what it imports. Unpacked, never installed: an installed one takes over the machine's next boot.
const PACKAGES: &[&str] = &[
    "cloud-init",
    "python3-attr",
    "python3-certifi",
    "python3-chardet",
    "python3-configobj",
    "python3-idna",
    "python3-jinja2",
    "python3-json-pointer",
    "python3-jsonpatch",
    "python3-jsonschema",
    "python3-markupsafe",
    "python3-netifaces",
    "python3-oauthlib",
    "python3-pyrsistent",
    "python3-requests",
    "python3-serial",
    "python3-six",
    "python3-urllib3",
    "python3-yaml",
];

/// Where cloud-init's modules are.
fn modules(test: &str) -> Option<PathBuf> {
    if !has(test, "python3", "python3") {
        return None;
    }
    Some(unpacked(test, "cloud-init", PACKAGES)?.join("usr/lib/python3/dist-packages"))
}

fn meta() -> MetaData {
    MetaData::new(InstanceId::new("m1-1").unwrap(), Hostname::new("web-1").unwrap())
        .with("zone", "rack \"1\" é")
        .unwrap()
}

/// What cloud-init makes of a seed, which went through the image.
fn read(test: &str, seed: &Seed) -> Option<Value> {
    let modules = modules(test)?;
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("seed/nocloud");
    fs::create_dir_all(&files).unwrap();
    for (name, file) in reader::read(&seed.image().unwrap().to_vec()).rock_ridge {
        fs::write(files.join(name), file.content).unwrap();
    }
    let mut python = Command::new("/usr/bin/python3");
    python
        .env("PYTHONPATH", modules)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["-c", SCRIPT])
        .arg(folder.path());
    let read: Value = serde_json::from_slice(&output(&mut python)).unwrap();
    assert_eq!(read["warnings"], json!([]), "{read:#}");
    Some(read)
}

fn user(document: impl Into<bytes::Bytes>) -> UserData {
    UserData::new(document).unwrap()
}

fn gzip(content: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

const CONFIG: &str = "#cloud-config\nhostname: theirs\npackages: [jq]\nruncmd: [[echo, theirs]]\nwrite_files:\n- {path: /a, content: ä}\n";
const OURS: &str = "#cloud-config\nhostname: ours\npackages: [git]\nruncmd: [[echo, ours]]\nfqdn: ours.example\n";
const SCRIPT_OF_OURS: &str = "#!/bin/sh\necho ours\n";

fn our_config() -> Part {
    Part::new("50-ours", OURS).unwrap()
}

fn our_script() -> Part {
    Part::new("60-ours", SCRIPT_OF_OURS).unwrap()
}

#[test]
fn it_takes_the_disk_for_a_seed_and_knows_who_it_is() {
    let Some(read) = read("cloud-init", &Seed::new(meta(), UserData::none())) else {
        return;
    };
    assert_eq!(read["meta"]["instance-id"], "m1-1");
    assert_eq!(read["meta"]["local-hostname"], "web-1");
    assert_eq!(read["meta"]["zone"], "rack \"1\" é");
    assert_eq!(read["config"], json!({}));
}

#[test]
fn it_puts_our_vendor_data_below_the_operators_user_data() {
    let vendor = VendorData::new(vec![our_config(), our_script()]);
    let Some(read) = read("cloud-init", &Seed::new(meta(), user(CONFIG)).vendor_data(vendor)) else {
        return;
    };
    assert_eq!(read["config"]["hostname"], "theirs");
    assert_eq!(read["config"]["packages"], json!(["jq"]));
    assert_eq!(read["config"]["fqdn"], "ours.example");
    assert_eq!(read["vendor_scripts"], json!({"60-ours": SCRIPT_OF_OURS}));
}

#[test]
fn it_runs_a_lone_script_of_vendor_data() {
    let vendor = VendorData::new(vec![our_script()]);
    let Some(read) = read("cloud-init", &Seed::new(meta(), user(CONFIG)).vendor_data(vendor)) else {
        return;
    };
    assert_eq!(read["vendor_scripts"], json!({"part-001": SCRIPT_OF_OURS}));
}

#[test]
fn it_sees_the_operators_part_and_ours_and_theirs_wins() {
    let both = user(CONFIG).with(our_config()).with(our_script());
    let Some(read) = read("cloud-init", &Seed::new(meta(), both)) else {
        return;
    };
    let config = &read["config"];
    assert_eq!(config["hostname"], "theirs", "{read:#}");
    assert_eq!(config["packages"], json!(["jq", "git"]));
    assert_eq!(config["runcmd"], json!([["echo", "theirs"], ["echo", "ours"]]));
    assert_eq!(config["write_files"], json!([{"path": "/a", "content": "ä"}]));
    assert_eq!(config["fqdn"], "ours.example");
    assert_eq!(read["scripts"], json!({"60-ours": SCRIPT_OF_OURS}));
}

#[test]
fn it_runs_the_operators_script_as_it_was_beside_ours() {
    let binary = "#!/bin/sh\necho 'ä'\nprintf '\u{1}'\n--x--";
    let Some(read) = read("cloud-init", &Seed::new(meta(), user(binary).with(our_script()))) else {
        return;
    };
    assert_eq!(read["scripts"], json!({"60-ours": SCRIPT_OF_OURS, "user-data": binary}));
}

#[test]
fn it_finds_every_part_of_the_operators_own_message() {
    let theirs = "Content-Type: multipart/mixed; boundary=\"===x==\"\nMIME-Version: 1.0\n\n--===x==\n\
                  Content-Type: text/cloud-config\n\n#cloud-config\npackages: [jq]\nhostname: theirs\n\n--===x==\n\
                  Content-Type: text/x-shellscript\nContent-Transfer-Encoding: base64\n\
                  Content-Disposition: attachment; filename=\"theirs.sh\"\n\nIyEvYmluL3NoCmVjaG8gdGhlaXJzCg==\n--===x==--\n";
    for theirs in [
        theirs.as_bytes().to_vec(),
        gzip(theirs),
        theirs.replace('\n', "\r\n").into_bytes(),
    ] {
        let both = user(theirs).with(our_config()).with(our_script());
        let Some(read) = read("cloud-init", &Seed::new(meta(), both)) else {
            return;
        };
        assert_eq!(read["config"]["packages"], json!(["jq", "git"]), "{read:#}");
        assert_eq!(read["config"]["hostname"], "theirs");
        assert_eq!(
            read["scripts"],
            json!({"60-ours": SCRIPT_OF_OURS, "theirs.sh": "#!/bin/sh\necho theirs\n"})
        );
    }
}

#[test]
fn it_unpacks_compressed_user_data_alone_and_beside_ours() {
    let Some(alone) = read("cloud-init", &Seed::new(meta(), user(gzip(CONFIG)))) else {
        return;
    };
    assert_eq!(alone["config"]["hostname"], "theirs");
    let both = user(gzip(CONFIG)).with(our_config());
    let both = read("cloud-init", &Seed::new(meta(), both)).unwrap();
    assert_eq!(both["config"]["packages"], json!(["jq", "git"]), "{both:#}");
    assert_eq!(both["config"]["hostname"], "theirs");
}

#[test]
fn it_fills_in_the_operators_template_beside_ours() {
    let template = "## template: jinja\n#cloud-config\nhostname: h-{{ ds.meta_data.local_hostname }}\n";
    let Some(read) = read("cloud-init", &Seed::new(meta(), user(template).with(our_config()))) else {
        return;
    };
    assert_eq!(read["config"]["hostname"], "h-web-1", "{read:#}");
    assert_eq!(read["config"]["packages"], json!(["git"]));
}

#[test]
fn every_renderer_brings_up_each_network_card_by_its_mac() {
    let macs = ["52:54:00:00:00:01", "52:54:00:00:00:02"].map(|mac| mac.parse().unwrap());
    let fixed = Nic::fixed(
        macs[1],
        vec!["192.0.2.7/24".parse().unwrap(), "2001:db8::7/64".parse().unwrap()],
    )
    .gateway("192.0.2.1".parse().unwrap())
    .gateway("2001:db8::1".parse().unwrap())
    .route("198.51.100.0/24".parse().unwrap(), "192.0.2.2".parse().unwrap())
    .nameserver("192.0.2.53".parse().unwrap())
    .search("lab.example")
    .unwrap()
    .mtu(1400)
    .unwrap();
    let network = NetworkConfig::new(vec![Nic::dhcp(macs[0]), fixed]).unwrap();
    let Some(read) = read(
        "cloud-init",
        &Seed::new(meta(), UserData::none()).network_config(network),
    ) else {
        return;
    };
    let rendered = |name: &str| read["rendered"][name].as_str().unwrap().to_owned();
    for (renderer, expected) in [
        (
            "netplan",
            &[
                "dhcp-identifier: mac",
                "macaddress: '52:54:00:00:00:02'",
                "to: 0.0.0.0/0",
                "gateway6: 2001:db8::1",
            ][..],
        ),
        (
            "networkd",
            &[
                "MACAddress=52:54:00:00:00:01",
                "DHCP=ipv4",
                "Gateway=2001:db8::1",
                "Destination=198.51.100.0/24",
                "MTUBytes=1400",
            ],
        ),
        (
            "eni",
            &[
                "inet dhcp",
                "address 192.0.2.7/24",
                "gateway 2001:db8::1",
                "default gw 192.0.2.1",
                "mtu 1400",
            ],
        ),
        (
            "sysconfig",
            &[
                "HWADDR=52:54:00:00:00:01",
                "BOOTPROTO=dhcp",
                "IPADDR=192.0.2.7",
                "IPV6_DEFAULTGW=2001:db8::1",
                "MTU=1400",
            ],
        ),
    ] {
        let text = rendered(renderer);
        for expected in expected {
            assert!(text.contains(expected), "{expected} of {renderer} in\n{text}");
        }
        assert!(
            !text.contains("::/64 via") && !text.contains("Destination=::/64"),
            "{text}"
        );
    }
}
