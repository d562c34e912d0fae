//! Names that travel between BigFleet, the engine and a backend.

use std::{borrow::Borrow, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// A name that must not be empty was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} must not be empty")]
pub struct EmptyName(pub(crate) &'static str);

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes any non-empty text as it is: BigFleet's names are opaque and compared byte for byte.
            ///
            /// # Errors
            /// [`EmptyName`] when there is nothing in it.
            pub fn new(name: impl Into<Arc<str>>) -> Result<Self, EmptyName> {
                let name = name.into();
                if name.is_empty() { Err(EmptyName($what)) } else { Ok(Self(name)) }
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = EmptyName;

            fn try_from(name: String) -> Result<Self, EmptyName> {
                Self::new(name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name! {
    /// The id BigFleet knows a machine by; the same through all its cycles.
    MachineId, "machine_id"
}

name! {
    /// The cluster a machine is bound to.
    ClusterId, "cluster_id"
}

name! {
    /// The shard of BigFleet that sent a fencing token.
    ShardId, "shard_id"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_name_is_refused_by_its_wire_name() {
        assert_eq!(
            MachineId::new("").unwrap_err().to_string(),
            "machine_id must not be empty"
        );
        assert_eq!(
            ClusterId::new("").unwrap_err().to_string(),
            "cluster_id must not be empty"
        );
    }

    #[test]
    fn any_other_text_is_kept_as_it_is() {
        for text in [" ", "a\0b", "\u{1f600}", "../../etc"] {
            assert_eq!(ShardId::new(text).unwrap().as_str(), text);
        }
    }
}
