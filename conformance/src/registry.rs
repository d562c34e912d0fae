//! All behaviours.

use crate::{baseline, behaviour::Behaviour, behaviours, extension};

/// The 93 registered behaviours, the 25 tests of the baseline, and the extensions, in this order.
#[must_use]
pub fn all() -> Vec<Behaviour> {
    let mut all = behaviours::all();
    all.extend(baseline::all());
    all.extend(extension::all());
    all
}

/// The behaviour of this id; ids of the baseline also without their beginning.
#[must_use]
pub fn find(id: &str) -> Option<Behaviour> {
    let wanted = id.to_ascii_lowercase();
    all().into_iter().find(|behaviour| {
        let own = behaviour.id.to_ascii_lowercase();
        own == wanted || own.strip_prefix("testconformance_") == Some(&wanted)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::behaviour::{Area, Capability, Profile};

    fn registered() -> Vec<Behaviour> {
        all().into_iter().filter(|one| one.id.starts_with('B')).collect()
    }

    fn count(holds: impl Fn(&Behaviour) -> bool) -> usize {
        registered().iter().filter(|one| holds(one)).count()
    }

    /// Contract §12.4.
    #[test]
    fn the_counts_are_those_of_the_contract() {
        assert_eq!(registered().len(), 93);
        let areas: BTreeSet<_> = registered().iter().map(|one| one.area).collect();
        assert_eq!(areas.len(), 11);
        let by_profile = |profile| count(|one| one.profiles.contains(&profile));
        assert_eq!(by_profile(Profile::Core), 69);
        assert_eq!(by_profile(Profile::Cloud), 5);
        assert_eq!(by_profile(Profile::Spot), 1);
        assert_eq!(by_profile(Profile::Fault), 8);
        assert_eq!(by_profile(Profile::Durable), 7);
        assert_eq!(by_profile(Profile::Scale), 9);
        assert_eq!(by_profile(Profile::BareMetal), 0);
        let needing = |capability| count(|one| one.needs == capability);
        assert_eq!(needing(None), 60);
        assert_eq!(needing(Some(Capability::Delete)), 3);
        assert_eq!(needing(Some(Capability::SinceRevision)), 6);
        assert_eq!(needing(Some(Capability::Fault)), 8);
        assert_eq!(needing(Some(Capability::Durable)), 7);
        assert_eq!(needing(Some(Capability::Scale)), 9);
    }

    #[test]
    fn the_baseline_has_25_tests() {
        assert_eq!(all().iter().filter(|one| one.is_baseline()).count(), 25);
        assert!(
            all()
                .iter()
                .filter(|one| one.is_baseline())
                .all(|one| one.area == Area::Baseline)
        );
    }

    #[test]
    fn ids_are_unique_and_every_text_is_there() {
        let all = all();
        let ids: BTreeSet<_> = all.iter().map(|one| one.id).collect();
        assert_eq!(ids.len(), all.len());
        for one in &all {
            for text in [one.title, one.why, one.how] {
                assert!(text.len() > 15, "{}: {text:?}", one.id);
            }
        }
    }

    #[test]
    fn extensions_have_their_own_letter_and_profile() {
        for one in all() {
            let ours = one.profiles == [Profile::Extension] || one.profiles == [Profile::Soak];
            assert_eq!(one.id.starts_with('X'), ours, "{}", one.id);
        }
    }

    #[test]
    fn baseline_tests_are_found_by_their_short_name() {
        assert_eq!(find("fulllifecycle").unwrap().id, "TestConformance_FullLifecycle");
        assert_eq!(find("b302").unwrap().id, "B302");
        assert!(find("B102").is_none());
    }
}
