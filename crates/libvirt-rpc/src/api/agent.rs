//! Commands to the guest agent itself.

use std::time::Duration;

use crate::{
    Connection, Error,
    wire::{
        qemu::{DomainAgentCommand, DomainAgentCommandArgs},
        remote::record::DomainRef,
        xdr::Text,
    },
};

/// How long the daemon waits for the agent. It cannot be told to wait for ever, which would cost it a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentTimeout(i32);

impl AgentTimeout {
    /// So long, in whole seconds of which there is at least one.
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        let seconds = timeout.as_secs().saturating_add(u64::from(timeout.subsec_nanos() > 0));
        Self(i32::try_from(seconds).unwrap_or(i32::MAX).max(1))
    }

    pub(crate) fn seconds(self) -> i32 {
        self.0
    }
}

impl Connection {
    /// Sends a command (JSON) to the guest agent and returns its answer (JSON), of at most 4 MiB.
    ///
    /// # Errors
    /// When there is no agent ([`Error::is_agent_unavailable`]), it refuses, or no answer comes.
    pub async fn domain_agent_command(
        &self,
        domain: &DomainRef,
        command: &str,
        timeout: AgentTimeout,
    ) -> Result<Option<String>, Error> {
        let args = DomainAgentCommandArgs {
            dom: domain.clone(),
            cmd: command.into(),
            timeout: timeout.seconds(),
            flags: 0,
        };
        let reply = self.call::<DomainAgentCommand>(&args).await?;
        Ok(reply.result.map(Text::into_string_lossy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_never_for_ever() {
        let seconds = |timeout| AgentTimeout::new(timeout).seconds();
        assert_eq!(seconds(Duration::ZERO), 1);
        assert_eq!(seconds(Duration::from_millis(1500)), 2);
        assert_eq!(seconds(Duration::MAX), i32::MAX);
    }
}
