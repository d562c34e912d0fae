//! What neither the registered behaviours nor the baseline look at (contract §15, "Untested").

use crate::behaviour::Behaviour;

pub(crate) fn all() -> Vec<Behaviour> {
    Vec::new()
}
