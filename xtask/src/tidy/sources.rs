//! Which names may appear in which sources.

use super::Finding;

/// Names that must not appear under a folder, but for some files.
struct Ban {
    under: &'static str,
    /// Beginnings of paths below `under`.
    except: &'static [&'static str],
    /// Each stands for itself and for every name that goes on from it with an underscore.
    names: &'static [&'static str],
    why: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        under: "crates/providerkit/src/",
        except: &["service", "convert"],
        names: &["tonic", "prost"],
        why: "only service and convert know the wire",
    },
    Ban {
        under: "crates/libvirt-rpc/src/wire/",
        except: &[],
        names: OUTSIDE_WORLD,
        why: "the wire is sans-I/O: no runtime, no clock, no file system",
    },
    Ban {
        under: "crates/cloud-init/src/",
        except: &[],
        names: OUTSIDE_WORLD,
        why: "the same input gives the same bytes: no runtime, no clock, no file system",
    },
];

const OUTSIDE_WORLD: &[&str] = &["tokio", "fs", "Instant", "SystemTime", "TcpStream", "UnixStream"];

/// Every name in a place it is banned from.
pub(super) fn check(place: &str, text: &str) -> Vec<Finding> {
    let bans: Vec<&Ban> = BANS.iter().filter(|ban| ban.covers(place)).collect();
    let mut findings = Vec::new();
    // Tests stand last in a file, and may look at what they test from outside.
    let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
    for (number, line) in code.enumerate() {
        for ban in &bans {
            for name in ban.names.iter().filter(|name| mentions(line, name)) {
                let place = format!("{place}:{}", number + 1);
                findings.push(Finding::new(place, format!("names `{name}`; {}", ban.why)));
            }
        }
    }
    findings
}

impl Ban {
    fn covers(&self, place: &str) -> bool {
        place
            .strip_prefix(self.under)
            .is_some_and(|below| below.ends_with(".rs") && !self.except.iter().any(|start| below.starts_with(start)))
    }
}

fn mentions(line: &str, name: &str) -> bool {
    without_comment(line)
        .split(|symbol: char| !symbol.is_alphanumeric() && symbol != '_')
        .filter_map(|word| word.strip_prefix(name))
        .any(|rest| rest.is_empty() || rest.starts_with('_'))
}

fn without_comment(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_does_not_know_the_wire() {
        let code = "use tonic::Status;\nuse tonic_prost::X; // why\nuse prost::Message as _;\n";
        assert_eq!(check("crates/providerkit/src/engine/list.rs", code).len(), 3);
        for place in [
            "crates/providerkit/src/service.rs",
            "crates/providerkit/src/service/mutate.rs",
            "crates/providerkit/src/convert.rs",
            "crates/providerkit/tests/it/main.rs",
            "crates/providerkit-runtime/src/serve.rs",
        ] {
            assert_eq!(check(place, code), [], "{place}");
        }
    }

    #[test]
    fn comments_longer_words_and_tests_do_not_count() {
        let code = "//! Not a tonic.\nlet monotonic = 1; // tonic\nlet prosthesis = 2;\n\
                    #[cfg(test)]\nmod tests {\n    use prost::Message as _;\n}\n";
        assert_eq!(check("crates/providerkit/src/fence.rs", code), []);
    }

    #[test]
    fn bytes_are_made_without_the_outside_world() {
        let code = "use std::{fs, time::Instant};\n";
        for place in ["crates/libvirt-rpc/src/wire/xdr.rs", "crates/cloud-init/src/iso.rs"] {
            assert_eq!(check(place, code).len(), 2, "{place}");
            assert_eq!(check(place, "let offset = size;\n"), [], "{place}");
        }
        assert_eq!(check("crates/libvirt-rpc/src/client.rs", code), []);
    }
}
