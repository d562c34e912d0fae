//! How long a file may get.

use super::Finding;

/// Any Rust file people wrote. Aim at 100 to 200 lines; look twice at 400.
const FILE: usize = 600;
/// A `lib.rs` is a table of contents; the `main.rs` of a binary wires things up.
const ENTRANCE: usize = 120;

/// A file that is longer than its kind may be.
pub(super) fn check(place: &str, text: &str) -> Option<Finding> {
    if !place.ends_with(".rs") {
        return None;
    }
    let lines = text.lines().count();
    let limit = if is_entrance(place) { ENTRANCE } else { FILE };
    (lines > limit).then(|| Finding::new(place, format!("{lines} lines; at most {limit}")))
}

fn is_entrance(place: &str) -> bool {
    place.ends_with("src/lib.rs") || place.starts_with("bins/") && place.ends_with("src/main.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_file_has_its_limit() {
        for (place, limit) in [
            ("crates/x/src/engine.rs", 600),
            ("crates/x/tests/it/main.rs", 600),
            ("crates/x/src/lib.rs", 120),
            ("bins/x/src/main.rs", 120),
        ] {
            assert_eq!(check(place, &"\n".repeat(limit)), None, "{place}");
            assert!(check(place, &"\n".repeat(limit + 1)).is_some(), "{place}");
        }
        assert_eq!(check("docs/long.md", &"\n".repeat(5_000)), None);
    }
}
