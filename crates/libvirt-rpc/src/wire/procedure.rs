//! What can be called and what may arrive unasked.

use std::fmt;

use super::{
    Error,
    xdr::{Decode, Decoder, Encode},
};

/// A set of procedures with numbers of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Program(pub u32);

impl Program {
    /// Domains, networks, storage and all else that is common to the hypervisors.
    pub const REMOTE: Self = Self(super::remote::limit::PROGRAM);
    /// The monitor and the guest agent of QEMU domains.
    pub const QEMU: Self = Self(super::qemu::PROGRAM);
    /// LXC containers.
    pub const LXC: Self = Self(super::lxc::PROGRAM);
    /// The daemon itself, on its admin socket.
    pub const ADMIN: Self = Self(super::admin::PROGRAM);
    /// Pings.
    pub const KEEPALIVE: Self = Self(super::keepalive::PROGRAM);
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::REMOTE => f.write_str("remote"),
            Self::QEMU => f.write_str("qemu"),
            Self::LXC => f.write_str("lxc"),
            Self::ADMIN => f.write_str("admin"),
            Self::KEEPALIVE => f.write_str("keepalive"),
            Self(other) => write!(f, "{other:#x}"),
        }
    }
}

/// Which of the daemon's workers may run a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Exhaustive: the protocol knows no other.
pub enum Priority {
    /// May wait for a hypervisor, a disk or a guest; only ordinary workers run it.
    Low,
    /// Never waits long; workers kept for such calls run it even when the others are stuck.
    High,
}

/// Which way the stream goes that a call opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Exhaustive: the protocol knows no other.
pub enum Direction {
    /// The call opens no stream.
    None,
    /// From the daemon to the client.
    Read,
    /// From the client to the daemon.
    Write,
}

/// The facts about one procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// The program it belongs to.
    pub program: Program,
    /// Its number there.
    pub number: i32,
    /// Its name, `domain_create`.
    pub name: &'static str,
    /// Which workers may run it.
    pub priority: Priority,
    /// Which way its stream goes.
    pub stream: Direction,
    /// The flag that allows holes in its stream, or 0.
    pub sparse_flag: u32,
    /// Whether the daemon sends it, rather than the client.
    pub is_event: bool,
}

impl Info {
    pub(crate) const fn new(program: Program, number: i32, name: &'static str) -> Self {
        Self {
            program,
            number,
            name,
            priority: Priority::Low,
            stream: Direction::None,
            sparse_flag: 0,
            is_event: false,
        }
    }

    pub(crate) const fn high(mut self) -> Self {
        self.priority = Priority::High;
        self
    }

    pub(crate) const fn reads(mut self) -> Self {
        self.stream = Direction::Read;
        self
    }

    pub(crate) const fn writes(mut self) -> Self {
        self.stream = Direction::Write;
        self
    }

    pub(crate) const fn sparse(mut self, flag: u32) -> Self {
        self.sparse_flag = flag;
        self
    }

    pub(crate) const fn event(mut self) -> Self {
        self.is_event = true;
        self
    }

    /// The facts about a procedure, unless it is newer than this library.
    #[must_use]
    pub fn find(program: Program, number: i32) -> Option<&'static Self> {
        super::PROCEDURES
            .iter()
            .find(|info| info.program == program && info.number == number)
    }
}

/// A call: what is sent and what comes back.
pub trait Procedure {
    /// The arguments.
    type Args: Encode + Decode + Send + 'static;
    /// The reply.
    type Ret: Encode + Decode + Send + 'static;
    /// The facts about it.
    const INFO: Info;
}

/// The content of an event.
pub trait EventMessage: Encode + Decode {
    /// The facts about it.
    const INFO: Info;

    /// The subscription it was sent for; events of the time before callback ids have none.
    fn callback_id(&self) -> Option<i32>;
}

/// A payload as the one or the other type, as text.
pub(crate) fn either<C, R>(is_reply: bool, payload: &[u8]) -> Result<String, Error>
where
    C: Decode + fmt::Debug,
    R: Decode + fmt::Debug,
{
    let mut from = Decoder::new(payload);
    if is_reply {
        return R::decode(&mut from).map(|value| format!("{value:?}"));
    }
    C::decode(&mut from).map(|value| format!("{value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PROCEDURES;

    #[test]
    fn every_program_is_whole_and_in_order() {
        let count = |program| PROCEDURES.iter().filter(|i| i.program == program).count();
        assert!(count(Program::REMOTE) >= 453);
        assert_eq!(count(Program::QEMU), 7);
        assert_eq!(count(Program::LXC), 1);
        assert!(count(Program::ADMIN) >= 20);
        assert_eq!(count(Program::KEEPALIVE), 2);
        for pair in PROCEDURES.windows(2) {
            assert!(
                pair[0].program != pair[1].program || pair[0].number < pair[1].number,
                "{pair:?}"
            );
        }
    }

    #[test]
    fn annotations_reached_the_table() {
        let info = |number| Info::find(Program::REMOTE, number).unwrap();
        assert_eq!((info(12).name, info(12).priority), ("domain_destroy", Priority::High));
        assert_eq!((info(9).name, info(9).priority), ("domain_create", Priority::Low));
        assert_eq!((info(208).stream, info(208).sparse_flag), (Direction::Write, 1));
        assert_eq!((info(209).stream, info(209).sparse_flag), (Direction::Read, 1));
        assert!(info(318).is_event && !info(316).is_event);
        assert_eq!(
            PROCEDURES.iter().filter(|i| i.priority == Priority::High).count(),
            187 + 2
        );
        assert_eq!(Info::find(Program::REMOTE, 9999), None);
    }
}
