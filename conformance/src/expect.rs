//! What an answer must be.

use std::{collections::BTreeSet, fmt::Debug};

use tonic::{Code, Status};

use crate::{
    Outcome,
    client::Answer,
    outcome::{Stop, brief, ensure},
};

pub(crate) fn said<T: Debug>(answer: &Result<T, Status>) -> String {
    match answer {
        Ok(value) => format!("success: {}", brief(value)),
        Err(status) => format!("{:?}: {}", status.code(), status.message()),
    }
}

/// An answer that must not be an error.
pub(crate) fn success<T>(answer: Result<T, Status>, what: &str) -> Outcome<T> {
    answer.map_err(|status| {
        Stop::failed(
            format!("{what} to succeed"),
            format!("{:?}: {}", status.code(), status.message()),
        )
    })
}

/// The operation id of a call that must be accepted.
pub(crate) fn operation(answer: Answer, what: &str) -> Outcome<String> {
    let ack = success(answer, what)?;
    ensure!(
        !ack.operation_id.is_empty(),
        format!("{what} to be acknowledged with an operation id"),
        "an empty operation id"
    );
    Ok(ack.operation_id)
}

/// An error with exactly this code.
pub(crate) fn refused_with<T: Debug>(answer: &Result<T, Status>, code: Code, what: &str) -> Outcome {
    let fits = answer.as_ref().is_err_and(|status| status.code() == code);
    ensure!(fits, format!("{what} to be refused with {code:?}"), said(answer));
    Ok(())
}

/// The token was not newer than the mark.
pub(crate) fn fenced<T: Debug>(answer: &Result<T, Status>, what: &str) -> Outcome {
    refused_with(answer, Code::FailedPrecondition, what)
}

/// An error that BigFleet does not take for fencing.
pub(crate) fn refused<T: Debug>(answer: &Result<T, Status>, what: &str) -> Outcome {
    let fits = answer
        .as_ref()
        .is_err_and(|status| status.code() != Code::FailedPrecondition);
    let expected = format!("{what} to be refused with anything but FailedPrecondition");
    ensure!(fits, expected, said(answer));
    Ok(())
}

/// Success or an error, but not the one that means fencing.
pub(crate) fn not_fenced<T: Debug>(answer: &Result<T, Status>, what: &str) -> Outcome {
    let fits = answer
        .as_ref()
        .err()
        .is_none_or(|status| status.code() != Code::FailedPrecondition);
    ensure!(
        fits,
        format!("{what} to be answered by anything but FailedPrecondition"),
        said(answer)
    );
    Ok(())
}

pub(crate) fn is<T>(answer: &Result<T, Status>, code: Code) -> bool {
    answer.as_ref().is_err_and(|status| status.code() == code)
}

/// The one operation id of many racing calls, of which some may have been refused, but none for fencing.
pub(crate) fn single_operation(answers: &[Answer], what: &str) -> Outcome<String> {
    let mut ids = BTreeSet::new();
    for answer in answers {
        not_fenced(answer, what)?;
        if let Ok(ack) = answer {
            ids.insert(ack.operation_id.clone());
        }
    }
    let mut all = ids.iter();
    match (all.next(), all.next()) {
        (Some(id), None) if !id.is_empty() => Ok(id.clone()),
        _ => Err(Stop::failed(
            format!("{what}: at least one success, all with one operation id that is not empty"),
            format!("operation ids {ids:?}; {}", tally(answers)),
        )),
    }
}

fn tally(answers: &[Answer]) -> String {
    let succeeded = answers.iter().filter(|answer| answer.is_ok()).count();
    let first = answers.iter().find_map(|answer| answer.as_ref().err());
    let error = first.map_or_else(String::new, |status| {
        format!(", the first error {:?}: {}", status.code(), status.message())
    });
    format!("{succeeded} of {} succeeded{error}", answers.len())
}

/// All operation ids are given and differ.
pub(crate) fn distinct(ids: &[String], what: &str) -> Outcome {
    let set: BTreeSet<_> = ids.iter().filter(|id| !id.is_empty()).collect();
    ensure!(
        set.len() == ids.len(),
        format!("{what}: {} distinct operation ids", ids.len()),
        format!("{ids:?}")
    );
    Ok(())
}
