//! The serial console of a machine, to watch.

use libvirt_rpc::{
    Connection, Options,
    stream::{Chunk, Stream},
    wire::constant::{domain::DomainConsoleFlags, error::ErrorNumber},
};
use providerkit_backend::{Bytes, Error, MachineId};

use crate::{
    failure::{Absent as _, Doing as _, Failure},
    name::DomainName,
    settings::Settings,
};

/// What a machine writes to its serial console from now on.
#[derive(Debug)]
pub struct Serial {
    stream: Stream,
    _connection: Connection,
}

impl Serial {
    /// Opens the console of a machine, wherever it is. Somebody else who has it open keeps it, or with `force` loses it.
    ///
    /// # Errors
    /// When no host has the machine, it does not run, or somebody else has its console.
    pub async fn open(settings: &Settings, machine: &MachineId, force: bool) -> Result<Self, Error> {
        let name = DomainName::new(&settings.provider, machine);
        let hosts = settings.zones.values().flatten();
        let mut asked = futures_util::future::join_all(hosts.map(|host| async {
            let connection = host.endpoint.connect_with(Options::default()).await;
            let connection = connection.doing(|| format!("connect to host `{}`", host.name))?;
            let found = connection.domain_lookup_by_name(name.as_str()).await.absent();
            let found = found.doing(|| format!("look up domain `{name}` on host `{}`", host.name))?;
            Ok::<_, Failure>(found.map(|domain| (connection, domain)))
        }))
        .await;
        let at = asked.iter().position(|answer| matches!(answer, Ok(Some(_))));
        let found = at.map(|at| asked.swap_remove(at));
        let Some(Ok(Some((connection, domain)))) = found else {
            // A host that did not answer may have it.
            let silent = asked.into_iter().find_map(Result::err);
            let nowhere = || Failure::told(format!("domain `{name}` of machine `{machine}` is on no host"));
            return Err(silent.unwrap_or_else(nowhere).into());
        };
        let flags = if force {
            DomainConsoleFlags::FORCE
        } else {
            DomainConsoleFlags::SAFE
        };
        let opened = connection.domain_open_console(&domain, None, flags).await;
        let stream = opened.map_err(|source| match source.code() {
            Some(ErrorNumber::ERR_OPERATION_INVALID) => Failure::told(format!("domain `{name}` does not run")),
            Some(ErrorNumber::ERR_OPERATION_FAILED) if !force => Failure::told(format!(
                "the console of domain `{name}` is open already; the provider listens to it while it makes the machine \
                 (--force takes it away): {source}"
            )),
            _ => Failure::Host {
                doing: format!("open the console of domain `{name}`"),
                source,
            },
        })?;
        Ok(Self {
            stream,
            _connection: connection,
        })
    }

    /// What comes next; nothing when the machine has stopped.
    ///
    /// # Errors
    /// When the connection is lost.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let next = self.stream.next().await.doing(|| "read on from the console".into())?;
            match next {
                None => return Ok(None),
                Some(Chunk::Data(data)) => return Ok(Some(data)),
                Some(_) => {}
            }
        }
    }
}
