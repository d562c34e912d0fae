//! The ways in which the reference can be broken, one rule each.

/// A way to break a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mutant {
    /// What `--mutant` takes.
    pub name: &'static str,
    /// What it does wrong.
    pub what: &'static str,
    /// Where it can show.
    pub place: Place,
}

/// Which lanes a mutant is run in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Place {
    /// What one running process answers.
    Wire,
    /// Starts, kills, state files, TLS.
    Process,
    /// Failures of the substrate.
    Fault,
    /// Thousands of machines.
    Scale,
}

const fn wire(name: &'static str, what: &'static str) -> Mutant {
    let place = Place::Wire;
    Mutant { name, what, place }
}

const fn process(name: &'static str, what: &'static str) -> Mutant {
    let place = Place::Process;
    Mutant { name, what, place }
}

const fn fault(name: &'static str, what: &'static str) -> Mutant {
    let place = Place::Fault;
    Mutant { name, what, place }
}

const fn scale(name: &'static str, what: &'static str) -> Mutant {
    let place = Place::Scale;
    Mutant { name, what, place }
}

/// All of them.
pub const MUTANTS: &[Mutant] = &[
    // The life of a machine.
    wire("drain-keeps-metadata", "metadata is still there after a drain"),
    wire("drain-keeps-cluster", "the cluster is still there after a drain"),
    wire(
        "configure-shows-creating",
        "CREATING is shown while a machine is configured",
    ),
    wire(
        "create-shows-configuring",
        "CONFIGURING is shown while a machine is created",
    ),
    wire("drain-shows-deleting", "DELETING is shown while a machine drains"),
    wire("delete-shows-draining", "DRAINING is shown while a machine is deleted"),
    wire(
        "cluster-late",
        "the cluster is set when a Configure ends, not when it begins",
    ),
    wire("idle-without-host", "IDLE machines have no host"),
    wire("creating-with-host", "CREATING machines have a host already"),
    wire("stable-wanders", "machines at rest go through DRAINING now and then"),
    wire("delete-keeps-host", "the host is still there after a Delete"),
    wire("delete-unsupported", "Delete is UNIMPLEMENTED"),
    wire("hidden-while-creating", "Get does not find a machine that is created"),
    wire("hidden-while-draining", "List leaves out machines that drain"),
    wire(
        "only-caller-drives",
        "a transition goes on only while its caller's connection asks for it",
    ),
    // Calls out of place.
    wire("create-anywhere", "Create is accepted at CONFIGURED"),
    wire("configure-anywhere", "Configure is accepted at SPECULATIVE"),
    wire("drain-anywhere", "Drain is carried out at IDLE and SPECULATIVE"),
    wire("delete-anywhere", "Delete is carried out at CONFIGURED"),
    wire("replay-restarts", "a repeated call runs the transition again"),
    wire("replay-mints", "a repeated call gets a new operation id"),
    wire(
        "race-mints",
        "a call that is repeated while it runs gets a new operation id",
    ),
    wire("replay-refused", "a repeated call at its target is an error"),
    wire("replay-rebinds", "a repeated Configure takes over its new arguments"),
    wire("ids-for-ever", "the operation id of a step is never renewed"),
    wire("ids-shared", "machines share operation ids"),
    wire("ids-empty", "operation ids are empty"),
    wire("unknown-is-internal", "unknown machines are INTERNAL"),
    wire("unknown-delete-succeeds", "Delete of an unknown machine succeeds"),
    wire("empty-id-not-found", "an empty id is NOT_FOUND"),
    wire("position-is-fenced", "calls out of place are FAILED_PRECONDITION"),
    wire("negative-grace-internal", "a negative grace period is INTERNAL"),
    wire(
        "negative-grace-fenced",
        "a hugely negative grace period is FAILED_PRECONDITION",
    ),
    wire("zero-grace-hangs", "a drain without grace never ends"),
    wire("empty-cluster-accepted", "a Configure onto no cluster is accepted"),
    wire(
        "small-messages",
        "messages above 2 MiB are not taken, above 4 MiB not sent",
    ),
    wire("misleading-errors", "errors are worded like the shard's own"),
    wire("refusals-move-revision", "a refused call moves the revision"),
    // Fencing.
    wire("fence-accepts-equal", "a token equal to the mark passes"),
    wire("fence-ignores-epoch", "only sequences are compared"),
    wire("fence-ignores-sequence", "only epochs are compared"),
    wire("fence-needs-both", "a new epoch must have a greater sequence too"),
    wire("fence-unsigned", "token numbers are read as unsigned"),
    wire("fence-overflows", "the greatest token is no mark"),
    wire("fence-lowers-mark", "a stale token becomes the mark"),
    wire("fence-after-refusal", "a refused call does not advance the mark"),
    wire("fence-not-for-configure", "Configure is not fenced"),
    wire("fence-not-for-drain", "Drain is not fenced"),
    wire("fence-per-shard", "one mark for all machines of a shard"),
    wire("fence-per-machine", "one mark for all shards of a machine"),
    wire("fence-forgets-deleted", "a Delete removes the machine's marks"),
    wire(
        "fence-reveals-ghosts",
        "unknown machines are NOT_FOUND before the fence",
    ),
    wire(
        "fence-first-contact-one",
        "a shard's first token must have epoch 2 or more",
    ),
    wire("fence-zero-token", "the zero token is fenced like any other"),
    wire(
        "fence-reads",
        "after a fenced call the machine cannot be read for a while",
    ),
    wire("fence-negative-internal", "negative tokens are INTERNAL"),
    wire("fence-negative-invalid", "negative tokens are INVALID_ARGUMENT"),
    wire(
        "fence-empty-shard-erratic",
        "a token without shard passes when it equals the mark",
    ),
    // Metadata.
    wire("metadata-cut-at-nul", "metadata values end at NUL"),
    wire("metadata-drops-empty", "empty metadata values are dropped"),
    wire("metadata-drops-unknown", "keys of `nobody/` are dropped"),
    wire("metadata-late", "metadata is set when a Configure ends"),
    wire(
        "metadata-merged",
        "a Configure adds to the metadata of the binding before",
    ),
    wire("metadata-few", "only 300 keys are kept"),
    wire("metadata-short", "values are cut at 4 KiB"),
    wire("metadata-internal", "metadata above 256 KiB is INTERNAL"),
    // Acks and records.
    wire("ack-without-machine", "acks carry no machine"),
    wire("ack-stale", "acks show the machine as it was before"),
    wire("label-forbidden", "a label `zone` contradicts the field"),
    wire("no-instance-type", "instance types are empty"),
    wire("no-zone", "zones are empty"),
    wire("price-nan", "a price is NaN"),
    wire("spot-certain", "spot machines have an interruption probability of 0"),
    wire("quantity-tebi", "memory is written in Ti"),
    wire("resources-empty", "an empty allocatable is sent"),
    wire("host-provider-changes", "the host's provider is another at CONFIGURED"),
    // Lists.
    wire("list-ignores-filter", "states are ignored"),
    wire("list-ignores-cap", "max_results is ignored"),
    wire("list-negative-cap", "a negative max_results is a cap of 0"),
    wire("list-twice", "IDLE machines are listed twice"),
    wire("list-unknown-state-error", "an unknown state is an error"),
    wire("list-fixed-order", "a capped list always begins with the same machine"),
    wire("revision-stuck", "the revision never moves"),
    wire("revision-restless", "the revision moves all the time"),
    wire("delta-inclusive", "a delta has the last change before its cursor too"),
    wire("delta-last-only", "a delta has the last change only"),
    wire("delta-without-idle", "a delta leaves out IDLE machines"),
    wire("delta-ignores-filter", "a delta has machines of every state"),
    wire("cursor-error", "what is no cursor is an error"),
    wire("cursor-empty", "what is no cursor lists nothing"),
    wire("cursor-lenient", "what follows a cursor is ignored"),
    wire(
        "page-overlaps",
        "a page begins with the last machine of the page before",
    ),
    wire("page-skips", "a machine is lost between two pages"),
    // Beside the contract's service.
    wire("health-not-serving", "health says NOT_SERVING"),
    wire("no-reflection", "reflection does not name the service"),
    // Processes.
    process("marks-lost", "marks are not kept over a restart"),
    process(
        "ghost-marks-lost",
        "marks of unknown machines are not kept over a restart",
    ),
    process("operations-lost", "operation ids are not kept over a restart"),
    process("binding-lost", "metadata is not kept over a restart"),
    process("states-lost", "every machine is SPECULATIVE after a restart"),
    process("ids-restart", "operation ids are counted from 1 after each start"),
    process("restart-trusts-nobody", "after a restart no new shard is accepted"),
    process(
        "interrupted-hangs",
        "a transition that a kill interrupts hangs for ever",
    ),
    process("failed-recovers", "FAILED machines are IDLE after a restart"),
    process("persist-late", "the state is written a little after the ack"),
    process(
        "cursor-without-incarnation",
        "cursors are counters, which start from 0 with each state",
    ),
    process("cursor-restarts", "after a restart the revision starts from 0"),
    process("seeds-renamed", "machines have other ids at every start"),
    process("no-lock", "two processes share a state file"),
    process(
        "disk-errors-ignored",
        "calls are acknowledged although they could not be written",
    ),
    process(
        "port-not-reused",
        "the port can only be bound after the kernel has forgotten it",
    ),
    process("connections-kill", "the process ends at its 30th connection"),
    process("tls-1-2", "TLS 1.2 is spoken"),
    process("tls-optional-client", "client certificates may be left out"),
    process("tls-half-is-plain", "half of a TLS configuration is no TLS"),
    process("san-ignored", "certificates may speak for any shard"),
    process("san-first", "of several shards in a certificate the first counts"),
    // Failures.
    fault("error-succeeds", "a Configure that errs is CONFIGURED"),
    fault("create-error-hangs", "a Create that errs hangs in CREATING"),
    fault("drain-error-hangs", "a Drain that errs hangs in DRAINING"),
    fault("no-timeout", "transitions have no limit"),
    fault("late-success-counts", "a success after the limit counts"),
    fault("failed-restarts", "calls are accepted at FAILED"),
    fault("failed-not-listed", "FAILED machines are not listed"),
    fault("last-error-empty", "last_error is empty"),
    fault("last-error-changes", "last_error is another at every Get"),
    fault("readiness-not-awaited", "CONFIGURED is said before the node is Ready"),
    // Thousands.
    scale(
        "list-short-when-large",
        "lists above 1,000 machines lack every hundredth",
    ),
    scale("slow-get", "Get takes 300 ms"),
    scale("slow-list", "lists above 1,000 machines take 3.2 s"),
    scale("creates-limited", "at most 8 Creates at a time"),
    scale(
        "residue-after-cycles",
        "last_error is set after the second drain of a machine",
    ),
    scale("delete-forgets", "every third deleted machine is gone"),
    scale("scale-no-zone", "zones are empty above 1,000 machines"),
    scale("scale-restless", "unrelated machines get a new revision all the time"),
    scale(
        "scale-page-overlaps",
        "a page begins with the last machine of the page before",
    ),
    scale("scale-wanders", "machines at rest go through DRAINING now and then"),
];

/// The one of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Mutant> {
    MUTANTS.iter().find(|mutant| mutant.name == name)
}
