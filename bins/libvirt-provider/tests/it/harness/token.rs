//! Fencing tokens.

/// A shard of BigFleet, the maker of tokens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shard(String);

impl Shard {
    pub(crate) fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    pub(crate) fn at(&self, epoch: i64, sequence: i64) -> Token {
        Token {
            shard: self.0.clone(),
            epoch,
            sequence,
        }
    }
}

/// What a mutating call carries; the default is the zero token, which is never fenced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) shard: String,
    pub(crate) epoch: i64,
    pub(crate) sequence: i64,
}

impl Token {
    /// The zero token.
    pub(crate) fn unfenced() -> Self {
        Self::default()
    }

    /// What tokens of one shard are compared by.
    pub(crate) fn position(&self) -> (i64, i64) {
        (self.epoch, self.sequence)
    }
}
