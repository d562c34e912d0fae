//! Guests, by way of their agents.

mod agent;
mod console;
mod idle;
mod run;

pub(crate) use self::{
    agent::{Agent, Ended, Permits},
    idle::{Guest, Stuck, wait},
    run::{Hook, Run},
};
