//! Every behaviour is held to a mutant that it must fail on, and the reference passes all of them.

use std::collections::{BTreeMap, BTreeSet};

use conformance::{
    Status,
    reference::{self, Place},
    registry,
};

use crate::{options, run};

/// Mutant, and what must catch it. The whole table is docs/conformance-mutants.md.
const CATCHES: &[(&str, &str)] = &[
    ("drain-keeps-metadata", "B101 B1202 B502 MetadataAndBindingClearOnDrain"),
    ("configure-shows-creating", "B103"),
    ("drain-shows-deleting", "B104"),
    ("create-shows-configuring", "B105"),
    ("cluster-late", "B106 X109"),
    ("idle-without-host", "B107 B803"),
    ("stable-wanders", "B108"),
    ("delete-shows-draining", "B109"),
    ("delete-keeps-host", "B807"),
    ("create-anywhere", "B201"),
    ("configure-anywhere", "B202"),
    ("drain-anywhere", "B203 DrainOnSpeculative"),
    ("delete-anywhere", "B204 DeleteOnConfigured"),
    ("replay-restarts", "B205"),
    ("replay-mints", "B206 B306 B307"),
    ("unknown-is-internal", "B207 GetUnknownMachine B1205"),
    ("unknown-delete-succeeds", "B215 DeleteUnknownMachine"),
    ("empty-id-not-found", "B208"),
    ("metadata-few", "B209"),
    ("negative-grace-internal", "B210"),
    ("small-messages", "B213 X301 X302"),
    ("ids-for-ever", "B214 X108"),
    ("fence-negative-internal", "B211"),
    ("fence-overflows", "B212"),
    ("fence-reveals-ghosts", "B301"),
    ("fence-per-shard", "B302 FencingPerMachineIsolation B1204"),
    ("fence-accepts-equal", "B303 B312 B1201 FencingUnknownShardAccepted"),
    ("fence-reads", "B305 FencingReadsUnaffected"),
    ("fence-zero-token", "B308"),
    ("fence-not-for-configure", "B309"),
    ("delete-unsupported", "B310"),
    ("fence-after-refusal", "B311"),
    ("fence-forgets-deleted", "X111"),
    ("fence-ignores-epoch", "FencingStaleEpochRejected"),
    ("fence-ignores-sequence", "FencingStaleSequenceRejected"),
    ("fence-needs-both", "FencingNewEpochResetsSequence"),
    ("fence-empty-shard-erratic", "X103"),
    (
        "race-mints",
        "B401 B402 B403 B406 B408 B409 CreateIdempotent ConfigureIdempotent DrainIdempotent DeleteIdempotent",
    ),
    ("drain-keeps-cluster", "B404"),
    ("fence-lowers-mark", "B405"),
    ("ids-shared", "B407"),
    ("ids-empty", "FullLifecycle"),
    ("metadata-cut-at-nul", "B501 MetadataEchoedOnGetAndList"),
    ("metadata-short", "B503"),
    ("metadata-late", "B504"),
    ("metadata-drops-empty", "B505"),
    ("metadata-drops-unknown", "MetadataUnknownKeysPreservedVerbatim"),
    ("label-forbidden", "B801"),
    ("no-instance-type", "LabelShape"),
    ("price-nan", "B802 CostFieldBounds"),
    ("quantity-tebi", "B804"),
    ("host-provider-changes", "B805"),
    ("no-zone", "B806"),
    ("resources-empty", "X110"),
    ("list-ignores-filter", "B901 ListFiltersByState"),
    ("list-ignores-cap", "B902 ListMaxResults"),
    ("delta-without-idle", "B903"),
    ("delta-inclusive", "B904 B908"),
    ("delta-last-only", "B905"),
    ("cursor-error", "B906"),
    ("page-skips", "B907 X205 X206"),
    ("cursor-lenient", "B909"),
    ("revision-stuck", "ListRevisionAdvances"),
    ("position-is-fenced", "B1203"),
    ("hidden-while-creating", "TransitionalStateObservability"),
    ("zero-grace-hangs", "DrainGraceTimeout"),
    ("replay-rebinds", "X101"),
    ("empty-cluster-accepted", "X102"),
    ("ack-without-machine", "X104"),
    ("refusals-move-revision", "X105"),
    ("only-caller-drives", "X106"),
    ("misleading-errors", "X107"),
    ("list-unknown-state-error", "X201"),
    ("list-negative-cap", "X202"),
    ("delta-ignores-filter", "X203"),
    ("list-fixed-order", "X204"),
    ("hidden-while-draining", "X207"),
    ("health-not-serving", "X401"),
    ("no-reflection", "X402"),
    ("connections-kill", "X403"),
    ("tls-1-2", "X404"),
    ("tls-optional-client", "X405"),
    ("san-ignored", "X406"),
    ("san-first", "X407"),
    ("tls-half-is-plain", "X408"),
    ("marks-lost", "B1001"),
    ("operations-lost", "B1002"),
    ("binding-lost", "B1003"),
    ("states-lost", "B1004"),
    ("ids-restart", "B1005"),
    ("interrupted-hangs", "B1006"),
    ("restart-trusts-nobody", "B1007"),
    ("cursor-restarts", "X501"),
    ("cursor-without-incarnation", "X502"),
    ("no-lock", "X503"),
    ("persist-late", "X505 X506 X901"),
    ("seeds-renamed", "X507"),
    ("ghost-marks-lost", "X508"),
    ("port-not-reused", "X509"),
    ("failed-recovers", "X510"),
    ("error-succeeds", "B701"),
    ("create-error-hangs", "B702"),
    ("no-timeout", "B703"),
    ("late-success-counts", "B704"),
    ("failed-restarts", "B705"),
    ("drain-error-hangs", "B706"),
    ("last-error-changes", "B707"),
    ("readiness-not-awaited", "B708"),
    ("list-short-when-large", "B1101"),
    ("scale-restless", "B1102"),
    ("scale-page-overlaps", "B1103"),
    ("residue-after-cycles", "B1104"),
    ("delete-forgets", "B1105"),
    ("slow-get", "B1106"),
    ("slow-list", "B1107"),
    ("creates-limited", "B1108"),
    ("scale-wanders", "B1109"),
];

