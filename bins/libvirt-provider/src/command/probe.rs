//! `probe`: is it alive? For HEALTHCHECK, `helm test` and scripts; one line says what was seen.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
};

use anyhow::anyhow;
use providerkit_runtime::client::{Client, Health};

use super::{Exit, Failure, in_runtime};
use crate::cli::TargetArguments;

pub(super) fn run(target: &TargetArguments, health_only: bool) -> Result<Exit, Failure> {
    let target = target.parse().map_err(Failure::usage)?;
    in_runtime(async {
        let client = Client::connect(&target).await?;
        let health = client.health().await?;
        if health == Health::NotServing {
            let error = anyhow!("the provider at {} starts or stops: it is not serving", target.address);
            return Err(Failure::temporary(error));
        }
        let mut line = format!("{}: {health}", target.address);
        if !health_only {
            let machines = client.list().await?;
            let mut states = BTreeMap::<_, u32>::new();
            for machine in &machines {
                *states.entry(machine.state.as_str()).or_default() += 1;
            }
            let states = states.iter().map(|(state, count)| format!(", {count} {state}"));
            line.push_str(&format!(", {} machines{}", machines.len(), states.collect::<String>()));
        }
        writeln!(io::stdout().lock(), "{line}")?;
        Ok(Exit::Success)
    })
}
