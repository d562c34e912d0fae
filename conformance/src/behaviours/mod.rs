//! The 93 registered behaviours (contract §13), one file an area.

mod concurrency;
mod durability;
mod failure;
mod fencing;
mod fields;
mod lifecycle;
mod lists;
mod metadata;
mod property;
mod races;
mod scale;
mod tokens;
mod transitions;

use crate::behaviour::Behaviour;

pub(crate) use fields::{quantity, sound};

pub(crate) fn all() -> Vec<Behaviour> {
    [
        lifecycle::ALL,
        transitions::ALL,
        fencing::ALL,
        tokens::ALL,
        concurrency::ALL,
        races::ALL,
        metadata::ALL,
        failure::ALL,
        fields::ALL,
        lists::ALL,
        durability::ALL,
        scale::ALL,
        property::ALL,
    ]
    .concat()
}
