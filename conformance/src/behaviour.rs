//! What a behaviour is: one promise of a provider, with the function that checks it.

use std::{fmt, future::Future, pin::Pin};

use serde::Serialize;

use crate::{Context, Outcome};

/// What a check's function gives back.
pub(crate) type Checking<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// A promise of a provider.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Behaviour {
    /// The frozen name: `B302`, `TestConformance_FullLifecycle`, `X101`.
    pub id: &'static str,
    /// The chapter it belongs to.
    pub area: Area,
    /// The profiles that need it.
    pub profiles: &'static [Profile],
    /// What the provider must be able to do for it to make sense.
    pub needs: Option<Capability>,
    /// The kind of provider process it is checked on.
    pub lane: Lane,
    /// Whether others may run beside it on the same provider.
    pub isolation: Isolation,
    /// How many machines it takes.
    pub machines: usize,
    /// Which of them.
    pub kind: MachineKind,
    /// What is promised.
    pub title: &'static str,
    /// Who suffers where it is not kept.
    pub why: &'static str,
    /// How it is checked: counts, windows, limits.
    pub how: &'static str,
    pub(crate) run: for<'a> fn(&'a Context) -> Checking<'a>,
}

impl Behaviour {
    pub(crate) const fn new(
        id: &'static str,
        area: Area,
        [title, why, how]: [&'static str; 3],
        run: for<'a> fn(&'a Context) -> Checking<'a>,
    ) -> Self {
        Self {
            id,
            area,
            profiles: &[Profile::Core],
            needs: None,
            lane: Lane::Core,
            isolation: Isolation::Shared,
            machines: 1,
            kind: MachineKind::Any,
            title,
            why,
            how,
            run,
        }
    }

    pub(crate) const fn machines(mut self, machines: usize) -> Self {
        self.machines = machines;
        self
    }

    pub(crate) const fn profiles(mut self, profiles: &'static [Profile]) -> Self {
        self.profiles = profiles;
        self
    }

    /// Marks it as ours, and not of the registered 93.
    pub(crate) const fn extension(mut self) -> Self {
        self.profiles = &[Profile::Extension];
        self
    }

    pub(crate) const fn needs(mut self, capability: Capability) -> Self {
        self.needs = Some(capability);
        self
    }

    pub(crate) const fn lane(mut self, lane: Lane) -> Self {
        self.lane = lane;
        self
    }

    /// Nothing else may change the fleet while it runs.
    pub(crate) const fn alone(mut self) -> Self {
        self.isolation = Isolation::Alone;
        self
    }

    pub(crate) const fn kind(mut self, kind: MachineKind) -> Self {
        self.kind = kind;
        self
    }

    /// Whether it is a test of the upstream baseline.
    #[must_use]
    pub fn is_baseline(&self) -> bool {
        self.area == Area::Baseline
    }
}

impl fmt::Debug for Behaviour {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({}): {}", self.id, self.area.code(), self.title)
    }
}

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$case_doc:meta])* $case:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$case_doc])* #[serde(rename = $text)] $case,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$case),+];

            /// As people write it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$case => $text,)+
                }
            }

            /// Reads a name.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name() == text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.pad(self.name())
            }
        }
    };
}

named! {
    /// The chapters.
    Area {
        /// BL.
        Baseline = "upstream baseline",
        /// LC.
        Lifecycle = "lifecycle",
        /// TM.
        Transitions = "transition matrix and errors",
        /// FE.
        Fencing = "fencing",
        /// CI.
        Concurrency = "concurrency and idempotency",
        /// MD.
        Metadata = "metadata",
        /// TF.
        Failure = "timeouts and failure",
        /// FS.
        Fields = "field shape and cost",
        /// LR.
        Lists = "list, revision and paging",
        /// DR.
        Durability = "durability",
        /// SC.
        Scale = "scale and soak",
        /// PF.
        Property = "property and fuzz",
        /// TR, ours.
        Transport = "transport and process",
    }
}

impl Area {
    /// Two letters.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Baseline => "BL",
            Self::Lifecycle => "LC",
            Self::Transitions => "TM",
            Self::Fencing => "FE",
            Self::Concurrency => "CI",
            Self::Metadata => "MD",
            Self::Failure => "TF",
            Self::Fields => "FS",
            Self::Lists => "LR",
            Self::Durability => "DR",
            Self::Scale => "SC",
            Self::Property => "PF",
            Self::Transport => "TR",
        }
    }
}

named! {
    /// What a provider may be certified for.
    Profile {
        /// Everybody.
        Core = "core",
        /// Machines that can be given back.
        Cloud = "cloud",
        /// Machines that may be taken away.
        Spot = "spot",
        /// No behaviour carries it (contract, trap 3).
        BareMetal = "bare-metal",
        /// Failures of the substrate.
        Fault = "fault",
        /// State that survives the process.
        Durable = "durable",
        /// Thousands of machines.
        Scale = "scale",
        /// What the public program does not look at.
        Extension = "extension",
        /// Hours.
        Soak = "soak",
    }
}

named! {
    /// What not every provider can do. What is declared as not claimed is not asked for; what is claimed and cannot be
    /// checked leaves the verdict open.
    Capability {
        /// Machines can be given back.
        Delete = "delete",
        /// Lists have cursors.
        SinceRevision = "since-revision",
        /// Failures can be injected.
        Fault = "fault",
        /// State survives the process.
        Durable = "durable",
        /// Thousands of machines.
        Scale = "scale",
        /// Messages above gRPC's default of 4 MiB.
        LargeMessages = "large-messages",
        /// `grpc.health.v1`.
        Health = "health",
        /// Server reflection.
        Reflection = "reflection",
        /// TLS with client certificates that name a shard (ADR-0048).
        MutualTls = "mutual-tls",
    }
}

named! {
    /// The kinds of provider process.
    Lane {
        /// One process for all.
        Core = "core",
        /// A process that fails on demand.
        Fault = "fault",
        /// One process with a state file, killed and started again for all at the same time.
        Durable = "durable",
        /// One process with thousands of machines.
        Scale = "scale",
        /// Processes of its own.
        Own = "own",
        /// Processes of its own, for a long time.
        Soak = "soak",
    }
}

/// Whether a behaviour bears others beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// It only looks at its own machines.
    Shared,
    /// It looks at the whole fleet, its revision, or the clock.
    Alone,
}

/// Which machines a behaviour wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MachineKind {
    /// Any whose Create works.
    Any,
    /// One whose Create fails.
    CreateFails,
}
