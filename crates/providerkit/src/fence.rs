//! The fencing rule (contract §4): a token passes when it is newer than the newest its shard used on this machine.
//!
//! Tokens compare lexicographically as signed numbers, negative ones included (trap 2). The first token of a shard on
//! a machine passes whatever its numbers. An empty `shard_id` means unfenced, whatever the numbers: the call is let
//! through and leaves no mark, as BigFleet's in-tree implementation has it (contract §16.7).

use providerkit_backend::ShardId;

/// The newest token seen: epoch first, then sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// The shard's incarnation.
    pub epoch: i64,
    /// Its counter within the incarnation.
    pub sequence: i64,
}

/// A fenced call's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Who calls.
    pub shard: ShardId,
    /// How new the call is.
    pub mark: Mark,
}

impl Token {
    /// The token of a request; `None` for an unfenced one.
    #[must_use]
    pub fn new(shard: &str, epoch: i64, sequence: i64) -> Option<Self> {
        let shard = ShardId::new(shard).ok()?;
        Some(Self {
            shard,
            mark: Mark { epoch, sequence },
        })
    }
}

/// Which part of a token was too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stale {
    /// The epoch is older.
    Epoch,
    /// The epoch is the same, the sequence number not newer.
    Sequence,
}

impl Stale {
    /// The metric's label.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Epoch => "stale_epoch",
            Self::Sequence => "stale_sequence",
        }
    }
}

/// Whether a token passes the mark that is there.
///
/// # Errors
/// When it is not newer.
pub fn check(mark: Option<Mark>, token: Mark) -> Result<(), Stale> {
    match mark {
        Some(mark) if token.epoch < mark.epoch => Err(Stale::Epoch),
        Some(mark) if token <= mark => Err(Stale::Sequence),
        _ => Ok(()),
    }
}

/// The marks of one machine, one a shard. Few shards ever touch a machine, so a list is smaller than a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(Box<[(ShardId, Mark)]>);

impl Marks {
    /// The mark of a shard.
    #[must_use]
    pub fn of(&self, shard: &ShardId) -> Option<Mark> {
        self.0.iter().find(|(known, _)| known == shard).map(|(_, mark)| *mark)
    }

    /// Sets the mark of a shard.
    pub fn advance(&mut self, shard: &ShardId, mark: Mark) {
        if let Some((_, known)) = self.0.iter_mut().find(|(known, _)| known == shard) {
            *known = mark;
        } else {
            let mut marks = std::mem::take(&mut self.0).into_vec();
            marks.reserve_exact(1);
            marks.push((shard.clone(), mark));
            self.0 = marks.into_boxed_slice();
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &(ShardId, Mark)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mark(epoch: i64, sequence: i64) -> Mark {
        Mark { epoch, sequence }
    }

    #[test]
    fn the_first_contact_passes_whatever_its_numbers() {
        for token in [
            mark(0, 0),
            mark(-1, 1),
            mark(i64::MIN, i64::MIN),
            mark(i64::MAX, i64::MAX),
        ] {
            assert_eq!(check(None, token), Ok(()));
        }
    }

    #[test]
    fn only_a_newer_token_passes() {
        // The sequence of behaviour B303.
        let steps = [
            ((2, 5), true),
            ((2, 5), false),
            ((2, 4), false),
            ((1, 99_999), false),
            ((2, 6), true),
            ((3, 0), true),
            ((2, 999_999), false),
            ((3, 1), true),
            ((4, -7), true),
            ((4, -8), false),
            ((i64::MAX, i64::MAX), true),
            ((i64::MAX, i64::MAX), false),
            ((i64::MAX - 1, i64::MAX), false),
        ];
        let mut newest = None;
        for ((epoch, sequence), passes) in steps {
            let token = mark(epoch, sequence);
            assert_eq!(check(newest, token).is_ok(), passes, "{token:?} against {newest:?}");
            if passes {
                newest = Some(token);
            }
        }
    }

    #[test]
    fn an_empty_shard_is_unfenced() {
        assert_eq!(Token::new("", 5, 7), None);
        assert_eq!(Token::new("s", 0, 0).unwrap().mark, mark(0, 0));
    }

    proptest! {
        #[test]
        fn check_is_the_strict_order_of_pairs(a: (i64, i64), b: (i64, i64)) {
            prop_assert_eq!(check(Some(mark(a.0, a.1)), mark(b.0, b.1)).is_ok(), b > a);
        }

        #[test]
        fn marks_of_shards_do_not_interact(tokens in prop::collection::vec((0..4_u8, any::<i64>(), any::<i64>()), 0..40)) {
            let mut marks = Marks::default();
            let mut model = std::collections::HashMap::new();
            for (shard, epoch, sequence) in tokens {
                let shard = ShardId::new(format!("s{shard}")).unwrap();
                prop_assert_eq!(marks.of(&shard), model.get(&shard).copied());
                marks.advance(&shard, mark(epoch, sequence));
                model.insert(shard, mark(epoch, sequence));
            }
            prop_assert_eq!(marks.iter().count(), model.len());
        }
    }
}
