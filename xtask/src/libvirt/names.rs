//! From libvirt's names to Rust's.

/// `domain_get_info` → `DomainGetInfo`; `virNetMessageHeader` keeps its humps.
pub(crate) fn camel(name: &str) -> String {
    name.split('_')
        .map(|word| {
            let mut chars = word.chars();
            chars.next().map_or_else(String::new, |first| {
                first.to_ascii_uppercase().to_string() + chars.as_str()
            })
        })
        .collect()
}

/// `callbackID` → `callback_id`.
pub(crate) fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut lower_before = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && lower_before {
            out.push('_');
        }
        lower_before = c.is_ascii_lowercase() || c.is_ascii_digit();
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// The Rust name of a field.
pub(crate) fn field(name: &str) -> String {
    match snake(name).as_str() {
        "type" => "kind".to_owned(),
        other => other.to_owned(),
    }
}

/// The Rust name of a struct, enum or union of a `.x` file.
pub(crate) fn item(name: &str) -> String {
    for prefix in ["virNetMessage", "virNet"] {
        if let Some(rest) = name.strip_prefix(prefix) {
            return match rest.strip_prefix("Nonnull") {
                Some(object) => format!("{object}Ref"),
                None if rest == "Type" || rest == "Status" || rest == "Header" || rest == "Error" => {
                    format!("Message{rest}")
                }
                None => rest.to_owned(),
            };
        }
    }
    let rest = ["remote_", "qemu_", "lxc_", "admin_"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name);
    match (rest, rest.strip_prefix("nonnull_")) {
        (_, Some(object)) => format!("{}Ref", camel(object)),
        ("error", _) => "RemoteError".to_owned(),
        // Elements of a list, named like the call that returns it.
        ("node_get_cpu_stats", _) => "NodeCpuStat".to_owned(),
        ("node_get_memory_stats", _) => "NodeMemoryStat".to_owned(),
        (_, None) => camel(rest),
    }
}

/// `virDomainState` → `DomainState`, `virDomainDestroyFlagsValues` → `DomainDestroyFlags`.
pub(crate) fn c_enum(name: &str) -> String {
    let name = name.strip_prefix("vir").unwrap_or(name);
    match name.strip_suffix("FlagValues") {
        Some(name) => format!("{name}Flags"),
        None => name.strip_suffix("Values").unwrap_or(name).to_owned(),
    }
}

/// The values of one enumeration without the words they all begin with.
pub(crate) fn c_values<'a>(owner: &str, names: &[&'a str]) -> Vec<&'a str> {
    let words: Vec<Vec<&str>> = names.iter().map(|n| n.split('_').collect()).collect();
    let shortest = words.iter().map(Vec::len).min().unwrap_or(0);
    let same = |count: usize| {
        let first = words.first().and_then(|w| w.get(..count));
        words.iter().all(|w| w.get(..count) == first)
    };
    let mut shared = (0..shortest).rev().find(|count| same(*count)).unwrap_or(0);
    if let [only] = words.as_slice() {
        // Nothing to compare with: the words of the enumeration's own name are the shared ones.
        let squeezed = owner.to_uppercase();
        shared = (1..shortest)
            .rev()
            .find(|count| squeezed.starts_with(&only.get(..*count).unwrap_or_default().concat()))
            .unwrap_or(0);
    }
    let begins_with_digit = |shared: usize| {
        words.iter().any(|w| {
            w.get(shared)
                .is_none_or(|w| w.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    while shared > 0 && begins_with_digit(shared) {
        shared -= 1;
    }
    names
        .iter()
        .map(|name| {
            let cut = name.split('_').take(shared).map(|w| w.len() + 1).sum::<usize>();
            name.get(cut..).unwrap_or(name)
        })
        .collect()
}

/// The object a procedure belongs to: the file it is written to.
pub(crate) fn object(procedure: &str) -> &'static str {
    const OBJECTS: [&str; 16] = [
        "auth",
        "connect",
        "domain_checkpoint",
        "domain_event",
        "domain_snapshot",
        "domain",
        "interface",
        "network_port",
        "network",
        "node_device",
        "node",
        "nwfilter_binding",
        "nwfilter",
        "secret",
        "storage_pool",
        "storage_vol",
    ];
    OBJECTS
        .into_iter()
        .find(|object| procedure.starts_with(object))
        .unwrap_or("connect")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_like_rust() {
        assert_eq!(item("remote_nonnull_storage_vol"), "StorageVolRef");
        assert_eq!(item("remote_domain_get_info_ret"), "DomainGetInfoRet");
        assert_eq!(item("virNetMessageNonnullDomain"), "DomainRef");
        assert_eq!(item("virNetStreamHole"), "StreamHole");
        assert_eq!(field("nrVirtCpu"), "nr_virt_cpu");
        assert_eq!(field("type"), "kind");
        assert_eq!(object("node_device_update"), "node_device");
        assert_eq!(object("node_get_info"), "node");
    }

    #[test]
    fn shared_words_go_unless_a_digit_would_be_first() {
        assert_eq!(c_values("virA", &["VIR_A_B", "VIR_A_C"]), ["B", "C"]);
        assert_eq!(c_values("virA", &["VIR_A_1", "VIR_A_C"]), ["A_1", "A_C"]);
        assert_eq!(c_values("virA", &["VIR_A", "VIR_A_C"]), ["A", "A_C"]);
        assert_eq!(c_values("virOneFlags", &["VIR_ONE_SPARSE_STREAM"]), ["SPARSE_STREAM"]);
        assert_eq!(c_enum("virDomainShutdownFlagValues"), "DomainShutdownFlags");
    }
}
