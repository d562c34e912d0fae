//! The hosts of the configuration, asked all at once; one that does not answer holds up none of the others.

use std::{sync::Arc, time::Duration};

use libvirt_backend::doctor::{Survey, survey};
use serde::Serialize;

use super::Page;
use crate::{
    cli::Look,
    command::{Failure, libvirt},
    config::Settings,
    table::{Table, bytes},
};

/// For one answer of a host.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize)]
struct Row {
    zone: String,
    host: String,
    cordon: bool,
    #[serde(flatten)]
    survey: Option<Survey>,
    error: Option<String>,
}

pub(super) async fn page(settings: &Settings, look: &Look) -> Result<Page, Failure> {
    let settings = Arc::new(libvirt(settings.clone())?);
    let mut asked = Vec::new();
    for (zone, hosts) in &settings.zones {
        for host in hosts {
            let (zone, host, settings) = (zone.to_string(), host.clone(), Arc::clone(&settings));
            asked.push(tokio::spawn(async move {
                let answer = survey(&settings, &host, PATIENCE).await;
                let error = answer.as_ref().err().map(providerkit::Error::report);
                let (cordon, survey) = (host.cordon, answer.ok());
                let host = host.name.to_string();
                Row {
                    zone,
                    host,
                    cordon,
                    survey,
                    error,
                }
            }));
        }
    }
    let mut rows = Vec::new();
    for row in asked {
        rows.push(row.await.map_err(Failure::internal)?);
    }
    Ok(Page::new(look, &rows, |wide| look.table(&table(&rows, wide))))
}

fn table(rows: &[Row], wide: bool) -> Table {
    let mut header = vec![
        "HOST",
        "ZONE",
        "STATUS",
        "CPUS USED",
        "MEMORY USED",
        "POOL FREE",
        "MACHINES",
    ];
    if wide {
        header.extend(["OTHERS", "RUNS ON", "LIBVIRT", "QEMU"]);
    }
    header.push("ERROR");
    let mut table = Table::new(&header);
    for Row {
        zone,
        host,
        cordon,
        survey,
        error,
    } in rows
    {
        let mut cells = vec![host.clone(), zone.clone()];
        match survey {
            None => {
                cells.push("down".into());
                cells.resize(header.len() - 1, String::new());
            }
            Some(it) => {
                let usable = it.accelerator.is_some() && it.pool_bytes.is_some();
                let status = match (usable, cordon) {
                    (false, _) => "unfit",
                    (true, true) => "cordoned",
                    (true, false) => "up",
                };
                cells.push(status.into());
                cells.push(format!("{}/{}", it.used_vcpus, it.cpus));
                cells.push(format!("{}/{} MiB", it.used_memory_mib, it.memory_mib));
                cells.push(match (it.pool_free_bytes, it.pool_bytes) {
                    (Some(free), Some(all)) => format!("{} of {}", bytes(free), bytes(all)),
                    _ => "no pool".into(),
                });
                cells.push(it.own_domains.to_string());
                if wide {
                    cells.push(it.other_domains.to_string());
                    cells.push(it.accelerator.clone().unwrap_or_default());
                    cells.extend([it.libvirt.clone(), it.qemu.clone()]);
                }
            }
        }
        let error = error.clone().unwrap_or_default();
        cells.push(if wide { error } else { super::shortened(&error) });
        table.row(cells);
    }
    table
}
