//! What an answer must be.

use std::{collections::BTreeSet, fmt::Debug};

use bigfleet_proto::TransitionAck;
use tonic::{Code, Status};

/// Texts by which BigFleet's shard sorts outcomes; an error of ours with one of them misleads its operators
/// (contract §3).
const MISLEADING: [&str; 16] = [
    "no active operator session",
    "→ Configuring",
    "→ Creating",
    "→ Draining",
    "→ Deleting",
    "post-Create transition",
    "post-Configure transition",
    "post-Drain transition",
    "post-Delete transition",
    "LocalBootstrap",
    "requestBootstrap",
    "expected Idle",
    "expected Speculative",
    "expected Configured",
    "inventory get",
    "missing source profile",
];

#[track_caller]
pub(crate) fn expect_ok<T>(answer: Result<T, Status>) -> T {
    match answer {
        Ok(value) => value,
        Err(status) => panic!("refused: {:?}: {}", status.code(), status.message()),
    }
}

#[track_caller]
pub(crate) fn expect_status<T: Debug>(answer: &Result<T, Status>, code: Code) {
    match answer {
        Ok(value) => panic!("{code:?} expected, answered {value:?}"),
        Err(status) => assert_eq!(status.code(), code, "{}", status.message()),
    }
}

/// The token was not newer than the mark.
#[track_caller]
pub(crate) fn expect_fenced<T: Debug>(answer: &Result<T, Status>) {
    expect_status(answer, Code::FailedPrecondition);
}

/// An error that BigFleet takes neither for fencing nor for a machine or a call that does not exist.
#[track_caller]
pub(crate) fn expect_refused<T: Debug>(answer: &Result<T, Status>) -> Status {
    let status = answer.as_ref().expect_err("an error was expected").clone();
    let (code, message) = (status.code(), status.message());
    let taken = [
        Code::FailedPrecondition,
        Code::NotFound,
        Code::Unimplemented,
        Code::Unavailable,
        Code::Unknown,
    ];
    assert!(!taken.contains(&code), "{code:?}: {message}");
    for text in MISLEADING {
        assert!(!message.contains(text), "{message:?} says {text:?}");
    }
    status
}

/// The operation id of an ack that has all an ack must have.
#[track_caller]
pub(crate) fn operation(answer: Result<TransitionAck, Status>) -> String {
    let ack = expect_ok(answer);
    assert!(!ack.operation_id.is_empty(), "no operation id: {ack:?}");
    assert!(ack.machine.is_some(), "no machine (trap 5): {ack:?}");
    ack.operation_id
}

/// The one operation id of many racing calls, of which some may have been refused, but none for fencing.
#[track_caller]
pub(crate) fn single_operation(answers: &[Result<TransitionAck, Status>]) -> String {
    let mut ids = BTreeSet::new();
    for answer in answers {
        match answer {
            Ok(_) => {
                ids.insert(operation(answer.clone()));
            }
            Err(_) => {
                expect_refused(answer);
            }
        }
    }
    assert_eq!(ids.len(), 1, "one operation expected: {ids:?} of {answers:?}");
    ids.pop_first().unwrap()
}
