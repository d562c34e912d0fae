//! What neither the registered behaviours nor the baseline look at (contract §15, "Untested").

mod calls;
mod crash;
mod ledger;
mod lists;
mod model;
mod paging;
mod restart;
mod shape;
mod state_file;
mod tls;
mod transport;

use crate::behaviour::Behaviour;

pub(crate) fn all() -> Vec<Behaviour> {
    [
        calls::ALL,
        shape::ALL,
        lists::ALL,
        paging::ALL,
        transport::ALL,
        tls::ALL,
        restart::ALL,
        crash::ALL,
        state_file::ALL,
        model::ALL,
    ]
    .concat()
}
