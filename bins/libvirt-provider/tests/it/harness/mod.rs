//! What every test here needs: a provider to talk to, a client to talk with, and words for what is expected.

mod binding;
mod client;
mod expect;
mod launch;
mod port;
mod random;
mod run;
mod step;
mod token;
mod walk;

pub(crate) use self::{
    binding::{Binding, Metadata},
    client::{Client, capped, only, since},
    expect::{expect_fenced, expect_ok, expect_refused, expect_status, operation, single_operation},
    launch::{Exit, Launch, Provider},
    port::fresh_port,
    random::Random,
    run::{End, Run},
    step::Step,
    token::{Shard, Token},
    walk::{AWAIT, HOLD, by_id, eventually, host_of},
};
