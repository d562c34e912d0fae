//! How the provider is started on the hosts of a lab.

use std::path::Path;

use super::Host;

/// The size of machine that fits the tiny image.
const SIZE: &str = "tiny";
const MEMORY_MIB: u32 = 256;

/// The provider's arguments that make it serve these hosts, with so many slots in each zone.
pub(crate) fn arguments(hosts: &[Host], slots: u32) -> Vec<String> {
    let connect: Vec<String> = hosts
        .iter()
        .map(|host| format!("{}={}", host.zone(), host.uri()))
        .collect();
    let offerings = hosts.iter().map(|host| {
        let zone = host.zone();
        format!(r#"{{"instance_type":"{SIZE}","zone":"{zone}","count":{slots}}}"#)
    });
    let offerings = offerings.collect::<Vec<_>>().join(",");
    let set = [
        // There may be no KVM here.
        "machine.accelerator=qemu".to_owned(),
        format!(r#"capacity.instance_types={{"{SIZE}":{{"vcpu":1,"memory_mib":{MEMORY_MIB}}}}}"#),
        format!("capacity.offerings=[{offerings}]"),
        // All hosts are this machine, which does other work, too.
        "budget.cpu_overcommit=100".to_owned(),
        "budget.memory_reserve_mib=512".to_owned(),
        "budget.pool_reserve_gib=0".to_owned(),
    ];
    let mut arguments = vec![
        format!("--connect={}", connect.join(",")),
        "--image=tiny.qcow2".to_owned(),
    ];
    arguments.extend(set.iter().map(|pair| format!("--set={pair}")));
    arguments
}

/// Says how to serve the hosts, how to walk their machines, and how to look at them.
pub(super) fn explain(folder: &Path, hosts: &[Host]) {
    for host in hosts {
        println!("{}  {}  {}", host.name(), host.zone(), host.uri());
    }
    let state = folder.join("state.db");
    let mut lines = vec![
        "cargo run -p libvirt-provider --".to_owned(),
        "--addr=127.0.0.1:9000 --provider=lab".to_owned(),
        quoted(&format!("--state={}", state.display())),
    ];
    lines.extend(arguments(hosts, 8).iter().map(|argument| quoted(argument)));
    println!("\nTo serve them:\n\n  {}", lines.join(" \\\n    "));
    println!(
        "\nTo walk their machines through their life, beside it:\n\n  cargo run -p libvirt-provider --example demo -- \
         --addr 127.0.0.1:9000 --machines 4 --limit 900"
    );
    if let Some(host) = hosts.first() {
        println!("\nTo look at one:\n\n  virsh -c {} list --all", quoted(&host.uri()));
    }
    println!("\n`cargo xtask lab status` shows all of it, `cargo xtask lab down` ends and removes it.");
}

/// As a shell takes it.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_arguments_as_they_are() {
        assert_eq!(quoted("--addr=127.0.0.1:9000"), "--addr=127.0.0.1:9000");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn every_host_is_a_zone_that_has_slots() {
        let hosts = [1, 2].map(|number| Host::new(Path::new("/l"), number));
        let arguments = arguments(&hosts, 3);
        assert_eq!(
            arguments[0],
            "--connect=zone-1=qemu+unix:///system?socket=/l/host-1/run/libvirt-sock,\
             zone-2=qemu+unix:///system?socket=/l/host-2/run/libvirt-sock"
        );
        let offerings = arguments
            .iter()
            .find(|argument| argument.contains("offerings"))
            .unwrap();
        for zone in ["zone-1", "zone-2"] {
            assert!(
                offerings.contains(&format!(r#""zone":"{zone}","count":3"#)),
                "{offerings}"
            );
        }
    }
}
