//! Who called, as far as TLS knows.

use std::net::SocketAddr;

use providerkit_backend::ShardId;

/// The identity behind a call. The server that terminated TLS puts it into the request's extensions; where it is
/// absent (plaintext, or TLS without client certificates) no identity is checked.
///
/// ADR-0048: a shard's certificate carries exactly one `bigfleet://` URI SAN, `bigfleet://shard/<shard_id>`, and a
/// mutating call must come from the shard it names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caller {
    /// The certificate names this shard.
    Shard(ShardId),
    /// The certificate names no shard, with the reason: every mutating call is refused.
    Unidentified(String),
}

impl Caller {
    /// Whether this caller may speak for the shard.
    ///
    /// # Errors
    /// The text of the `PERMISSION_DENIED` answer.
    pub fn speaks_for(&self, shard: &str) -> Result<(), String> {
        match self {
            Self::Shard(own) if own.as_str() == shard => Ok(()),
            Self::Shard(own) => Err(format!(
                "the client certificate names shard `{own}`, the request shard `{shard}`"
            )),
            Self::Unidentified(why) => Err(format!("the client certificate names no shard: {why}")),
        }
    }
}

/// Where a call came from; the server puts it into the request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_speaks_for_its_own_shard_only() {
        let caller = Caller::Shard(ShardId::new("a").unwrap());
        assert_eq!(caller.speaks_for("a"), Ok(()));
        assert!(caller.speaks_for("b").unwrap_err().contains("`a`"));
        assert!(caller.speaks_for("").is_err());
        assert!(Caller::Unidentified("two".into()).speaks_for("a").is_err());
    }
}