/// Needs what not every machine allows: to mount a file system. `bigfleet-conformance mutants` holds it to one.
const ELSEWHERE: [&str; 1] = ["X504"];

fn full(id: &str) -> String {
    registry::find(id)
        .unwrap_or_else(|| panic!("there is no behaviour `{id}`"))
        .id
        .into()
}

#[test]
fn every_behaviour_is_held_to_a_mutant() {
    let mut held: BTreeSet<String> = ELSEWHERE.iter().map(|id| full(id)).collect();
    for (name, by) in CATCHES {
        assert!(reference::find(name).is_some(), "there is no mutant `{name}`");
        held.extend(by.split(' ').map(full));
    }
    let free: Vec<_> = registry::all()
        .into_iter()
        .filter(|one| !held.contains(one.id))
        .collect();
    assert!(free.is_empty(), "{free:?}");
}

/// Runs the mutants of a place, each against what must catch it.
async fn caught(place: Place) {
    let mut tasks = tokio::task::JoinSet::new();
    for (name, by) in CATCHES {
        let mutant = reference::find(name).unwrap();
        if mutant.place != place {
            continue;
        }
        let ids: Vec<String> = by.split(' ').map(full).collect();
        tasks.spawn(async move {
            let report = run(options(Some(mutant.name), place, &ids.join(","))).await;
            let by_id: BTreeMap<_, _> = report.rows.iter().map(|row| (row.id.as_str(), row)).collect();
            let missed: Vec<String> = ids
                .iter()
                .filter(|id| by_id[id.as_str()].status != Status::Failed)
                .map(|id| format!("{id} is {:?} on `{}`", by_id[id.as_str()].status, mutant.name))
                .collect();
            missed
        });
        while tasks.len() >= 4 {
            assert_eq!(tasks.join_next().await.unwrap().unwrap(), [""; 0]);
        }
    }
    while let Some(missed) = tasks.join_next().await {
        assert_eq!(missed.unwrap(), [""; 0]);
    }
}

async fn passes(place: Place, filter: &str) {
    let mut options = options(None, place, filter);
    // Here it may be slow.
    options.mapping.timeout_factor = Some(1.0);
    let report = run(options).await;
    let mut wrong = Vec::new();
    for row in &report.rows {
        let mount = row.id == "X504" && row.status == Status::Skipped && std::env::var_os("CI").is_none();
        if mount {
            eprintln!("*** SKIPPED X504: {:?}", row.reason);
        } else if matches!(row.status, Status::Failed | Status::Skipped) {
            wrong.push((&row.id, &row.failure, &row.reason));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(report.rows.iter().any(|row| row.status == Status::Passed));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_running_process_answers_wrongly_is_caught() {
    caught(Place::Wire).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_processes_is_caught() {
    caught(Place::Process).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_failures_is_caught() {
    caught(Place::Fault).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_thousands_is_caught() {
    caught(Place::Scale).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_answers_as_it_should() {
    passes(Place::Wire, "*").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_starts_and_restarts_as_it_should() {
    passes(Place::Process, "*").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_fails_as_it_should() {
    passes(Place::Fault, "*").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_bears_thousands() {
    // B1106 is about latencies, which tests that run side by side cannot promise.
    passes(Place::Scale, "B1101,B1102,B1103,B1104,B1105,B1107,B1108,B1109").await;
}
